//! The Date field, formatted once a second.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The text of the current second.
#[derive(Debug)]
pub(crate) struct DateCache(RefCell<Kept>);

#[derive(Debug, Default)]
struct Kept {
    text: String,
    /// The end of the second.
    until: Option<Instant>,
}

impl DateCache {
    pub(crate) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Calls `write` with the HTTP date of the system's clock at `now`. That clock is read once a second.
    pub(crate) fn with_date<R>(&self, now: Instant, write: impl FnOnce(&str) -> R) -> R {
        self.with_date_of(now, SystemTime::now, write)
    }

    fn with_date_of<R>(
        &self,
        now: Instant,
        clock: impl FnOnce() -> SystemTime,
        write: impl FnOnce(&str) -> R,
    ) -> R {
        let mut kept = self.0.borrow_mut();
        if kept.until.is_none_or(|until| now >= until) {
            let time = clock();
            let passed = time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
            let until = now + Duration::from_secs(1) - Duration::from_nanos(passed.into());
            *kept = Kept { text: penstock_http::response::http_date(time), until: Some(until) };
        }
        write(&kept.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_second() {
        let cache = DateCache::new();
        let start = Instant::now();
        let at = |milliseconds| {
            let passed = Duration::from_millis(milliseconds);
            let clock = || UNIX_EPOCH + Duration::from_millis(784_111_777_600) + passed;
            cache.with_date_of(start + passed, clock, str::to_owned)
        };
        assert_eq!(at(0), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(399), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(400), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(at(1400), "Sun, 06 Nov 1994 08:49:39 GMT");
    }
}
