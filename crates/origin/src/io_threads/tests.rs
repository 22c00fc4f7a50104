use std::fs::File;
use std::sync::mpsc;

use super::*;

/// A pool with space for `queued` jobs of either kind.
pub(crate) fn pool(threads: usize, queued: usize) -> Arc<IoThreads> {
    Arc::new(IoThreads::start(IoLimits { threads, queued, queued_later: queued }).unwrap())
}

/// Keeps one thread of a pool busy until it is dropped.
pub(crate) struct Gate {
    _open: mpsc::Sender<()>,
}

impl Gate {
    /// Returns once a thread is held.
    pub(crate) fn close(pool: &IoThreads) -> Self {
        let (open, wait) = mpsc::channel::<()>();
        let (held, holds) = mpsc::channel();
        let answer = pool.run(move || {
            held.send(()).unwrap();
            wait.recv().unwrap_err();
        });
        drop(answer.unwrap());
        holds.recv().unwrap();
        Self { _open: open }
    }
}

#[tokio::test]
async fn a_job_returns_its_answer() {
    let pool = pool(2, 8);
    let (first, second) = (pool.run(|| 1).unwrap(), pool.run(|| "two").unwrap());
    assert_eq!((second.await, first.await), (Ok("two"), Ok(1)));
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let pool = pool(1, 2);
    let gate = Gate::close(&pool);
    let first = pool.run(|| 1).unwrap();
    let second = pool.run(|| 2).unwrap();
    assert_eq!(pool.run(|| 3).map(drop), Err(Busy));
    let counters = pool.counters();
    assert_eq!((counters.refused, counters.running, counters.queued), (1, 1, 2));
    drop(gate);
    assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
    assert_eq!(pool.run(|| 4).unwrap().await, Ok(4));
}

#[tokio::test]
async fn a_read_with_a_waiter_comes_before_a_prefetch() {
    let pool = pool(1, 4);
    let (log, order) = mpsc::channel();
    let gate = Gate::close(&pool);
    let later = log.clone();
    pool.run_later(move || later.send("later").unwrap()).unwrap();
    let awaited = pool.run(move || log.send("awaited").unwrap()).unwrap();
    drop(gate);
    awaited.await.unwrap();
    assert_eq!(order.iter().collect::<Vec<_>>(), ["awaited", "later"]);
}

#[tokio::test]
async fn a_job_runs_although_its_answer_was_dropped() {
    let pool = pool(1, 4);
    let (done, wait) = mpsc::channel();
    drop(pool.run(move || done.send(()).unwrap()).unwrap());
    assert_eq!(wait.recv(), Ok(()));
}

#[tokio::test]
async fn a_panic_costs_its_waiter_the_answer_and_nothing_else() {
    let pool = pool(1, 4);
    let lost = pool.run(|| std::panic::resume_unwind(Box::new(()))).unwrap();
    assert_eq!(lost.await, Err::<(), _>(Busy));
    assert_eq!(pool.run(|| 1).unwrap().await, Ok(1));
    assert_eq!(pool.counters().panicked, 1);
}

#[tokio::test]
async fn dropping_the_pool_ends_its_threads_and_forgets_what_was_queued() {
    let pool = pool(1, 4);
    let shared = Arc::downgrade(&pool.shared);
    let gate = Gate::close(&pool);
    let queued = pool.run(|| 1).unwrap();
    drop(pool);
    assert_eq!(queued.await, Err(Busy));
    drop(gate);
    // The threads own a reference to the shared state; its end is their end.
    while shared.strong_count() > 0 {
        thread::yield_now();
    }
}

#[tokio::test]
async fn the_last_reference_to_a_file_is_dropped_by_the_threads() {
    let pool = pool(1, 4);
    let named = tempfile::NamedTempFile::new().unwrap();
    let file = Arc::new(OpenFile::from_fd(File::open(named.path()).unwrap().into()).unwrap());
    let weak = Arc::downgrade(&file);
    pool.discard(file.clone());
    assert_eq!(pool.counters().queued, 0);

    let gate = Gate::close(&pool);
    pool.discard(file);
    assert_eq!((pool.counters().queued, weak.strong_count()), (1, 1));
    drop(gate);
    while weak.strong_count() > 0 {
        thread::yield_now();
    }
}
