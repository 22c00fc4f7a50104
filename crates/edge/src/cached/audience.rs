//! Who reads an object: how far the fastest reader is, so that a fill does not run away from it; and what was fetched
//! before anybody asked, so that it is known whether somebody did.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::metrics::{Prefetched, Prefetches};

/// The readers of one object.
#[derive(Debug, Default)]
pub(super) struct Audience {
    readers: AtomicU32,
    /// Fills that wait for a reader to move.
    held_back: AtomicU32,
    /// Where the fastest reader is, or was.
    furthest: AtomicU64,
    awaited: OnceLock<Box<Awaited>>,
}

/// What only objects have whose readers were waited for.
#[derive(Debug, Default)]
struct Awaited {
    moved: Notify,
    /// Whether there is anything in `marks`; on the way of a hit nothing is locked.
    marked: AtomicBool,
    marks: Mutex<Option<Marks>>,
}

/// What of an object was fetched before anybody asked, and still nobody has.
#[derive(Debug)]
struct Marks {
    counted: Arc<Prefetches>,
    segment: bool,
    slices: Vec<u32>,
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.counted.add(Prefetched::SegmentWasted, u64::from(self.segment));
        self.counted.add(Prefetched::SliceWasted, self.slices.len() as u64);
    }
}

/// Whether a fill may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Go,
    /// Nobody reads, and enough is there for whoever comes next.
    Stop,
}

/// How far a fill may run ahead of its fastest reader, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// Where what it brings drives out something else.
    pub(super) full: u64,
    /// When the last reader has gone.
    pub(super) alone: u64,
}

impl Audience {
    pub(super) fn enter(&self) {
        self.readers.fetch_add(1, SeqCst);
        self.wake();
    }

    pub(super) fn leave(&self) {
        self.readers.fetch_sub(1, SeqCst);
        self.wake();
    }

    /// A reader is at this byte.
    pub(super) fn is_at(&self, byte: u64) {
        if self.furthest.fetch_max(byte, SeqCst) < byte {
            self.wake();
        }
    }

    fn wake(&self) {
        if self.held_back.load(SeqCst) > 0 {
            self.awaited().moved.notify_waiters();
        }
    }

    fn awaited(&self) -> &Awaited {
        self.awaited.get_or_init(Box::default)
    }

    /// Waits until a fill may bring what begins at `next`.
    pub(super) async fn turn(&self, next: u64, windows: Windows, is_full: impl Fn() -> bool) -> Turn {
        loop {
            let mut moved = pin!(self.awaited().moved.notified());
            self.held_back.fetch_add(1, SeqCst);
            moved.as_mut().enable();
            // Looked at after asking to be woken, so that nothing happens unseen in between.
            let ahead = next.saturating_sub(self.furthest.load(SeqCst));
            let alone = self.readers.load(SeqCst) == 0;
            let turn = match alone {
                true if ahead >= windows.alone => Some(Turn::Stop),
                false if ahead >= windows.full && is_full() => None,
                true | false => Some(Turn::Go),
            };
            if turn.is_none() {
                moved.await;
            }
            self.held_back.fetch_sub(1, SeqCst);
            if let Some(turn) = turn {
                return turn;
            }
        }
    }

    /// Waits until there is a reader.
    pub(super) async fn entered(&self) {
        loop {
            let mut moved = pin!(self.awaited().moved.notified());
            self.held_back.fetch_add(1, SeqCst);
            moved.as_mut().enable();
            let anybody = self.readers.load(SeqCst) > 0;
            if !anybody {
                moved.await;
            }
            self.held_back.fetch_sub(1, SeqCst);
            if anybody {
                return;
            }
        }
    }

    /// The object itself was fetched before anybody asked for it.
    pub(super) fn mark_segment(&self, counted: &Arc<Prefetches>) {
        counted.add(Prefetched::SegmentStarted, 1);
        self.with_marks(counted, |marks| marks.segment = true);
    }

    /// A slice of it was.
    pub(super) fn mark_slice(&self, counted: &Arc<Prefetches>, slice: u32) {
        counted.add(Prefetched::SliceStarted, 1);
        self.with_marks(counted, |marks| marks.slices.push(slice));
    }

