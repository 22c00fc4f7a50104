//! Operations that wait for a thread of a token.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use penstock_sys::lock::Unpoisoned;

/// A queue, first come, first served.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// Tells one thread of a new item.
    filled: Condvar,
    closed: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
    /// Threads that are to stop waiting.
    wakes: usize,
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Popped<T> {
    Item(T),
    /// Nothing came for as long.
    Nothing,
    /// Nothing comes any more.
    Closed,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = QueueState { waiting: VecDeque::new(), is_closed: false, wakes: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), closed: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// Ends the waiting of one thread, as if its time were over.
    pub(super) fn wake(&self) {
        self.lock().wakes += 1;
        self.filled.notify_one();
    }

    /// Adds an item unless there are as many as `most` already, of which those that `is_needed` refuses are dropped first.
    /// Returns whether it was added.
    pub(super) fn push_bounded(&self, item: T, most: usize, is_needed: impl FnMut(&T) -> bool) -> bool {
        let mut state = self.lock();
        if state.waiting.len() >= most {
            state.waiting.retain(is_needed);
        }
        let has_space = state.waiting.len() < most;
        if has_space {
            state.waiting.push_back(item);
            self.filled.notify_one();
        }
        has_space
    }

    /// Puts an item that was popped before all others.
    pub(super) fn push_first(&self, item: T) {
        self.lock().waiting.push_front(item);
        self.filled.notify_one();
    }

    /// Waits for an item.
    pub(super) fn pop(&self, patience: Duration) -> Popped<T> {
        let waits =
            |state: &mut QueueState<T>| state.waiting.is_empty() && !state.is_closed && state.wakes == 0;
        let mut state = wait(&self.filled, self.lock(), patience, waits);
        match state.waiting.pop_front() {
            _ if state.is_closed => Popped::Closed,
            Some(item) => Popped::Item(item),
            None => {
                state.wakes = state.wakes.saturating_sub(1);
                Popped::Nothing
            }
        }
    }

    /// Waits until the time is over or the queue is closed; returns whether it is closed.
    pub(super) fn pause(&self, time: Duration) -> bool {
        wait(&self.closed, self.lock(), time, |state| !state.is_closed).is_closed
    }

    /// Takes all items.
    pub(super) fn drain(&self) -> VecDeque<T> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Ends all waiting. Items are dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
        self.filled.notify_all();
        self.closed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unpoisoned()
    }
}

/// Waits while the condition holds, at most for this time.
fn wait<'q, T>(
    changed: &Condvar,
    state: MutexGuard<'q, QueueState<T>>,
    time: Duration,
    goes_on: impl Fn(&mut QueueState<T>) -> bool,
) -> MutexGuard<'q, QueueState<T>> {
    changed.wait_timeout_while(state, time, goes_on).unpoisoned().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_what_is_not_needed_any_more_and_then_refuses() {
        let queue = Queue::default();
        assert!(queue.push_bounded(1, 2, |_| false) && queue.push_bounded(2, 2, |_| false));
        assert!(queue.push_bounded(3, 2, |item| *item != 1));
        assert!(!queue.push_bounded(4, 2, |_| true));
        assert_eq!(queue.drain(), [2, 3]);
    }

    #[test]
    fn items_come_in_order_until_the_queue_is_closed() {
        let queue = Queue::default();
        let push = |item| assert!(queue.push_bounded(item, 9, |_| true));
        push(1);
        push(2);
        queue.push_first(0);
        for number in 0..3 {
            assert_eq!(queue.pop(Duration::ZERO), Popped::Item(number));
        }
        assert_eq!(queue.pop(Duration::ZERO), Popped::Nothing);
        queue.wake();
        assert_eq!(queue.pop(Duration::from_secs(3600)), Popped::Nothing);
        assert!(!queue.pause(Duration::ZERO));
        push(3);
        queue.close();
        assert_eq!(queue.pop(Duration::from_secs(3600)), Popped::Closed);
        assert!(queue.pause(Duration::from_secs(3600)));
    }
}
