//! What a worker does with its time on the CPU, found by looking.
//!
//! A clock is too slow to be read at the beginning and end of each part of a response. Instead the worker notes in one byte what
//! it is doing, which costs two stores, and another thread looks at that byte about a hundred times a second. The share of the
//! looks that find a part is its share of the busy time.

use std::cell::OnceCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use crate::labels::Work;

/// A look of so many counts as much as all before it together.
const RECENT: f64 = 1000.0;

/// What one worker is doing, and how often it was found at it.
#[derive(Debug, Default)]
pub(crate) struct WorkMarker {
    /// 0 while the worker waits for events, otherwise the place of the work, from 1.
    now: AtomicU8,
    found: [AtomicU64; Work::ALL.len()],
    /// Shares of the last looks, as bits of an f64: newer ones count more. Only the looking thread writes.
    recent: [AtomicU64; Work::ALL.len()],
}

thread_local! {
    /// The marker of the worker of this thread.
    static HERE: OnceCell<Arc<WorkMarker>> = const { OnceCell::new() };
}

impl WorkMarker {
    /// Makes this the marker of the worker of this thread. The first one stays.
    pub(crate) fn enter(self: &Arc<Self>) {
        HERE.with(|here| drop(here.set(Arc::clone(self))));
        self.set(Some(Work::Rest));
    }

    fn set(&self, work: Option<Work>) {
        self.now.store(work.map_or(0, |work| work as u8 + 1), Relaxed);
    }

    /// Looks once. One thread at a time.
    pub(crate) fn look(&self) {
        let now = self.now.load(Relaxed);
        let Some(place) = now.checked_sub(1).map(usize::from).filter(|place| *place < self.found.len())
        else {
            return;
        };
        self.found[place].fetch_add(1, Relaxed);
        let looks: u64 = self.found.iter().map(|found| found.load(Relaxed)).sum();
        // The first looks count alike.
        let weight = 1.0 / RECENT.min(looks as f64);
        for (at, recent) in self.recent.iter().enumerate() {
            let (before, seen) = (f64::from_bits(recent.load(Relaxed)), if at == place { 1.0 } else { 0.0 });
            recent.store((before + weight * (seen - before)).to_bits(), Relaxed);
        }
    }

    /// How often the worker was found at this.
    pub(crate) fn found(&self, work: Work) -> u64 {
        self.found[work as usize].load(Relaxed)
    }

    /// The share of the busy time, about the last thousand looks; 0 before the first.
    pub(crate) fn recent(&self, work: Work) -> f64 {
        f64::from_bits(self.recent[work as usize].load(Relaxed))
    }
}

/// Does something that counts as this work of the worker of this thread. It may be nested.
pub fn doing<T>(work: Work, something: impl FnOnce() -> T) -> T {
    HERE.with(|here| {
        let Some(marker) = here.get() else { return something() };
        let before = marker.now.load(Relaxed);
        marker.set(Some(work));
        let done = something();
        marker.now.store(before, Relaxed);
        done
    })
}

/// A future whose steps count as this work. It is boxed: an async function would keep it twice.
pub fn doing_all<F: Future>(work: Work, future: Pin<Box<F>>) -> Doing<F> {
    Doing { work, future }
}

/// See [`doing_all`].
#[derive(Debug)]
pub struct Doing<F> {
    work: Work,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Doing<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.work;
        doing(work, || self.future.as_mut().poll(context))
    }
}

/// Called before the worker of this thread waits for events.
pub fn work_pauses() {
    HERE.with(|here| here.get().into_iter().for_each(|marker| marker.set(None)));
}

/// Called when it goes on.
pub fn work_goes_on() {
    HERE.with(|here| here.get().into_iter().for_each(|marker| marker.set(Some(Work::Rest))));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a test in a thread of its own, which has no marker yet.
    fn run(test: impl FnOnce(&Arc<WorkMarker>) + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let marker = Arc::new(WorkMarker::default());
                marker.enter();
                test(&marker);
            });
        });
    }

    fn found(marker: &WorkMarker) -> Vec<u64> {
        Work::ALL.iter().map(|work| marker.found(*work)).collect()
    }

    #[test]
    fn a_look_finds_the_innermost_work_and_none_while_the_worker_waits() {
        run(|marker| {
            marker.look();
            doing(Work::Sending, || {
                marker.look();
                doing(Work::Sealing, || marker.look());
                marker.look();
            });
            marker.look();
            work_pauses();
            marker.look();
            work_goes_on();
            marker.look();
            assert_eq!(found(marker), [3, 0, 1, 2, 0]);
        });
    }

    #[test]
    fn shares_are_those_of_all_looks_first_and_of_the_last_ones_later() {
        run(|marker| {
            assert_eq!(marker.recent(Work::Rest), 0.0);
            (0..3).for_each(|_| marker.look());
            doing(Work::Sealing, || marker.look());
            let near = |share: f64, wanted: f64| (share - wanted).abs() < 1e-9;
            assert!(near(marker.recent(Work::Rest), 0.75) && near(marker.recent(Work::Sealing), 0.25));
            doing(Work::Sealing, || (0..20_000).for_each(|_| marker.look()));
            assert!(marker.recent(Work::Sealing) > 0.999);
            assert!(near(Work::ALL.iter().map(|work| marker.recent(*work)).sum(), 1.0));
        });
    }

    #[test]
    fn threads_without_a_worker_do_the_work_all_the_same() {
        std::thread::spawn(|| {
            work_pauses();
            assert_eq!(doing(Work::Sealing, || 7), 7);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn each_step_of_a_future_counts_and_what_is_between_them_does_not() {
        run(|marker| {
            let mut steps = 0;
            let future = std::future::poll_fn(|context| {
                marker.look();
                steps += 1;
                if steps == 3 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            });
            let mut work = std::pin::pin!(doing_all(Work::Filling, Box::pin(future)));
            let mut context = Context::from_waker(std::task::Waker::noop());
            while work.as_mut().poll(&mut context).is_pending() {
                marker.look();
            }
            assert_eq!(found(marker), [2, 0, 0, 0, 3]);
        });
    }
}
