//! One budget in bytes for everything in the program's own memory that grows with the number of cached objects.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget in bytes that several tables share.
///
/// A table charges what it takes and releases what it gives back. [`crate::Index`] evicts objects when the sum is over
/// the limit; other tables only charge, and so leave less to the index.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Counts `bytes` as taken.
    pub fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` as given back; they were charged before.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may be taken.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit).field("used", &self.used()).finish()
    }
}
