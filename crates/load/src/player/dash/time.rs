//! Durations and moments as XML Schema writes them.

use std::time::Duration;

const DAY_SECONDS: f64 = 86_400.0;

/// A duration: `PT1M30.5S`. Years and months count as 365 and 30 days.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (days, time) = text.split_once('T').unwrap_or((text, ""));
    let of_days = [('Y', 365.0), ('M', 30.0), ('W', 7.0), ('D', 1.0)];
    let of_time = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    super::super::time(sum(days, &of_days)? * DAY_SECONDS + sum(time, &of_time)?)
}

fn sum(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut total = 0.0;
    while !text.is_empty() {
        let end = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (_, unit) = units.iter().find(|(letter, _)| text[end..].starts_with(*letter))?;
        total += text[..end].parse::<f64>().ok()? * unit;
        text = &text[end + 1..];
    }
    Some(total)
}

/// A moment, `2026-11-21T17:00:00.5Z` or with an offset such as `+01:00`, since the beginning of 1970.
pub(super) fn moment(text: &str) -> Option<Duration> {
    let (date, rest) = text.trim().split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone_at);
    let mut parts = time.splitn(3, ':');
    let (hours, minutes): (f64, f64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let offset_minutes = match zone.chars().next() {
        Some(sign @ ('+' | '-')) => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = hours.parse::<f64>().ok()? * 60.0 + minutes.parse::<f64>().ok()?;
            if sign == '-' { -minutes } else { minutes }
        }
        _ => 0.0,
    };
    #[expect(clippy::cast_precision_loss, reason = "days since 1970 are few")]
    let days = days_since_1970(year, month, day) as f64;
    let of_day = hours * 3600.0 + (minutes - offset_minutes) * 60.0 + seconds;
    super::super::time(days * DAY_SECONDS + of_day)
}

/// In the Gregorian calendar, counted in eras of 400 years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_added_up() {
        for (text, milliseconds) in
            [("PT4S", 4000), ("PT1M30.5S", 90_500), ("P1DT1H", 90_000_000), ("PT0S", 0), ("P1W", 604_800_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "4", "PT", "PTS", "PT4", "PT-1S", "P4S"] {
            let is_empty = text == "PT";
            assert_eq!(duration(text).is_some(), is_empty, "{text}");
        }
    }

    #[test]
    fn moments_know_months_leap_years_and_offsets() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2026-11-21T17:00:00Z", 1_795_280_400),
            ("2026-11-21T18:00:00+01:00", 1_795_280_400),
            ("2026-11-21T12:30-04:30", 1_795_280_400),
        ] {
            assert_eq!(moment(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(moment("1970-01-01T00:00:01.25Z"), Some(Duration::from_millis(1250)));
        for text in ["", "2026-11-21", "2026-13-01T00:00:00Z", "x-1-1T0:0:0Z", "1969-01-01T00:00:00Z"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
