//! Sizes and times of nginx, as Penstock writes them.

/// A size such as `10g`; `None` if it is none.
pub(crate) fn size(text: &str) -> Option<String> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "" => "",
        "k" | "K" => "KiB",
        "m" | "M" => "MiB",
        "g" | "G" => "GiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// A time such as `1h30m`, in milliseconds. Without a unit it is in seconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|first: char| first.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|first: char| first.is_ascii_alphabetic()).len();
        let factor = match &rest[..letters] {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = rest[letters..].trim_start();
    }
    Some(total)
}

/// A time as Penstock writes it.
pub(crate) fn time(text: &str) -> Option<String> {
    let total = milliseconds(text)?;
    Some(match total {
        0 => "0".to_owned(),
        _ if total % 86_400_000 == 0 => format!("{}d", total / 86_400_000),
        _ if total % 3_600_000 == 0 => format!("{}h", total / 3_600_000),
        _ if total % 60_000 == 0 => format!("{}m", total / 60_000),
        _ if total % 1000 == 0 => format!("{}s", total / 1000),
        _ => format!("{total}ms"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_penstock() {
        for (text, expected) in [
            ("10g", Some("10GiB")),
            ("1M", Some("1MiB")),
            ("512k", Some("512KiB")),
            ("7", Some("7")),
            ("x", None),
        ] {
            assert_eq!(size(text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("1h30m", Some("90m")),
            ("1h 30m", Some("90m")),
            ("60", Some("1m")),
            ("500ms", Some("500ms")),
            ("1w", Some("7d")),
            ("1M", Some("30d")),
            ("0", Some("0")),
            ("", None),
            ("off", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(time(text).as_deref(), expected, "{text}");
        }
    }
}
