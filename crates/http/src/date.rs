//! Dates in fields (RFC 9110 §5.6.7).

use std::time::SystemTime;

/// The days of the week, in their short and their long form.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const SHORT_DAY_BYTES: usize = 3;

/// The longest text that is read as a date, in bytes.
const BYTES_MAX: usize = 64;

/// Reads a date in one of the three forms. The case of names has no meaning (RFC 9111 §4.2), nor has a day of the week that
/// is not that of the date, since the date alone says when it is. `None` for anything else, such as another time zone.
pub fn parse(text: &str) -> Option<SystemTime> {
    if let Ok(time) = httpdate::parse_http_date(text) {
        return Some(time);
    }
    let text = text.trim();
    if text.len() > BYTES_MAX || !text.is_ascii() {
        return None;
    }
    let text = usual_case(text);
    let end = text.find(|one: char| !one.is_ascii_alphabetic())?;
    let (day, rest) = text.split_at(end);
    let names = || DAYS.iter().map(|name| if end == SHORT_DAY_BYTES { &name[..end] } else { name });
    if !names().any(|name| name == day) {
        return None;
    }
    names().find_map(|name| httpdate::parse_http_date(&format!("{name}{rest}")).ok())
}

/// The text with names in the case that RFC 9110 gives them.
fn usual_case(text: &str) -> String {
    let mut is_first = true;
    let case = |one: char| {
        let is_start = std::mem::replace(&mut is_first, !one.is_ascii_alphabetic());
        if is_start { one.to_ascii_uppercase() } else { one.to_ascii_lowercase() }
    };
    let cased: String = text.chars().map(case).collect();
    match cased.strip_suffix("Gmt") {
        Some(date) => format!("{date}GMT"),
        None => cased,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_case_of_names_and_a_wrong_day_of_the_week_have_no_meaning() {
        let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "SUN, 06 NOV 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            " sat, 06 nov 1994 08:49:37 Gmt ",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "tuesday, 06-nov-94 08:49:37 gmt",
            "Sun Nov  6 08:49:37 1994",
            "fri nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
    }

    #[test]
    fn another_text_is_no_date() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Foo, 06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "S\u{fc}n, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
