//! Until when a token is revoked, as operators write it.

use std::time::{SystemTime, UNIX_EPOCH};

use penstock_config::limits;

/// The end in seconds since 1970, of a time from now on such as `6h`, or of such seconds.
///
/// # Errors
/// What is wrong with it, and what to write.
pub(super) fn revocation_end(text: &str, now: SystemTime) -> Result<u64, String> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let latest = now.saturating_add(limits::REVOCATION_MAX.as_secs());
    let end = match text.parse() {
        Ok(seconds) => seconds,
        Err(_) => now.saturating_add(penstock_config::time(text)?.as_secs()),
    };
    if !(now..=latest).contains(&end) {
        let days = limits::REVOCATION_MAX.as_secs() / (24 * 3600);
        return Err(format!("expires={text} is not in the next {days} days; write the end of the token"));
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_end_is_a_time_from_now_on_or_seconds_since_1970() {
        let end = |text| revocation_end(text, UNIX_EPOCH + Duration::from_secs(1_000_000));
        assert_eq!(
            (end("6h"), end("1003600"), end("1000000")),
            (Ok(1_021_600), Ok(1_003_600), Ok(1_000_000))
        );
        assert_eq!(end("400d"), Ok(1_000_000 + 400 * 24 * 3600));
        for wrong in ["", "soon", "-1", "999999", "401d", "18446744073709551615", "18446744073709551616"] {
            assert!(end(wrong).is_err(), "{wrong}");
        }
    }
}
