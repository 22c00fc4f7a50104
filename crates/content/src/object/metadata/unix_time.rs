//! Times of day in four bytes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole seconds since 1970, up to 2106.
pub(super) fn since_1970(time: SystemTime) -> u32 {
    u32::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()).unwrap_or(u32::MAX)
}

/// The time so many seconds after the beginning of 1970.
pub(super) fn at(since_1970: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(since_1970.into())
}
