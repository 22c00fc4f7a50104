//! Values of tags and attributes.

use std::time::Duration;

use penstock_http::m3u8::AttributeList;

/// Limits of durations and numbers, so that sums do not overflow.
const TIME_MAX: Duration = Duration::from_secs(10_000_000);
pub(super) const NUMBER_MAX: u64 = 1 << 62;

/// A token of a playlist as text: tokens are cut from UTF-8 at ASCII characters and stay UTF-8.
pub(super) fn utf8(token: &[u8]) -> &str {
    str::from_utf8(token).unwrap_or_default()
}

/// The value of an attribute, without quotes.
pub(super) fn attribute<'t>(list: &'t str, name: &str) -> Option<&'t str> {
    let mut attributes = AttributeList::new(list.as_bytes());
    attributes.find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| utf8(value))
}

/// The value of an attribute in seconds.
pub(super) fn seconds(list: &str, name: &str) -> Option<Duration> {
    time(attribute(list, name)?)
}

/// Seconds with a fraction.
pub(super) fn time(text: &str) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()?;
    (time <= TIME_MAX).then_some(time)
}

/// `LENGTH[@START]`.
pub(super) fn length_and_start(text: &str) -> Option<(u64, Option<u64>)> {
    let text = text.trim();
    match text.split_once('@') {
        Some((length, start)) => Some((length.parse().ok()?, Some(start.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The byte range `first-last`.
pub(super) fn shown_range(start: u64, length: u64) -> String {
    format!("{start}-{}", start.saturating_add(length).saturating_sub(1))
}
