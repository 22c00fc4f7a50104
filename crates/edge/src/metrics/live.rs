//! Counters of live streams.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::shard::Shard;

/// What became of fetches before anybody asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetched {
    /// A segment is fetched.
    SegmentStarted,
    /// Somebody asked for it.
    SegmentUseful,
    /// Nobody did before it went.
    SegmentWasted,
    /// A slice is fetched.
    SliceStarted,
    /// A reader came to it.
    SliceUseful,
    /// None did before it went.
    SliceWasted,
    /// A segment was not fetched since too many were on their way.
    SegmentSkipped,
}

impl Prefetched {
    /// All of them; the last is not among the outcomes of what has begun.
    pub const ALL: [Self; 7] = [
        Self::SegmentStarted,
        Self::SegmentUseful,
        Self::SegmentWasted,
        Self::SliceStarted,
        Self::SliceUseful,
        Self::SliceWasted,
        Self::SegmentSkipped,
    ];

    pub(super) fn labels(self) -> [&'static str; 2] {
        match self {
            Self::SegmentStarted => ["segment", "started"],
            Self::SegmentUseful => ["segment", "useful"],
            Self::SegmentWasted => ["segment", "wasted"],
            Self::SegmentSkipped => ["segment", "skipped"],
            Self::SliceStarted => ["slice", "started"],
            Self::SliceUseful => ["slice", "useful"],
            Self::SliceWasted => ["slice", "wasted"],
        }
    }
}

/// Counts fetches before anybody asked, from any thread.
#[derive(Debug, Default)]
pub struct Prefetches {
    counts: [AtomicU64; Prefetched::ALL.len()],
    /// Segments that are being fetched.
    pub(crate) under_way: AtomicUsize,
}

impl Prefetches {
    /// Counts.
    pub fn add(&self, what: Prefetched, count: u64) {
        self.counts[what as usize].fetch_add(count, Relaxed);
    }

    /// How often so far.
    pub fn get(&self, what: Prefetched) -> u64 {
        self.counts[what as usize].load(Relaxed)
    }
}

impl Shard {
    /// A manifest came from an origin; `kind` says which.
    pub fn manifest(&self, kind: &'static str) {
        self.expect_own_thread();
        self.manifests.add(kind);
    }

    /// A player asked for a playlist with something that may not be there yet; `outcome` says what became of it.
    pub fn reload(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.reloads.add(outcome);
    }
}
