//! Counters of the access log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::labels::LogLoss;

/// Counts the records of the access log. Any thread may count.
#[derive(Debug, Default)]
pub struct LogCounters {
    written: AtomicU64,
    lost: [AtomicU64; LogLoss::ALL.len()],
}

impl LogCounters {
    /// Counts records that were written to the file.
    pub fn written(&self, records: u64) {
        self.written.fetch_add(records, Relaxed);
    }

    /// Counts records that were dropped.
    pub fn lost(&self, why: LogLoss, records: u64) {
        self.lost[why as usize].fetch_add(records, Relaxed);
    }

    /// Records written since the start.
    #[must_use]
    pub fn total_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Records dropped for this reason since the start.
    #[must_use]
    pub fn total_lost(&self, why: LogLoss) -> u64 {
        self.lost[why as usize].load(Relaxed)
    }
}
