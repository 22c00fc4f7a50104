//! How many connections are open, in all workers, and how a new one gets a place when all are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use penstock_config::limits;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clients::idle_connections::IdleConnections;

/// Open connections of all workers, and how many descriptors leave space for. Idle connections of any worker make place for
/// new ones.
#[derive(Debug)]
pub(crate) struct ConnectionCount {
    open: AtomicUsize,
    descriptors_max: usize,
    /// Accept loops that wait for a place.
    waiting: AtomicUsize,
    freed: Notify,
    workers: Box<[WorkerIdle]>,
}

/// The idle connections of one worker, as the others see them. Each has a cache line of its own: its worker writes to it
/// with each request.
#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerIdle {
    count: AtomicUsize,
    /// Connections that other workers ask this one to evict.
    orders: AtomicUsize,
    ordered: Notify,
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<ConnectionCount>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.freed.notify_one();
        }
    }
}

impl ConnectionCount {
    /// Counts the connections of so many workers within this many descriptors; `None` is no limit.
    pub(crate) fn new(workers: usize, descriptors: Option<u64>, files: usize) -> Self {
        Self {
            open: AtomicUsize::new(0),
            descriptors_max: connections_within(descriptors, files),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            workers: (0..workers).map(|_| WorkerIdle::default()).collect(),
        }
    }

    /// The idle connections of worker `number`, which the other workers know the number of.
    pub(crate) fn idle_of(self: &Arc<Self>, number: usize) -> IdleConnections {
        let all = Arc::clone(self);
        IdleConnections::new(move |count| {
            if let Some(worker) = all.workers.get(number) {
                worker.count.store(count, Ordering::Relaxed);
            }
        })
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Takes a place, of which there are never more than `connections_max`; `None` if all are taken.
    pub(crate) fn take_place(self: &Arc<Self>, connections_max: usize) -> Option<Place> {
        let most = connections_max.min(self.descriptors_max);
        let one_more = |open: usize| (open < most).then_some(open + 1);
        let taken = self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        taken.is_ok().then(|| Place(Arc::clone(self)))
    }

    /// Takes a place. If all are taken, idle connections are told to end, `idle` of this worker before those of others,
    /// and one of their places is waited for. `None` if no connection is idle, or if none ends in time.
    pub(crate) async fn wait_for_place(
        self: &Arc<Self>,
        connections_max: usize,
        idle: &IdleConnections,
    ) -> Option<Place> {
        if let Some(place) = self.take_place(connections_max) {
            return Some(place);
        }
        let _waiting = Waiting::enter(self);
        let deadline = Instant::now() + Duration::from_millis(limits::EVICTION_WAIT_MILLISECONDS);
        loop {
            // Again, now that every place that becomes free is announced.
            if let Some(place) = self.take_place(connections_max) {
                return Some(place);
            }
            let is_evicting = idle.evict_longest() || self.order_eviction();
            if !is_evicting || Instant::now() >= deadline {
                return None;
            }
            // The connection may have got a request meanwhile.
            let next = Duration::from_millis(limits::EVICTION_RETRY_MILLISECONDS);
            drop(timeout(next, self.freed.notified()).await);
        }
    }

    /// Tells the worker with the most idle connections to evict one. False if there is no idle connection.
    fn order_eviction(&self) -> bool {
        let counts = self.workers.iter().map(|worker| (worker.count.load(Ordering::Relaxed), worker));
        let Some((1.., worker)) = counts.max_by_key(|(count, _)| *count) else { return false };
        worker.orders.fetch_add(1, Ordering::Relaxed);
        worker.ordered.notify_one();
        true
    }

    /// Evicts idle connections of worker `number` for other workers; never ends.
    #[expect(clippy::infinite_loop, reason = "ended with its worker")]
    pub(crate) async fn evict_for_others(&self, number: usize, idle: &IdleConnections) {
        let Some(worker) = self.workers.get(number) else { return };
        loop {
            worker.ordered.notified().await;
            for _ in 0..worker.orders.swap(0, Ordering::Relaxed) {
                idle.evict_longest();
            }
        }
    }
}

/// Counts an accept loop that waits for a place until it is dropped.
struct Waiting<'c>(&'c ConnectionCount);

impl<'c> Waiting<'c> {
    fn enter(count: &'c ConnectionCount) -> Self {
        count.waiting.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    fn of_workers(workers: usize) -> (Arc<ConnectionCount>, Vec<Rc<IdleConnections>>) {
        let all = Arc::new(ConnectionCount::new(workers, None, 0));
        let idle = (0..workers).map(|number| Rc::new(all.idle_of(number)));
        let idle = idle.collect();
        (all, idle)
    }

    #[test]
    fn threads_that_take_places_at_the_same_time_never_have_more_than_the_limit() {
        const LIMIT: usize = 10;
        let (all, _) = of_workers(0);
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let places = [(); 5].map(|()| all.take_place(LIMIT));
                        taken.fetch_add(places.iter().flatten().count(), Ordering::Relaxed);
                        assert!(all.open.load(Ordering::Relaxed) <= LIMIT);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0 && all.open.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn a_full_worker_evicts_an_idle_connection_of_another() {
        let (all, idle) = of_workers(2);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (place, entry) = (all.take_place(1).unwrap(), idle[1].enter());
            let evicting = (Arc::clone(&all), Rc::clone(&idle[1]));
            spawn_local(async move { evicting.0.evict_for_others(1, &evicting.1).await });
            let ending = spawn_local(async move {
                entry.woken().await;
                drop(place);
            });
            let place = all.wait_for_place(1, &idle[0]).await;
            assert!(place.is_some());
            ending.await.unwrap();
            assert!(all.wait_for_place(1, &idle[0]).await.is_none(), "no connection is idle");
        });
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
