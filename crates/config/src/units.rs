//! Sizes and times in configurations and options.

use std::fmt;
use std::time::Duration;

use crate::limits::{GIB, KIB, MIB};

/// A number of bytes: `4MiB`, `512KB` or plain `4194304`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(
    /// Bytes.
    pub(crate) u64,
);

/// A span of time: `250ms`, `5s`, `10m`, `12h`, `180d`; plain `0` needs no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(
    /// Exact to the millisecond.
    pub(crate) Duration,
);

/// Parses a time such as `30s`.
///
/// # Errors
/// The fault and its remedy.
pub fn time(text: &str) -> Result<Duration, String> {
    Time::parse(text).map(|time| time.0).map_err(|UnitError { what, instead }| format!("{what}; {instead}"))
}

/// Text that is no size or time, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitError {
    /// The fault.
    pub(crate) what: String,
    /// The remedy, such as `write 64KiB`.
    pub(crate) instead: String,
}

const TIB: u64 = 1024 * GIB;

/// Unit and bytes, largest first, so that printing finds the largest that fits.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", TIB),
    ("TB", 1_000_000_000_000),
    ("GiB", GIB),
    ("GB", 1_000_000_000),
    ("MiB", MIB),
    ("MB", 1_000_000),
    ("KiB", KIB),
    ("KB", 1000),
    ("B", 1),
];

/// Unit and milliseconds, largest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 24 * 3_600_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl Size {
    /// Reads a size.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub(crate) fn parse(text: &str) -> Result<Self, UnitError> {
        let (number, unit) =
            split(text, "a size", "write a whole number with KiB, MiB or GiB, such as 64KiB")?;
        let factor = match SIZE_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() => 1,
            None => return Err(wrong_size_unit(number, unit)),
        };
        number.checked_mul(factor).map(Self).ok_or_else(|| UnitError {
            what: format!("`{text}` is more bytes than can be counted"),
            instead: "write a smaller size".to_owned(),
        })
    }
}

impl Time {
    /// Reads a span of time.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub(crate) fn parse(text: &str) -> Result<Self, UnitError> {
        let (number, unit) =
            split(text, "a time", "write a whole number with ms, s, m, h or d, such as 30s")?;
        let factor = match TIME_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() && number == 0 => 1,
            None => return Err(wrong_time_unit(number, unit)),
        };
        let milliseconds = number.checked_mul(factor).ok_or_else(|| UnitError {
            what: format!("`{text}` is longer than can be counted"),
            instead: "write a shorter time".to_owned(),
        })?;
        Ok(Self(Duration::from_millis(milliseconds)))
    }
}

/// A size with a decimal unit, such as `1MB`, with the binary unit that was probably meant: `1MiB`.
pub(crate) fn binary_unit(text: &str) -> Option<String> {
    let (number, unit) = split(text, "", "").ok()?;
    let first = unit.strip_suffix('B').filter(|first| first.len() == 1)?;
    Some(format!("{number}{first}iB"))
}

impl fmt::Display for Size {
    /// In the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: u64| self.0 >= factor && self.0.is_multiple_of(factor);
        match SIZE_UNITS.iter().find(|(_, factor)| fits(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => f.write_str("0"),
        }
    }
}

impl fmt::Display for Time {
    /// In the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        let fits = |factor: u64| {
            milliseconds >= u128::from(factor) && milliseconds.is_multiple_of(u128::from(factor))
        };
        match TIME_UNITS.iter().find(|(_, factor)| fits(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", milliseconds / u128::from(*factor)),
            None => f.write_str("0"),
        }
    }
}

/// Splits a number from its unit. A space between them is accepted.
fn split<'t>(text: &'t str, kind: &str, instead: &str) -> Result<(u64, &'t str), UnitError> {
    let fault = || UnitError { what: format!("`{text}` is not {kind}"), instead: instead.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(fault)?;
    let number = number.parse().map_err(|_| fault())?;
    let unit = unit.trim_start();
    if !unit.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(fault());
    }
    Ok((number, unit))
}

fn wrong_size_unit(number: u64, unit: &str) -> UnitError {
    let wanted = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => Some("KiB"),
        "m" | "mb" | "mib" => Some("MiB"),
        "g" | "gb" | "gib" => Some("GiB"),
        "t" | "tb" | "tib" => Some("TiB"),
        "b" => Some("B"),
        _ => None,
    };
    UnitError {
        what: format!("`{unit}` is not a unit of size"),
        instead: match wanted {
            Some(wanted) => format!("write {number}{wanted}"),
            None => format!("write KiB, MiB or GiB, such as {number}KiB"),
        },
    }
}

