//! The tasks of the streams of one connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream as _};
use penstock_sys::Recycled;

/// The tasks of streams, and how they are made of what the client has opened.
pub(crate) struct StreamTasks<F, M> {
    make: M,
    /// Those that wait for something. Not there while the connection is idle. Boxed: the set itself holds the space of one,
    /// also while it is empty.
    waiting: Option<FuturesUnordered<Recycled<F>>>,
}

impl<F: Future<Output = ()>, M> StreamTasks<F, M> {
    pub(crate) fn new(make: M) -> Self {
        Self { make, waiting: None }
    }

    /// Runs the task of a stream as far as it goes at once. Most requests are answered by that.
    pub(crate) fn start<O>(&mut self, opened: O, context: &mut Context<'_>)
    where
        M: Fn(O) -> F,
    {
        let mut task = Recycled::new(|| (self.make)(opened));
        if Pin::new(&mut task).poll(context).is_pending() {
            // Polled once more there, and from then on when its own waker says so.
            self.waiting.get_or_insert_default().push(task);
        }
    }

    /// Runs the tasks that can go on. Returns whether one has ended.
    pub(crate) fn run(&mut self, context: &mut Context<'_>) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let mut has_ended = false;
        while let Poll::Ready(Some(())) = Pin::new(&mut *waiting).poll_next(context) {
            has_ended = true;
        }
        has_ended
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(FuturesUnordered::is_empty)
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn release_memory(&mut self) {
        if self.is_empty() {
            self.waiting = None;
        }
    }
}
