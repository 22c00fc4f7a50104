//! The readers of an object: how far the fastest one is, which throttles fills, and whether prefetched bytes were read.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use once_cell::race::OnceBox;
use penstock_metrics::{PrefetchKind, Prefetched, Prefetches};
use penstock_sys::lock::Unpoisoned;
use tokio::sync::Notify;

/// Holds a fill back to the speed of the object's fastest reader.
///
/// There is one for each object in the index, so it is small, and a hit of an object without a waiting fill touches no
/// more than this.
#[derive(Debug, Default)]
pub(crate) struct ReaderThrottle {
    /// [`READER`] for each reader, and [`FILL_WAITS`].
    state: AtomicU32,
    /// The furthest byte that a reader has reached, in whole KiB: objects are longer than 4 GiB.
    furthest_kib: AtomicU32,
    rare: OnceBox<Rare>,
}

/// Set in the state while a fill waits for a reader to advance.
const FILL_WAITS: u32 = 1;
/// Counted in the state for each reader.
const READER: u32 = 2;
const KIB: u64 = 1024;

/// State of the few objects that had a waiting fill or a prefetch.
#[derive(Debug, Default)]
struct Rare {
    moved: Notify,
    /// Fills that wait. [`FILL_WAITS`] is set and cleared under its lock.
    waiting_fills: Mutex<u32>,
    /// Whether `prefetched` has a value, so that a hit takes no lock.
    is_prefetched: AtomicBool,
    prefetched: Mutex<Option<PrefetchStats>>,
}

/// A fill that waits; it may be given up at any time.
struct WaitingFill<'r>(&'r ReaderThrottle);

impl<'r> WaitingFill<'r> {
    fn new(readers: &'r ReaderThrottle) -> Self {
        let mut fills = readers.waiting_fills();
        *fills += 1;
        readers.state.fetch_or(FILL_WAITS, SeqCst);
        Self(readers)
    }
}

impl Drop for WaitingFill<'_> {
    fn drop(&mut self) {
        let mut fills = self.0.waiting_fills();
        *fills -= 1;
        if *fills == 0 {
            self.0.state.fetch_and(!FILL_WAITS, SeqCst);
        }
    }
}

/// Prefetched parts of an object that no reader has asked for yet.
#[derive(Debug)]
struct PrefetchStats {
    counted: Arc<Prefetches>,
    segment: Option<PrefetchKind>,
    slices: Vec<u32>,
}

impl Drop for PrefetchStats {
    fn drop(&mut self) {
        if let Some(kind) = self.segment {
            self.counted.end_segment(kind, false);
        }
        self.counted.add(Prefetched::SliceWasted, self.slices.len() as u64);
    }
}

/// The next step of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillStep {
    /// Write the next bytes.
    Go,
    /// Stop: there is no reader, and enough is in the cache for the next one.
    Stop,
}

/// How far a fill may be ahead of its fastest reader, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// While the tier is full.
    pub(crate) full: u64,
    /// After the last reader left.
    pub(crate) alone: u64,
}

impl ReaderThrottle {
    pub(crate) fn enter(&self) {
        self.wake(self.state.fetch_add(READER, SeqCst));
    }

    pub(crate) fn leave(&self) {
        self.wake(self.state.fetch_sub(READER, SeqCst));
    }

    /// Records that a reader reached this byte.
    pub(crate) fn advance_to(&self, byte: u64) {
        let kib = u32::try_from(byte / KIB).unwrap_or(u32::MAX);
        if self.furthest_kib.fetch_max(kib, SeqCst) < kib {
            self.wake(self.state.load(SeqCst));
        }
    }

    /// Wakes the fills that wait, if `state` says that there are some.
    fn wake(&self, state: u32) {
        if state & FILL_WAITS != 0 {
            self.rare().moved.notify_waiters();
        }
    }

    fn has_readers(&self) -> bool {
        self.state.load(SeqCst) >= READER
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    fn waiting_fills(&self) -> MutexGuard<'_, u32> {
        self.rare().waiting_fills.lock().unpoisoned()
    }

    /// Waits until a fill may write bytes from `next` on.
    pub(crate) async fn wait_for_readers(
        &self,
        next: u64,
        windows: Windows,
        is_full: impl Fn() -> bool,
    ) -> FillStep {
        loop {
            let mut moved = pin!(self.rare().moved.notified());
            let _waiting = WaitingFill::new(self);
            moved.as_mut().enable();
            // Read after the waiter is registered, so that no wake-up is lost.
            let ahead = next.saturating_sub(KIB * u64::from(self.furthest_kib.load(SeqCst)));
            match !self.has_readers() {
                true if ahead >= windows.alone => return FillStep::Stop,
                false if ahead >= windows.full && is_full() => moved.await,
                true | false => return FillStep::Go,
            }
        }
    }

    /// Waits until there is a reader.
    pub(crate) async fn entered(&self) {
        loop {
            let mut moved = pin!(self.rare().moved.notified());
            let _waiting = WaitingFill::new(self);
            moved.as_mut().enable();
            if self.has_readers() {
                return;
            }
            moved.await;
        }
    }

    /// Records that the object was prefetched.
    pub(crate) fn mark_segment(&self, counted: &Arc<Prefetches>, kind: PrefetchKind) {
        counted.add(Prefetched::SegmentStarted, 1);
        self.with_stats(counted, |stats| stats.segment = Some(kind));
    }

