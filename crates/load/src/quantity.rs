//! Times, sizes and rates on the command line.

use std::time::Duration;

/// Reads `250ms`, `3s`, `2m`, `1h`; a plain number is seconds, as with other generators.
///
/// # Errors
/// Shows valid examples.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let seconds = scaled(text, &units).filter(|seconds| *seconds <= 1e9);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write a time such as 250ms, 3s, 2m or 1h".to_owned())
}

/// Reads `1000`, `64KiB`, `1MB`.
///
/// # Errors
/// Shows valid examples.
pub fn bytes(text: &str) -> Result<u64, String> {
    const K: f64 = 1024.0;
    let units = [
        ("TiB", K * K * K * K),
        ("GiB", K * K * K),
        ("MiB", K * K),
        ("KiB", K),
        ("TB", 1e12),
        ("GB", 1e9),
        ("MB", 1e6),
        ("KB", 1e3),
        ("kB", 1e3),
        ("B", 1.0),
        ("", 1.0),
    ];
    let bytes = scaled(text, &units).filter(|bytes| *bytes < 9e18);
    bytes.map(whole).ok_or_else(|| "write a size such as 1000, 64KiB or 1MB".to_owned())
}

/// Reads a bitrate, `5Mbit` or `1.5Gbit`, in bits per second.
///
/// # Errors
/// Shows valid examples.
pub fn bitrate(text: &str) -> Result<u64, String> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let units =
        [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0), ("G", 1e9), ("M", 1e6), ("k", 1e3)];
    let bits = scaled(text, &units).filter(|bits| *bits >= 8.0 && *bits < 9e18);
    bits.map(whole).ok_or_else(|| "write a bitrate such as 800kbit, 5Mbit or 1.5Gbit".to_owned())
}

/// Reads a rate per second, `500` or `0.5`.
///
/// # Errors
/// Shows valid examples.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = scaled(text, &[("k", 1e3), ("/s", 1.0), ("", 1.0)]);
    rate.filter(|rate| (1e-3..=1e7).contains(rate))
        .ok_or_else(|| "write how many per second, from 0.001 to 10000000, such as 500 or 2k".to_owned())
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let number: f64 = number.parse().ok()?;
    Some(number * factor).filter(|value| value.is_finite())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers have looked at the range"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(duration("3s").unwrap(), Duration::from_secs(3));
        assert_eq!(duration("1.5m").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("10").unwrap(), Duration::from_secs(10));
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert_eq!(bytes("1MB").unwrap(), 1_000_000);
        assert_eq!(bytes("1000").unwrap(), 1000);
        assert_eq!(bitrate("5Mbit").unwrap(), 5_000_000);
        assert_eq!(bitrate("1.5Gbit/s").unwrap(), 1_500_000_000);
        assert!((rate("500").unwrap() - 500.0).abs() < 1e-9);
        assert!((rate("2k").unwrap() - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn malformed_quantities_are_refused() {
        for text in ["", "s", "-1s", "1d", "1 s", "1e9999s", "..", "3.4.5s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(bytes("1XB").is_err());
        assert!(bitrate("5MB").is_err());
        assert!(bitrate("1bit").is_err());
        assert!(rate("0").is_err());
    }
}
