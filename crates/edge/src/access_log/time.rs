//! The time of a line.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// `2026-11-27T09:30:00` and `2026-11-27T09:30:00.000Z`.
const SECOND_BYTES: usize = 19;
const BYTES: usize = 24;

thread_local! {
    /// The last second that this thread has shown, and its text: most lines are of the same second as the line before.
    static SHOWN: Cell<(i64, [u8; SECOND_BYTES])> = const { Cell::new((i64::MIN, [0; SECOND_BYTES])) };
}

/// A time in UTC with milliseconds (RFC 3339). A clock set before 1970 shows 1970.
pub(super) struct Rfc3339([u8; BYTES]);

impl Rfc3339 {
    pub(super) fn of(time: SystemTime) -> Self {
        let time = timestamp(time);
        let (mut second, mut text) = SHOWN.get();
        if second != time.as_second() {
            second = time.as_second();
            text.copy_from_slice(&format!("{time:.0}").as_bytes()[..SECOND_BYTES]);
            SHOWN.set((second, text));
        }
        let milliseconds = time.as_millisecond() - 1000 * second;
        let digit = |unit: i64| b'0' + (milliseconds / unit % 10).to_le_bytes()[0];
        let mut shown = [0; BYTES];
        shown[..SECOND_BYTES].copy_from_slice(&text);
        shown[SECOND_BYTES..].copy_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
        Self(shown)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The time; times beyond the year 9999 are shown as its last second.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shown(seconds: u64, milliseconds: u64) -> String {
        let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(milliseconds);
        str::from_utf8(Rfc3339::of(time).as_bytes()).unwrap().to_owned()
    }

    #[test]
    fn times_are_shown_in_utc_with_milliseconds() {
        assert_eq!(shown(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(shown(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(shown(1_709_251_199, 0), "2024-02-29T23:59:59.000Z");
        assert_eq!(shown(1_735_689_599, 0), "2024-12-31T23:59:59.000Z");
        assert_eq!(shown(1_735_689_600, 0), "2025-01-01T00:00:00.000Z");
        assert_eq!(shown(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
        // The text of a second serves its next lines, and those of an earlier second get their own.
        assert_eq!(shown(4_107_542_400, 120), "2100-03-01T00:00:00.120Z");
        assert_eq!(shown(0, 45), "1970-01-01T00:00:00.045Z");
        assert_eq!(shown(999_999_999_999, 0), "9999-12-30T22:00:00.999Z");
    }

    #[test]
    fn a_clock_before_1970_shows_1970() {
        assert_eq!(Rfc3339::of(UNIX_EPOCH - Duration::from_secs(1)).as_bytes(), b"1970-01-01T00:00:00.000Z");
    }
}
