//! An access log: one line for each record, appended to a file, or sent to a socket of syslog, by a thread of its own.
//!
//! A [`Sink`] queues a line and never waits for the disk or the log thread. A full queue drops the line and counts
//! it. A full disk loses lines, which are counted too, and has no other effect.
#![forbid(unsafe_code)]

mod queue;
mod syslog;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_config::limits;
use penstock_metrics::LogCounters;
use penstock_sys::lock::Unpoisoned;

pub use queue::Sink;
use writer::{LogFile, Writer};

/// The log thread and its file. Dropping it writes the queued lines and ends the thread. The owner may wait for the
/// disk; those who log have a [`Sink`].
#[derive(Debug)]
pub struct AccessLog {
    path: PathBuf,
    sink: Sink,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
    close_deadline: Duration,
}

/// The bounds of the log.
#[derive(Clone, Copy, Debug)]
struct Limits {
    queue_lines: usize,
    queue_bytes: usize,
    /// The time from the first line of a batch to its write: many lines then share one wake-up and one write.
    gather: Duration,
    /// The longest time that closing waits for the disk.
    close_deadline: Duration,
}

const LIMITS: Limits = Limits {
    queue_lines: limits::ACCESS_LOG_QUEUE,
    queue_bytes: limits::ACCESS_LOG_QUEUE_BYTES,
    gather: Duration::from_millis(limits::ACCESS_LOG_GATHER_MILLISECONDS),
    close_deadline: Duration::from_secs(limits::ACCESS_LOG_CLOSE_SECONDS),
};

impl AccessLog {
    /// Opens or creates the file for appending, or connects to the socket of that path, and starts the log thread. `counters` count the lines written and
    /// dropped.
    ///
    /// # Errors
    /// If the file cannot be opened, is a named pipe without a reader, or the thread cannot be started.
    pub fn open(path: &Path, counters: Arc<LogCounters>) -> io::Result<Self> {
        Self::with_limits(path, counters, LIMITS)
    }

    fn with_limits(path: &Path, counters: Arc<LogCounters>, limits: Limits) -> io::Result<Self> {
        let file = LogFile::open(path)?;
        let (sink, lines) = queue::queue(limits.queue_lines, limits.queue_bytes, counters);
        let (ending, ended) = mpsc::channel();
        let writer = Writer::new(file, lines, Arc::clone(&sink.shared), limits.gather);
        let thread = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writer.run();
            drop(ending);
        })?;
        let close_deadline = limits.close_deadline;
        Ok(Self {
            path: path.to_owned(),
            sink,
            thread: Some(thread),
            ended: Mutex::new(ended),
            close_deadline,
        })
    }

    /// Returns the end of the queue where lines are put.
    #[must_use]
    pub fn sink(&self) -> Sink {
        self.sink.clone()
    }

    /// Whether it writes to this path.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Has the log thread open the path again, after a rotation, and returns at once. Lines queued after this call go
    /// to the new file. If it cannot be opened, the old file stays in use.
    pub fn reopen(&self) {
        self.sink.signal(&self.sink.shared.reopen);
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.sink.signal(&self.sink.shared.stop);
        let ended = self.ended.get_mut().unpoisoned();
        match ended.recv_timeout(self.close_deadline) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the access log is stuck in a write; its last lines are lost");
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the access log thread panicked");
                }
            }
        }
    }
}
