//! The queue to the log thread, bounded in lines and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use penstock_metrics::{LogCounters, LogLoss};

/// The end of the queue where lines are put. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sink {
    /// `None` only wakes the thread, so that it checks its flags.
    queue: SyncSender<Option<Vec<u8>>>,
    pub(super) shared: Arc<LogState>,
    bytes_max: usize,
}

/// State that the sinks, the owner and the log thread share.
#[derive(Debug)]
pub(super) struct LogState {
    pub(super) counters: Arc<LogCounters>,
    /// Bytes of the lines in the queue: their number alone would be a loose bound of its memory.
    pub(super) bytes: AtomicUsize,
    pub(super) reopen: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// Returns both ends of a queue of at most `lines` lines with at most `bytes_max` bytes.
pub(super) fn queue(
    lines: usize,
    bytes_max: usize,
    counters: Arc<LogCounters>,
) -> (Sink, Receiver<Option<Vec<u8>>>) {
    let (queue, receiver) = mpsc::sync_channel(lines);
    let shared = Arc::new(LogState {
        counters,
        bytes: AtomicUsize::new(0),
        reopen: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    });
    (Sink { queue, shared, bytes_max }, receiver)
}

impl Sink {
    /// Queues a line with its line end, or drops and counts it. Never waits.
    pub fn line(&self, line: Vec<u8>) {
        let bytes = line.len();
        let shared = &self.shared;
        if shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            shared.release(bytes);
            shared.counters.lost(LogLoss::QueueFull, 1);
            return;
        }
        let loss = match self.queue.try_send(Some(line)) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => LogLoss::QueueFull,
            Err(TrySendError::Disconnected(_)) => LogLoss::Closed,
        };
        shared.release(bytes);
        shared.counters.lost(loss, 1);
    }

    /// Sets a flag and wakes the thread to check it.
    pub(super) fn signal(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        match self.queue.try_send(None) {
            // With a full queue the thread is awake, and it checks the flags between two writes.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

impl LogState {
    /// Subtracts the bytes of a line that left the queue.
    pub(super) fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