fn wrong_time_unit(number: u64, unit: &str) -> UnitError {
    if unit.is_empty() {
        return UnitError {
            what: format!("`{number}` is a time without a unit"),
            instead: format!("write {number}s for seconds or {number}ms for milliseconds"),
        };
    }
    let wanted = match unit.to_ascii_lowercase().as_str() {
        "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    };
    UnitError {
        what: format!("`{unit}` is not a unit of time"),
        instead: match wanted {
            Some(wanted) => format!("write {number}{wanted}"),
            None => format!("write ms, s, m, h or d, such as {number}s"),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size_fault(text: &str) -> String {
        let fault = Size::parse(text).unwrap_err();
        format!("{}; {}", fault.what, fault.instead)
    }

    fn time_fault(text: &str) -> String {
        let fault = Time::parse(text).unwrap_err();
        format!("{}; {}", fault.what, fault.instead)
    }

    #[test]
    fn sizes_have_binary_decimal_and_no_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("100B", 100),
            ("64KiB", 65_536),
            ("512KB", 512_000),
            ("4MiB", 4_194_304),
            ("4MB", 4_000_000),
            ("1GiB", 1_073_741_824),
            ("1GB", 1_000_000_000),
            ("2TiB", 2_199_023_255_552),
            ("2TB", 2_000_000_000_000),
            ("4 MiB", 4_194_304),
        ] {
            assert_eq!(Size::parse(text), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("5s", 5000),
            ("10m", 600_000),
            ("12h", 43_200_000),
            ("180d", 15_552_000_000),
        ] {
            assert_eq!(Time::parse(text), Ok(Time(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn wrong_units_of_size_are_told_the_right_one() {
        assert_eq!(size_fault("64k"), "`k` is not a unit of size; write 64KiB");
        assert_eq!(size_fault("4mb"), "`mb` is not a unit of size; write 4MiB");
        assert_eq!(size_fault("1G"), "`G` is not a unit of size; write 1GiB");
        assert_eq!(size_fault("5s"), "`s` is not a unit of size; write KiB, MiB or GiB, such as 5KiB");
        assert_eq!(
            size_fault("1.5MiB"),
            "`1.5MiB` is not a size; write a whole number with KiB, MiB or GiB, such as 64KiB"
        );
        assert_eq!(
            size_fault(""),
            "`` is not a size; write a whole number with KiB, MiB or GiB, such as 64KiB"
        );
        assert_eq!(
            size_fault("-1"),
            "`-1` is not a size; write a whole number with KiB, MiB or GiB, such as 64KiB"
        );
        assert_eq!(
            size_fault("99999999TiB"),
            "`99999999TiB` is more bytes than can be counted; write a smaller size"
        );
    }

    #[test]
    fn wrong_units_of_time_are_told_the_right_one() {
        assert_eq!(
            time_fault("30"),
            "`30` is a time without a unit; write 30s for seconds or 30ms for milliseconds"
        );
        assert_eq!(time_fault("30sec"), "`sec` is not a unit of time; write 30s");
        assert_eq!(time_fault("5min"), "`min` is not a unit of time; write 5m");
        assert_eq!(time_fault("5MiB"), "`MiB` is not a unit of time; write ms, s, m, h or d, such as 5s");
        assert_eq!(
            time_fault("1h30m"),
            "`1h30m` is not a time; write a whole number with ms, s, m, h or d, such as 30s"
        );
        assert_eq!(
            time_fault("999999999999d"),
            "`999999999999d` is longer than can be counted; write a shorter time"
        );
    }

    proptest! {
        #[test]
        fn printed_units_are_read_back_the_same(bytes: u64, milliseconds: u64) {
            let size = Size(bytes);
            prop_assert_eq!(Size::parse(&size.to_string()), Ok(size));
            let time = Time(Duration::from_millis(milliseconds));
            prop_assert_eq!(Time::parse(&time.to_string()), Ok(time));
        }

        #[test]
        fn whatever_is_accepted_prints_as_the_same_quantity(text in "[0-9]{0,20} ?[A-Za-z]{0,4}|.{0,40}") {
            if let Ok(size) = Size::parse(&text) {
                prop_assert_eq!(Size::parse(&size.to_string()), Ok(size));
            }
            if let Ok(time) = Time::parse(&text) {
                prop_assert_eq!(Time::parse(&time.to_string()), Ok(time));
            }
        }
    }
}
