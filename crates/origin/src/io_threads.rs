//! Threads for blocking calls on files, so that workers never wait for a disk.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::thread;

use penstock_sys::file::OpenFile;
use penstock_sys::lock::Unpoisoned;
use tokio::sync::oneshot;

/// The queue is full, or the threads are shutting down: answer 503 and let the client try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many requests are waiting for the disk")
    }
}

impl std::error::Error for Busy {}

/// Bounds of an [`IoThreads`].
#[derive(Clone, Copy, Debug)]
pub struct IoLimits {
    /// Number of threads, at least one: how many requests the disks see at once.
    pub threads: usize,
    /// Awaited jobs that may be queued, beyond those under way.
    pub queued: usize,
    /// Background jobs that may be queued; they run when no awaited job is queued.
    pub queued_later: usize,
}

/// Counts since the start, and the present load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Jobs begun.
    pub begun: u64,
    /// Jobs refused because a queue was full.
    pub refused: u64,
    /// Jobs that panicked, which is a fault of the program.
    pub panicked: u64,
    /// Jobs under way now.
    pub running: usize,
    /// Jobs waiting now, of both kinds.
    pub queued: usize,
}

/// A pool of threads for blocking calls, shared by all workers.
///
/// The queue of tokio's `spawn_blocking` has no bound: under a flood of cold requests it grows until memory is gone.
/// Here a full queue returns [`Busy`].
///
/// Dropping it ends the threads without waiting for jobs under way, since a dead network file system may hold them
/// forever. Queued jobs are dropped, and their results are [`Busy`].
pub struct IoThreads {
    shared: Arc<PoolState>,
}

impl IoThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's error when no thread can be started; those already started end.
    pub fn start(limits: IoLimits) -> io::Result<Self> {
        let shared = Arc::new(PoolState { limits, state: Mutex::default(), work: Condvar::new() });
        let pool = Self { shared };
        for index in 0..limits.threads.max(1) {
            let shared = pool.shared.clone();
            thread::Builder::new().name(format!("penstock-io-{index}")).spawn(move || shared.serve())?;
        }
        Ok(pool)
    }

    /// Queues a job and returns its result as a future. The job runs even if the future is dropped.
    ///
    /// # Errors
    /// [`Busy`], here or as the result.
    pub fn run<T, J>(&self, job: J) -> Result<JobResult<T>, Busy>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.shared.push(Urgency::Awaited, move || {
            // Without a waiter the result is dropped on this thread.
            drop(sender.send(job()));
        })?;
        Ok(JobResult(receiver))
    }

    /// Queues a background job, which runs behind all awaited ones.
    ///
    /// # Errors
    /// [`Busy`]; the job is dropped.
    pub fn run_later(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        self.shared.push(Urgency::Later, job)
    }

    /// Drops a reference to a file, on one of the threads if it is the last one: closing a deleted file may
    /// make its file system free gigabytes, and unmapping a large one takes a while too.
    ///
    /// With a full queue it is dropped on the calling thread.
    pub fn discard(&self, file: Arc<OpenFile>) {
        if Arc::strong_count(&file) == 1 && self.run_later(move || drop(file)).is_err() {
            // The refused job is dropped here, and the file with it.
        }
    }

    /// Counts and present load.
    pub fn counters(&self) -> IoCounters {
        let state = self.shared.lock();
        IoCounters { queued: state.awaited.len() + state.later.len(), ..state.counters }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let forgotten = (std::mem::take(&mut state.awaited), std::mem::take(&mut state.later));
        drop(state);
        self.shared.work.notify_all();
        // Outside the lock: dropping a job may close files.
        drop(forgotten);
    }
}

impl fmt::Debug for IoThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoThreads").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

/// Resolves to the value of a job, or to [`Busy`] if the threads ended before it ran.
#[derive(Debug)]
pub struct JobResult<T>(oneshot::Receiver<T>);

impl<T> Future for JobResult<T> {
    type Output = Result<T, Busy>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|_closed| Busy)
    }
}

#[derive(Clone, Copy)]
enum Urgency {
    Awaited,
    Later,
}

type Job = Box<dyn FnOnce() + Send>;

struct PoolState {
    limits: IoLimits,
    state: Mutex<Queues>,
    work: Condvar,
}

#[derive(Default)]
struct Queues {
    awaited: VecDeque<Job>,
    later: VecDeque<Job>,
    closed: bool,
    counters: IoCounters,
}

impl PoolState {
    fn push(&self, urgency: Urgency, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let job: Job = Box::new(job);
        let mut guard = self.lock();
        let state = &mut *guard;
        let (queue, limit) = match urgency {
            Urgency::Awaited => (&mut state.awaited, self.limits.queued),
            Urgency::Later => (&mut state.later, self.limits.queued_later),
        };
        if state.closed || queue.len() >= limit {
            state.counters.refused += 1;
            drop(guard);
            return Err(Busy);
        }
        queue.push_back(job);
        drop(guard);
        self.work.notify_one();
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.awaited.pop_front().or_else(|| state.later.pop_front()) {
                state.counters.begun += 1;
                state.counters.running += 1;
                drop(state);
                // A panic must not cost the pool a thread. The waiter of the job gets `Busy`.
                let panicked = catch_unwind(AssertUnwindSafe(job)).is_err();
                state = self.lock();
                state.counters.running -= 1;
                state.counters.panicked += u64::from(panicked);
            } else if state.closed {
                return;
            } else {
                state = self.work.wait(state).unpoisoned();
            }
        }
    }

    /// No job runs under the lock, so a poisoned lock guards a consistent state.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.state.lock().unpoisoned()
    }
}

#[cfg(test)]
pub(crate) mod tests;
