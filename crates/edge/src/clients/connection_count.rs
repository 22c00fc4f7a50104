//! How many connections are open, in all workers, and how a new one is accepted at the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_sys::{CountGuard, Counted, SharedCount};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clients::idle_connections::IdleConnections;

/// Open connections of all workers, and how many descriptors leave space for. Idle connections of any worker make place for
/// new ones.
#[derive(Debug)]
pub(crate) struct ConnectionCount {
    open: SharedCount,
    descriptors_max: usize,
    /// Accept loops that wait until a connection ends.
    waiting: SharedCount,
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

/// Counts one open connection.
pub(crate) type OpenConnection = CountGuard<Arc<ConnectionCount>>;

impl Counted for ConnectionCount {
    fn uncount(&self) {
        self.open.uncount();
        if self.waiting.get() > 0 {
            self.freed.notify_one();
        }
    }
}

impl ConnectionCount {
    /// Counts the connections of `workers` workers. `descriptors` is the limit of the process, of which `files` are used for others;
    /// `None` is no limit.
    pub(crate) fn new(workers: usize, descriptors: Option<u64>, files: usize) -> Self {
        Self {
            open: SharedCount::default(),
            descriptors_max: connections_within(descriptors, files),
            waiting: SharedCount::default(),
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
        self.open.get()
    }

    /// Counts one more connection; `None` if there are `connections_max` already.
    pub(crate) fn try_enter(self: &Arc<Self>, connections_max: usize) -> Option<OpenConnection> {
        let is_counted = self.open.count_below(connections_max.min(self.descriptors_max));
        is_counted.then(|| CountGuard::of_counted(Arc::clone(self)))
    }

    /// Counts one more connection. If there are `connections_max` already, idle connections are told to end, `idle` of this
    /// worker before those of others, and the end of one is waited for. `None` if no connection is idle, or if none ends in
    /// time.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        connections_max: usize,
        idle: &IdleConnections,
    ) -> Option<OpenConnection> {
        if let Some(counted) = self.try_enter(connections_max) {
            return Some(counted);
        }
        let _waiting = self.waiting.enter();
        let deadline = Instant::now() + Duration::from_millis(limits::EVICTION_WAIT_MILLISECONDS);
        loop {
            // Again, now that the end of each connection is notified.
            if let Some(counted) = self.try_enter(connections_max) {
                return Some(counted);
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

/// How many connections leave descriptors for `files` files, the admin listener and the rest of the process.
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
    fn threads_that_count_connections_at_the_same_time_never_have_more_than_the_limit() {
        const LIMIT: usize = 10;
        let (all, _) = of_workers(0);
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let opened = [(); 5].map(|()| all.try_enter(LIMIT));
                        taken.fetch_add(opened.iter().flatten().count(), Ordering::Relaxed);
                        assert!(all.open.get() <= LIMIT);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0 && all.open.get() == 0);
    }

    #[test]
    fn a_full_worker_evicts_an_idle_connection_of_another() {
        let (all, idle) = of_workers(2);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (open, entry) = (all.try_enter(1).unwrap(), idle[1].enter());
            let evicting = (Arc::clone(&all), Rc::clone(&idle[1]));
            spawn_local(async move { evicting.0.evict_for_others(1, &evicting.1).await });
            let ending = spawn_local(async move {
                entry.woken().await;
                drop(open);
            });
            let open = all.enter(1, &idle[0]).await;
            assert!(open.is_some());
            ending.await.unwrap();
            assert!(all.enter(1, &idle[0]).await.is_none(), "no connection is idle");
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