    /// Records that a slice was prefetched.
    pub(crate) fn mark_slice(&self, counted: &Arc<Prefetches>, slice: u32) {
        counted.add(Prefetched::SliceStarted, 1);
        self.with_stats(counted, |stats| stats.slices.push(slice));
    }

    /// Records a request for the object. Returns whether it is the first one for a prefetched object.
    pub(crate) fn take_segment(&self) -> bool {
        self.take(|stats| {
            let Some(kind) = stats.segment.take() else { return false };
            stats.counted.end_segment(kind, true);
            true
        })
    }

    /// Records a request for a slice.
    pub(crate) fn take_slice(&self, slice: u32, is_there: bool) {
        self.take(|stats| {
            let Some(place) = stats.slices.iter().position(|marked| *marked == slice) else { return false };
            stats.slices.swap_remove(place);
            let outcome = if is_there { Prefetched::SliceUseful } else { Prefetched::SliceWasted };
            stats.counted.add(outcome, 1);
            true
        });
    }

    fn with_stats(&self, counted: &Arc<Prefetches>, change: impl FnOnce(&mut PrefetchStats)) {
        let rare = self.rare();
        let mut stats = rare.prefetched.lock().unpoisoned();
        let new = || PrefetchStats { counted: Arc::clone(counted), segment: None, slices: Vec::new() };
        change(stats.get_or_insert_with(new));
        rare.is_prefetched.store(true, SeqCst);
    }

    fn take(&self, change: impl FnOnce(&mut PrefetchStats) -> bool) -> bool {
        let Some(rare) = self.rare.get().filter(|rare| rare.is_prefetched.load(Relaxed)) else {
            return false;
        };
        let mut stats = rare.prefetched.lock().unpoisoned();
        let Some(found) = stats.as_mut() else { return false };
        let done = change(found);
        if found.segment.is_none() && found.slices.is_empty() {
            *stats = None;
            rare.is_prefetched.store(false, SeqCst);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const WINDOWS: Windows = Windows { full: 100 * KIB, alone: 300 * KIB };

    fn poll(turn: std::pin::Pin<&mut impl Future<Output = FillStep>>) -> Poll<FillStep> {
        turn.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_fill_waits_for_its_fastest_reader_while_the_cache_is_full() {
        let readers = ReaderThrottle::default();
        readers.enter();
        readers.enter();
        readers.advance_to(50 * KIB);
        assert_eq!(
            poll(pin!(readers.wait_for_readers(149 * KIB, WINDOWS, || true))),
            Poll::Ready(FillStep::Go)
        );
        assert_eq!(
            poll(pin!(readers.wait_for_readers(1000 * KIB, WINDOWS, || false))),
            Poll::Ready(FillStep::Go),
            "the tier has space"
        );
        let mut turn = pin!(readers.wait_for_readers(150 * KIB, WINDOWS, || true));
        assert_eq!(poll(turn.as_mut()), Poll::Pending);
        readers.advance_to(10 * KIB);
        assert_eq!(poll(turn.as_mut()), Poll::Pending, "a slower one moved");
        readers.advance_to(51 * KIB);
        assert_eq!(poll(turn.as_mut()), Poll::Ready(FillStep::Go));
    }

    #[test]
    fn without_readers_a_fill_writes_a_little_more_and_stops() {
        let readers = ReaderThrottle::default();
        readers.enter();
        readers.advance_to(50 * KIB);
        let mut turn = pin!(readers.wait_for_readers(350 * KIB, WINDOWS, || true));
        assert_eq!(poll(turn.as_mut()), Poll::Pending);
        readers.leave();
        assert_eq!(poll(turn.as_mut()), Poll::Ready(FillStep::Stop));
        assert_eq!(
            poll(pin!(readers.wait_for_readers(349 * KIB, WINDOWS, || true))),
            Poll::Ready(FillStep::Go)
        );
    }

    #[test]
    fn a_fill_that_was_given_up_is_not_woken_again() {
        let readers = ReaderThrottle::default();
        readers.enter();
        {
            let mut turn = pin!(readers.wait_for_readers(150 * KIB, WINDOWS, || true));
            assert_eq!(poll(turn.as_mut()), Poll::Pending);
            assert_eq!(readers.state.load(SeqCst), READER | FILL_WAITS);
        }
        assert_eq!(readers.state.load(SeqCst), READER);
    }

    #[test]
    fn prefetched_bytes_are_useful_once_or_wasted() {
        let counted = Arc::new(Prefetches::default());
        let readers = ReaderThrottle::default();
        readers.mark_segment(&counted, PrefetchKind::Cmcd);
        readers.mark_slice(&counted, 3);
        readers.mark_slice(&counted, 4);
        readers.mark_slice(&counted, 5);
        assert!(readers.take_segment());
        assert!(!readers.take_segment(), "only once");
        readers.take_slice(3, true);
        readers.take_slice(4, false);
        readers.take_slice(9, true);
        drop(readers);
        let counts: Vec<_> = Prefetched::ALL.iter().map(|outcome| counted.get(*outcome)).collect();
        assert_eq!(counts, [1, 1, 0, 3, 1, 2, 0]);
        assert_eq!(PrefetchKind::ALL.map(|kind| counted.segments(kind)), [[1, 0], [0, 0], [0, 0]]);
    }
}