    /// Somebody asks for the object. Says whether it is the first to ask for what was fetched before.
    pub(super) fn wants_segment(&self) -> bool {
        self.take(|marks| {
            let was = std::mem::take(&mut marks.segment);
            marks.counted.add(Prefetched::SegmentUseful, u64::from(was));
            was
        })
    }

    /// Somebody asks for a slice of it.
    pub(super) fn wants_slice(&self, slice: u32, is_there: bool) {
        self.take(|marks| {
            let Some(place) = marks.slices.iter().position(|marked| *marked == slice) else { return false };
            marks.slices.swap_remove(place);
            let outcome = if is_there { Prefetched::SliceUseful } else { Prefetched::SliceWasted };
            marks.counted.add(outcome, 1);
            true
        });
    }

    fn with_marks(&self, counted: &Arc<Prefetches>, change: impl FnOnce(&mut Marks)) {
        let awaited = self.awaited();
        let mut marks = awaited.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Marks { counted: Arc::clone(counted), segment: false, slices: Vec::new() };
        change(marks.get_or_insert_with(new));
        awaited.marked.store(true, SeqCst);
    }

    fn take(&self, change: impl FnOnce(&mut Marks) -> bool) -> bool {
        let Some(awaited) = self.awaited.get().filter(|awaited| awaited.marked.load(Relaxed)) else {
            return false;
        };
        let mut marks = awaited.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = marks.as_mut() else { return false };
        let done = change(found);
        if !found.segment && found.slices.is_empty() {
            *marks = None;
            awaited.marked.store(false, SeqCst);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const WINDOWS: Windows = Windows { full: 100, alone: 300 };

    fn poll(turn: std::pin::Pin<&mut impl Future<Output = Turn>>) -> Poll<Turn> {
        turn.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_fill_waits_for_its_fastest_reader_while_the_cache_is_full() {
        let audience = Audience::default();
        audience.enter();
        audience.enter();
        audience.is_at(50);
        assert_eq!(poll(pin!(audience.turn(149, WINDOWS, || true))), Poll::Ready(Turn::Go));
        assert_eq!(
            poll(pin!(audience.turn(1000, WINDOWS, || false))),
            Poll::Ready(Turn::Go),
            "there is room"
        );
        let mut turn = pin!(audience.turn(150, WINDOWS, || true));
        assert_eq!(poll(turn.as_mut()), Poll::Pending);
        audience.is_at(10);
        assert_eq!(poll(turn.as_mut()), Poll::Pending, "a slower one moved");
        audience.is_at(51);
        assert_eq!(poll(turn.as_mut()), Poll::Ready(Turn::Go));
    }

    #[test]
    fn without_readers_it_brings_a_little_more_and_stops() {
        let audience = Audience::default();
        audience.enter();
        audience.is_at(50);
        let mut turn = pin!(audience.turn(350, WINDOWS, || true));
        assert_eq!(poll(turn.as_mut()), Poll::Pending);
        audience.leave();
        assert_eq!(poll(turn.as_mut()), Poll::Ready(Turn::Stop));
        assert_eq!(poll(pin!(audience.turn(349, WINDOWS, || true))), Poll::Ready(Turn::Go));
    }

    #[test]
    fn what_was_fetched_before_is_useful_once_or_wasted() {
        let counted = Arc::new(Prefetches::default());
        let audience = Audience::default();
        audience.mark_segment(&counted);
        audience.mark_slice(&counted, 3);
        audience.mark_slice(&counted, 4);
        audience.mark_slice(&counted, 5);
        assert!(audience.wants_segment());
        assert!(!audience.wants_segment(), "only once");
        audience.wants_slice(3, true);
        audience.wants_slice(4, false);
        audience.wants_slice(9, true);
        drop(audience);
        let counts: Vec<_> = Prefetched::ALL.iter().map(|outcome| counted.get(*outcome)).collect();
        assert_eq!(counts, [1, 1, 0, 3, 1, 2, 0]);
    }
}
