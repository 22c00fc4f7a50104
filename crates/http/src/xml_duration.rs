//! Durations of XML Schema in manifests, read by `jiff`.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Reads a duration such as `PT1M30.5S` (XML Schema part 2 section 3.3.6). Years count as 365 days and months as 30. `None`
/// if it is malformed or negative.
pub fn xml_duration(text: &str) -> Option<Duration> {
    let span: Span = nine_fraction_digits(text.trim()).parse().ok()?;
    let days =
        i64::from(span.get_years()) * 365 + i64::from(span.get_months()) * 30 + i64::from(span.get_days());
    let span = span.years(0).months(0).try_days(days).ok()?;
    let total = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(total).ok()
}

/// Cuts fractions to nine digits: packagers write more, `jiff` reads no more.
pub fn nine_fraction_digits(text: &str) -> String {
    let mut fraction = None;
    let digits = |one: &char| match (*one, fraction) {
        ('.', _) => {
            fraction = Some(0);
            true
        }
        ('0'..='9', Some(count)) => {
            fraction = Some(count + 1);
            count < 9
        }
        _ => {
            fraction = None;
            true
        }
    };
    text.chars().filter(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_duration_are_added_up() {
        for (text, milliseconds) in
            [("PT4S", 4000), ("PT1M30.5S", 90_500), ("P1DT1H", 90_000_000), ("P1W", 604_800_000)]
        {
            let found = xml_duration(text).map(|found| found.as_millis());
            assert_eq!(found, Some(milliseconds), "{text}");
        }
        for text in ["", "4", "PT", "PTS", "PT-1S", "-PT1S", "P4S"] {
            assert_eq!(xml_duration(text), None, "{text}");
        }
    }
}
