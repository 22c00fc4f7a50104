//! The queue from the workers to the log thread, bounded in records and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use super::record::Record;
use crate::metrics::{LogCounters, LogLoss};

/// A worker's end of the queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sink {
    /// `None` only wakes the thread, so that it checks its flags.
    queue: SyncSender<Option<Box<Record>>>,
    pub(super) shared: Arc<Shared>,
    text_bytes_max: usize,
}

/// State that the workers, the owner and the log thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counters: Arc<LogCounters>,
    /// Bytes of client text in the queue: the number of records alone would be a loose bound of its memory.
    pub(super) text_bytes: AtomicUsize,
    pub(super) reopen: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// Returns both ends of a queue of at most `records` records with at most `text_bytes` bytes of client text.
pub(super) fn queue(
    records: usize,
    text_bytes: usize,
    counters: Arc<LogCounters>,
) -> (Sink, Receiver<Option<Box<Record>>>) {
    let (queue, receiver) = mpsc::sync_channel(records);
    let shared = Arc::new(Shared {
        counters,
        text_bytes: AtomicUsize::new(0),
        reopen: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    });
    (Sink { queue, shared, text_bytes_max: text_bytes }, receiver)
}

impl Sink {
    /// Queues a record, or drops and counts it. Never waits.
    pub fn record(&self, record: Record) {
        let bytes = record.text_bytes();
        let shared = &self.shared;
        if shared.text_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.text_bytes_max {
            shared.release(bytes);
            shared.counters.lost(LogLoss::QueueFull, 1);
            return;
        }
        let loss = match self.queue.try_send(Some(Box::new(record))) {
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

impl Shared {
    /// Subtracts the client text of a record that left the queue.
    pub(super) fn release(&self, bytes: usize) {
        self.text_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
