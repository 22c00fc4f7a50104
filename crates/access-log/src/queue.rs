//! The queue to the log thread, bounded in records and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use penstock_metrics::{LogCounters, LogLoss};

use crate::record::Record;

/// The end of the queue where records are put. Cheap to clone.
#[derive(Debug)]
pub struct Sink<R> {
    /// `None` only wakes the thread, so that it checks its flags.
    queue: SyncSender<Option<Box<R>>>,
    pub(super) shared: Arc<LogState>,
    text_bytes_max: usize,
}

impl<R> Clone for Sink<R> {
    fn clone(&self) -> Self {
        let Self { queue, shared, text_bytes_max } = self;
        Self { queue: queue.clone(), shared: Arc::clone(shared), text_bytes_max: *text_bytes_max }
    }
}

/// State that the sinks, the owner and the log thread share.
#[derive(Debug)]
pub(super) struct LogState {
    pub(super) counters: Arc<LogCounters>,
    /// Bytes of client text in the queue: the number of records alone would be a loose bound of its memory.
    pub(super) text_bytes: AtomicUsize,
    pub(super) reopen: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// Returns both ends of a queue of at most `records` records with at most `text_bytes` bytes of client text.
pub(super) fn queue<R>(
    records: usize,
    text_bytes: usize,
    counters: Arc<LogCounters>,
) -> (Sink<R>, Receiver<Option<Box<R>>>) {
    let (queue, receiver) = mpsc::sync_channel(records);
    let shared = Arc::new(LogState {
        counters,
        text_bytes: AtomicUsize::new(0),
        reopen: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    });
    (Sink { queue, shared, text_bytes_max: text_bytes }, receiver)
}

impl<R: Record> Sink<R> {
    /// Queues a record, or drops and counts it. Never waits.
    pub fn record(&self, record: R) {
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

impl LogState {
    /// Subtracts the client text of a record that left the queue.
    pub(super) fn release(&self, bytes: usize) {
        self.text_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
