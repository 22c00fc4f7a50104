//! State that all disks share.

use std::sync::atomic::{AtomicU64, Ordering};

use super::index::DiskIndex;
use crate::event::Report;

/// State that all disks share.
pub(super) struct SharedState {
    pub(super) index: DiskIndex,
    /// Bytes that wait to be written.
    pub(super) in_flight: AtomicU64,
    pub(super) in_flight_max: u64,
    /// Slices that were not written because too many waited.
    pub(super) skipped: AtomicU64,
    /// The greatest id of an object or tombstone that was found on a disk so far.
    pub(super) newest_object: AtomicU64,
    pub(super) report: Report,
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
