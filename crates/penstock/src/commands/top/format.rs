//! Numbers as text.

use serde_json::Value;

/// The elements of a list; none if it is missing.
pub(super) fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Text without control characters, which a terminal would obey.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

const UNKNOWN: &str = "-";

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut size, mut place) = (value, 0);
    while size >= base && place + 1 < units.len() {
        size /= base;
        place += 1;
    }
    let unit = units.get(place).copied().unwrap_or_default();
    let digits = if size >= 100.0 || size.fract() == 0.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        2
    };
    format!("{size:.digits$} {unit}").trim_end().to_owned()
}

pub(super) fn bits(value: Option<f64>) -> String {
    value.map_or_else(
        || UNKNOWN.to_owned(),
        |bytes| scaled(8.0 * bytes, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
    )
}

pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

pub(super) fn count(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(value, 1000.0, &["", "k", "M"]))
}

pub(super) fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{}/s", scaled(value, 1000.0, &["", "k", "M"])))
}

pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

pub(super) fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(1e6 * value, 1000.0, &["µs", "ms", "s"]))
}

pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}
