//! The threads that sign.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use penstock_sys::lock::Unpoisoned;

/// Runs operations on threads of its own, first come, first served. Dropping it ends the threads.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: Mutex<Sender<Job>>,
    waiting: Arc<AtomicUsize>,
    waiting_max: usize,
}

/// An operation.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

impl Pool {
    /// Starts the threads. At most `waiting_max` operations wait.
    pub(crate) fn start(threads: usize, waiting_max: usize) -> io::Result<Self> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let waiting = Arc::new(AtomicUsize::new(0));
        for number in 0..threads {
            let (receiver, waiting) = (Arc::clone(&receiver), Arc::clone(&waiting));
            thread::Builder::new().name(format!("sign-{number}")).spawn(move || work(&receiver, &waiting))?;
        }
        Ok(Self { queue: Mutex::new(sender), waiting, waiting_max })
    }

    /// Whether as many operations wait as may. Only one thread queues, so that the answer holds until it does.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= self.waiting_max
    }

    /// Queues an operation.
    pub(crate) fn run(&self, job: Job) {
        self.waiting.fetch_add(1, Relaxed);
        // The threads end after this value only.
        drop(self.queue.lock().unpoisoned().send(job));
    }

    /// Operations that wait for a thread.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, waiting: &AtomicUsize) {
    loop {
        let job = jobs.lock().unpoisoned().recv();
        let Ok(job) = job else { return };
        waiting.fetch_sub(1, Relaxed);
        job();
    }
}
