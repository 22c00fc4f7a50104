//! Counters of prefetched segments and slices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// An event in the life of a prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetched {
    /// The prefetch of a segment has started.
    SegmentStarted,
    /// A client requested a prefetched segment.
    SegmentUseful,
    /// A prefetched segment was evicted before any client requested it.
    SegmentWasted,
    /// The prefetch of a slice has started.
    SliceStarted,
    /// A reader reached a prefetched slice.
    SliceUseful,
    /// A prefetched slice was evicted before any reader reached it.
    SliceWasted,
    /// A segment was not prefetched because too many prefetches were under way.
    SegmentSkipped,
}

impl Prefetched {
    /// Every event, in the order of its counters.
    pub const ALL: [Self; 7] = [
        Self::SegmentStarted,
        Self::SegmentUseful,
        Self::SegmentWasted,
        Self::SliceStarted,
        Self::SliceUseful,
        Self::SliceWasted,
        Self::SegmentSkipped,
    ];

    pub(crate) fn labels(self) -> [&'static str; 2] {
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

/// Where the name of a prefetched segment was known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchKind {
    /// A player said it (CMCD `nor`).
    Cmcd,
    /// A playlist has it behind the segment that was requested.
    Playlist,
    /// Its name has the next number.
    Number,
}

impl PrefetchKind {
    /// Every kind, in the order of its counters.
    pub const ALL: [Self; 3] = [Self::Cmcd, Self::Playlist, Self::Number];

    /// The label value.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cmcd => "cmcd",
            Self::Playlist => "playlist",
            Self::Number => "number",
        }
    }
}

/// Counts prefetches and bounds how many are under way at once. Any thread may count.
#[derive(Debug, Default)]
pub struct Prefetches {
    counts: [AtomicU64; Prefetched::ALL.len()],
    /// Segments that were used, and segments that were wasted, by kind.
    segments: [[AtomicU64; 2]; PrefetchKind::ALL.len()],
    /// Segments, and slices that players have named, that are being fetched.
    under_way: AtomicUsize,
}

impl Prefetches {
    /// Counts an event `count` times.
    pub fn add(&self, what: Prefetched, count: u64) {
        self.counts[what as usize].fetch_add(count, Relaxed);
    }

    /// The count of an event since the start.
    pub fn get(&self, what: Prefetched) -> u64 {
        self.counts[what as usize].load(Relaxed)
    }

    /// Counts the end of a prefetched segment: whether a client requested it before it was evicted.
    pub fn end_segment(&self, kind: PrefetchKind, is_used: bool) {
        self.add(if is_used { Prefetched::SegmentUseful } else { Prefetched::SegmentWasted }, 1);
        self.segments[kind as usize][usize::from(!is_used)].fetch_add(1, Relaxed);
    }

    /// Segments of a kind that were used, and those that were wasted.
    pub fn segments(&self, kind: PrefetchKind) -> [u64; 2] {
        self.segments[kind as usize].each_ref().map(|count| count.load(Relaxed))
    }

    /// Begins a prefetch if fewer than `most` are under way; otherwise counts a skipped one. It ends when the value is dropped.
    pub fn begin(self: &Arc<Self>, most: usize) -> Option<PrefetchUnderWay> {
        let before = self.under_way.fetch_add(1, SeqCst);
        let begun = PrefetchUnderWay(Arc::clone(self));
        if before >= most {
            self.add(Prefetched::SegmentSkipped, 1);
            return None;
        }
        Some(begun)
    }
}

/// A prefetch that has begun, until it is dropped.
#[derive(Debug)]
pub struct PrefetchUnderWay(Arc<Prefetches>);

impl Drop for PrefetchUnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetches_beyond_the_bound_are_skipped_and_counted_until_one_ends() {
        let prefetches = Arc::new(Prefetches::default());
        let (first, _second) = (prefetches.begin(2), prefetches.begin(2));
        assert!(prefetches.begin(2).is_none() && prefetches.begin(2).is_none());
        assert_eq!(prefetches.get(Prefetched::SegmentSkipped), 2);
        drop(first.unwrap());
        assert!(prefetches.begin(2).is_some());
        assert_eq!(prefetches.get(Prefetched::SegmentSkipped), 2);
    }
}
