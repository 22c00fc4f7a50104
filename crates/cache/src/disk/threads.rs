//! The reader threads of one disk, so that a slow disk delays only requests for its slices.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use penstock_sys::lock::Unpoisoned;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A bounded queue and its threads. Dropped, the threads end after their current job.
pub(crate) struct Readers(Arc<JobQueue>);

struct JobQueue {
    queued_max: usize,
    state: Mutex<Jobs>,
    work: Condvar,
}

#[derive(Default)]
struct Jobs {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Readers {
    pub(crate) fn start(name: &str, threads: usize, queued_max: usize) -> io::Result<Self> {
        let shared = Arc::new(JobQueue { queued_max, state: Mutex::default(), work: Condvar::new() });
        let readers = Self(shared);
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&readers.0);
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || shared.serve())?;
        }
        Ok(readers)
    }

    /// Queues a job and returns its pending answer; `None` if the queue is full.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<oneshot::Receiver<T>> {
        let (sender, receiver) = oneshot::channel();
        let job = move || drop(sender.send(job()));
        self.push(Box::new(job), self.0.queued_max).then_some(receiver)
    }

    /// Queues a job without an answer, if the queue is short.
    pub(crate) fn run_if_idle(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.push(Box::new(job), self.0.queued_max / 4)
    }

    fn push(&self, job: Job, queued_max: usize) -> bool {
        let mut state = self.0.lock();
        if state.closed || state.jobs.len() >= queued_max {
            return false;
        }
        state.jobs.push_back(job);
        drop(state);
        self.0.work.notify_one();
        true
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let forgotten = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.work.notify_all();
        drop(forgotten);
    }
}

impl JobQueue {
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A panic must not cost the disk a thread. The waiter sees a closed channel.
                drop(catch_unwind(AssertUnwindSafe(job)));
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state = self.work.wait(state).unpoisoned();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.state.lock().unpoisoned()
    }
}
