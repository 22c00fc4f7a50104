//! The access log: one JSON line for each response, written by a thread of its own.
//!
//! A worker hands a [`Record`] over and goes on: it never waits, neither for the disk nor for the log thread. When the
//! queue is full the record is dropped and counted. A full disk costs records, which are counted too, and nothing else.

mod record;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_config::limits;

use crate::metrics::{LogCounters, LogLoss};
pub use record::{Record, Text};
use writer::{LogFile, Writer};

/// The log thread and its file. Dropping it writes what is queued and ends the thread; keep it where waiting for the
/// disk is allowed, and give the workers a [`Sink`] each.
#[derive(Debug)]
pub struct AccessLog {
    sink: Sink,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
    close_deadline: Duration,
}

/// A worker's end of the log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sink {
    /// `None` only wakes the thread, to look at what is asked of it.
    queue: SyncSender<Option<Box<Record>>>,
    shared: Arc<Shared>,
    text_bytes_max: usize,
}

/// What the workers, the owner and the log thread share.
#[derive(Debug)]
struct Shared {
    counters: Arc<LogCounters>,
    /// Bytes of client text in the queue: the number of records alone would not bound its memory well.
    text_bytes: AtomicUsize,
    reopen: AtomicBool,
    stop: AtomicBool,
}

/// The bounds of the log.
#[derive(Clone, Copy, Debug)]
struct Limits {
    queue_records: usize,
    queue_text_bytes: usize,
    /// How long the thread lets records gather after the first, so that many share one wake-up and one write.
    gather: Duration,
    /// How long closing waits for the disk.
    close_deadline: Duration,
}

const LIMITS: Limits = Limits {
    queue_records: limits::ACCESS_LOG_QUEUE,
    queue_text_bytes: limits::ACCESS_LOG_QUEUE_TEXT_BYTES,
    gather: Duration::from_millis(limits::ACCESS_LOG_GATHER_MILLISECONDS),
    close_deadline: Duration::from_secs(limits::ACCESS_LOG_CLOSE_SECONDS),
};

impl AccessLog {
    /// Opens (or creates) the file for appending and starts the log thread. What becomes of the records is counted in
    /// `counters`.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread cannot be started.
    pub fn open(path: &Path, counters: Arc<LogCounters>) -> io::Result<Self> {
        Self::with_limits(path, counters, LIMITS)
    }

    fn with_limits(path: &Path, counters: Arc<LogCounters>, limits: Limits) -> io::Result<Self> {
        let file = LogFile::open(path)?;
        let (queue, records) = mpsc::sync_channel(limits.queue_records);
        let (ending, ended) = mpsc::channel();
        let shared = Arc::new(Shared {
            counters,
            text_bytes: AtomicUsize::new(0),
            reopen: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let writer = Writer::new(file, records, Arc::clone(&shared), limits.gather);
        let thread = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writer.run();
            drop(ending);
        })?;
        let sink = Sink { queue, shared, text_bytes_max: limits.queue_text_bytes };
        let close_deadline = limits.close_deadline;
        Ok(Self { sink, thread: Some(thread), ended: Mutex::new(ended), close_deadline })
    }

    /// A worker's end.
    #[must_use]
    pub fn sink(&self) -> Sink {
        self.sink.clone()
    }

    /// Has the log thread open the path anew, after a rotation. Returns at once; records queued after this call go to
    /// the new file. When it cannot be opened, the old one stays in use.
    pub fn reopen(&self) {
        self.ask(&self.sink.shared.reopen);
    }

    /// Sets a flag and makes sure that the thread looks at it.
    fn ask(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        match self.sink.queue.try_send(None) {
            // A full queue means that the thread is at work, and it looks at the flags between two writes.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.ask(&self.sink.shared.stop);
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(self.close_deadline) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the access log is stuck in a write; its last records are lost");
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the access log thread panicked");
                }
            }
        }
    }
}

impl Sink {
    /// Queues a record, or drops and counts it. Never waits.
    pub fn record(&self, record: Record) {
        let bytes = record.text_bytes();
        let shared = &self.shared;
        if shared.text_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.text_bytes_max {
            shared.give_back(bytes);
            shared.counters.lost(LogLoss::QueueFull, 1);
            return;
        }
        let loss = match self.queue.try_send(Some(Box::new(record))) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => LogLoss::QueueFull,
            Err(TrySendError::Disconnected(_)) => LogLoss::Closed,
        };
        shared.give_back(bytes);
        shared.counters.lost(loss, 1);
    }
}

impl Shared {
    fn give_back(&self, bytes: usize) {
        self.text_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
