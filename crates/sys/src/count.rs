//! Counts of what exists now: each falls when a guard is dropped, however its owner ends.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Something that is counted.
pub trait Counted {
    /// Takes one off the count.
    fn uncount(&self);
}

/// One of what is counted, until this is dropped.
#[derive(Debug)]
#[must_use = "the count falls when this is dropped"]
pub struct CountGuard<C: Counted>(C);

impl<C: Counted> CountGuard<C> {
    /// The guard of one that was counted just now.
    pub fn of_counted(counted: C) -> Self {
        Self(counted)
    }
}

impl<C: Counted> Drop for CountGuard<C> {
    fn drop(&mut self) {
        self.0.uncount();
    }
}

impl<C: Counted> Counted for &C {
    fn uncount(&self) {
        (**self).uncount();
    }
}

impl<C: Counted> Counted for Rc<C> {
    fn uncount(&self) {
        (**self).uncount();
    }
}

impl<C: Counted> Counted for Arc<C> {
    fn uncount(&self) {
        (**self).uncount();
    }
}

/// A count of one thread.
#[derive(Debug, Default)]
pub struct ThreadCount(Cell<usize>);

impl ThreadCount {
    /// Counts one more.
    pub fn enter(&self) -> CountGuard<&Self> {
        self.count();
        CountGuard(self)
    }

    /// Counts one more. The caller makes the guard.
    pub fn count(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// How many there are.
    pub fn get(&self) -> usize {
        self.0.get()
    }
}

impl Counted for ThreadCount {
    fn uncount(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// A count that threads share. Its operations are sequentially consistent.
#[derive(Debug, Default)]
pub struct SharedCount(AtomicUsize);

impl SharedCount {
    /// Counts one more.
    pub fn enter(&self) -> CountGuard<&Self> {
        self.0.fetch_add(1, Ordering::SeqCst);
        CountGuard(self)
    }

    /// Counts one more, if there are fewer than `most`. The caller makes the guard.
    #[must_use]
    pub fn count_below(&self, most: usize) -> bool {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// How many there are.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Counted for SharedCount {
    fn uncount(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_falls_when_a_guard_is_dropped_also_by_a_panic() {
        let count = SharedCount::default();
        let first = count.enter();
        let panicked = std::panic::catch_unwind(|| {
            let _second = count.enter();
            assert_eq!(count.get(), 1, "two are counted");
        });
        assert!(panicked.is_err());
        assert_eq!(count.get(), 1);
        drop(first);
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn a_count_does_not_pass_its_bound() {
        let count = Arc::new(SharedCount::default());
        assert!(count.count_below(1));
        let guard = CountGuard::of_counted(Arc::clone(&count));
        assert!(!count.count_below(1));
        drop(guard);
        assert!(count.count_below(1));
    }

    #[test]
    fn a_thread_counts_for_itself() {
        let count = ThreadCount::default();
        let guards = [count.enter(), count.enter()];
        assert_eq!(count.get(), 2);
        drop(guards);
        assert_eq!(count.get(), 0);
    }
}
