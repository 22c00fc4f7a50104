//! The Date field, formatted once a second.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of the current second.
#[derive(Debug)]
pub(crate) struct DateCache(RefCell<(u64, String)>);

impl DateCache {
    pub(crate) fn new() -> Self {
        Self(RefCell::new((u64::MAX, String::new())))
    }

    /// Calls `write` with the HTTP date of `now`.
    pub(crate) fn with_date<R>(&self, now: SystemTime, write: impl FnOnce(&str) -> R) -> R {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let mut kept = self.0.borrow_mut();
        if kept.0 != second {
            *kept = (second, penstock_http::response::http_date(now));
        }
        write(&kept.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_second() {
        let cache = DateCache::new();
        let at = |seconds| UNIX_EPOCH + Duration::from_millis(seconds);
        let date = |now| cache.with_date(now, str::to_owned);
        assert_eq!(date(at(784_111_777_000)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(at(784_111_777_999)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(at(784_111_778_000)), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
