//! How many connections are open, and which of them have been idle longest.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_config::limits;
use tokio::sync::Notify;

/// Open connections of all workers, and how many descriptors leave space for.
#[derive(Debug)]
pub(crate) struct ConnectionCount {
    open: AtomicUsize,
    descriptors_max: usize,
}

impl ConnectionCount {
    /// Counts within this many descriptors; `None` is no limit.
    pub(crate) fn new(descriptors: Option<u64>, files: usize) -> Self {
        Self { open: AtomicUsize::new(0), descriptors_max: connections_within(descriptors, files) }
    }

    /// Whether so many connections are open as are allowed.
    pub(crate) fn is_full(&self, connections_max: usize) -> bool {
        self.open.load(Ordering::Relaxed) >= connections_max.min(self.descriptors_max)
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many connections leave descriptors for so many files, the admin listener and the rest of the process.
fn connections_within(descriptors: Option<u64>, files: usize) -> usize {
    let Some(descriptors) = descriptors else { return usize::MAX };
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let files = files.min(descriptors / 100 * limits::DESCRIPTORS_OF_FILES_PERCENT);
    let reserved = files + limits::ADMIN_CONNECTIONS + limits::DESCRIPTORS_RESERVED;
    // At least half of a very small number of descriptors is for connections.
    descriptors.saturating_sub(reserved).max(descriptors / 2).max(1)
}

/// The idle connections of one worker, in the order in which they became idle.
///
/// An idle connection holds a place until its idle timeout, or until another client needs the place.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    waiting: RefCell<BTreeMap<u64, Rc<Eviction>>>,
    next: Cell<u64>,
}

/// The order to an idle connection to end.
#[derive(Debug, Default)]
struct Eviction {
    is_ordered: Cell<bool>,
    order: Notify,
}

impl IdleConnections {
    /// Registers a connection that has become idle, as long as the entry lives.
    pub(crate) fn enter(self: &Rc<Self>) -> IdleEntry {
        let number = self.next.get();
        self.next.set(number + 1);
        let eviction = Rc::new(Eviction::default());
        self.waiting.borrow_mut().insert(number, Rc::clone(&eviction));
        IdleEntry { connections: Rc::clone(self), number, eviction }
    }

    /// Orders the longest idle connection to end. Returns false if none is idle.
    pub(crate) fn evict_longest(&self) -> bool {
        let Some((_, eviction)) = self.waiting.borrow_mut().pop_first() else { return false };
        eviction.is_ordered.set(true);
        eviction.order.notify_one();
        true
    }
}

/// A connection that is idle.
#[derive(Debug)]
pub(crate) struct IdleEntry {
    connections: Rc<IdleConnections>,
    number: u64,
    eviction: Rc<Eviction>,
}

impl IdleEntry {
    pub(crate) fn is_evicted(&self) -> bool {
        self.eviction.is_ordered.get()
    }

    pub(crate) async fn evicted(&self) {
        self.eviction.order.notified().await;
    }
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        self.connections.waiting.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_is_evicted_first_and_once() {
        let connections = Rc::new(IdleConnections::default());
        let [first, second, third] = [(); 3].map(|()| connections.enter());
        drop(second);
        assert!(connections.evict_longest());
        assert!(first.is_evicted() && !third.is_evicted());
        assert!(connections.evict_longest() && third.is_evicted());
        assert!(!connections.evict_longest(), "none is left");
    }

    #[test]
    fn connections_leave_descriptors_for_files_and_the_admin_listener() {
        for (descriptors, files, most) in [
            (Some(1024), 4096, 1024 - 250 - 192),
            (Some(1024), 16, 1024 - 16 - 192),
            (Some(100), 4096, 50),
            (Some(1_048_576), 8192, 1_048_576 - 8192 - 192),
            (None, 4096, usize::MAX),
        ] {
            assert_eq!(connections_within(descriptors, files), most, "{descriptors:?}");
        }
    }
}
