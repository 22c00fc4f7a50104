//! Durations and times of XML Schema, read by `jiff`.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use penstock_http::{nine_fraction_digits, xml_duration};

use crate::player::segments::TIME_MAX;

/// Reads a duration, `PT1M30.5S`, of at most [`TIME_MAX`].
pub(super) fn duration(text: &str) -> Option<Duration> {
    xml_duration(text).filter(|duration| *duration <= TIME_MAX)
}

/// Reads a time, `2026-11-21T17:00:00.5Z`, as the time since 1970. Without an offset it is UTC.
pub(super) fn moment(text: &str) -> Option<Duration> {
    let text = nine_fraction_digits(text.trim());
    let time: Timestamp = match text.parse() {
        Ok(time) => time,
        Err(_) if !text.contains(['Z', '+']) => {
            let local: DateTime = text.parse().ok()?;
            local.to_zoned(TimeZone::UTC).ok()?.timestamp()
        }
        Err(_) => return None,
    };
    Duration::try_from(time.duration_since(Timestamp::UNIX_EPOCH)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_added_up() {
        for (text, milliseconds) in [
            ("PT4S", 4000),
            ("PT1M30.5S", 90_500),
            ("P1DT1H", 90_000_000),
            ("P0Y0M0DT0H3M30.000S", 210_000),
            ("PT734.16705322265625S", 734_167),
            ("PT0S", 0),
            ("P1W", 604_800_000),
            ("P1Y1M", 395 * 86_400_000),
        ] {
            let found = duration(text).map(|found| found.as_millis());
            assert_eq!(found, Some(milliseconds), "{text}");
        }
        for text in ["", "4", "PT", "PTS", "PT4", "PT-1S", "-PT1S", "P4S", "PT99999999999999S"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_months_leap_years_and_offsets() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2026-11-21T17:00:00Z", 1_795_280_400),
            ("2026-11-21T17:00:00", 1_795_280_400),
            ("2026-11-21T18:00:00+01:00", 1_795_280_400),
            ("2026-11-21T12:30-04:30", 1_795_280_400),
        ] {
            assert_eq!(moment(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(moment("1970-01-01T00:00:01.25Z"), Some(Duration::from_millis(1250)));
        for text in
            ["", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "x-1-1T0:0:0Z", "1969-01-01T00:00:00Z"]
        {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
