//! Formats of numbers and names.

use std::time::Duration;

use crate::plan::LoadMode;

/// The name of a mode on the command line.
pub(super) fn mode_name(mode: &LoadMode) -> &'static str {
    match mode {
        LoadMode::Handshakes { .. } => "handshakes",
        LoadMode::Requests => "requests",
        LoadMode::Download { .. } => "download",
        LoadMode::Playback(_) => "playback",
    }
}

/// Events per second.
#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn milliseconds(duration: Duration) -> String {
    let value = duration.as_secs_f64() * 1e3;
    let digits = if value < 10.0 {
        3
    } else if value < 1000.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} ms")
}

pub(super) fn seconds(duration: Duration) -> String {
    let value = duration.as_secs_f64();
    if duration > Duration::ZERO && value < 0.95 {
        return format!("{:.0} ms", (value * 1e3).ceil());
    }
    if value.fract() < 0.05 { format!("{value:.0} s") } else { format!("{value:.1} s") }
}

#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
pub(super) fn bits(bytes: u64, elapsed: Duration) -> String {
    let bits = bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9);
    let (value, unit) = match bits {
        1e9.. => (bits / 1e9, "Gbit/s"),
        1e6.. => (bits / 1e6, "Mbit/s"),
        _ => (bits / 1e3, "kbit/s"),
    };
    format!("{value:.2} {unit}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative")]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_so_that_they_can_be_read() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(milliseconds(Duration::from_micros(1234)), "1.234 ms");
        assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(seconds(Duration::from_secs(3)), "3 s");
        assert_eq!(seconds(Duration::from_millis(3_210)), "3.2 s");
        assert_eq!(seconds(Duration::from_micros(52_300)), "53 ms");
        assert_eq!(seconds(Duration::ZERO), "0 s");
        assert_eq!(bits(1_250_000_000, Duration::from_secs(1)), "10.00 Gbit/s");
    }
}
