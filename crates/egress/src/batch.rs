//! The buffer in which records wait for one `send`.

use std::cell::RefCell;

/// Bytes sealed and not yet sent. The memory is initialised once and reused, so that sealing writes every byte
/// exactly once.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    filled: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), filled: 0 }
    }

    /// Empties the batch and makes sure that `capacity` bytes fit.
    pub(crate) fn begin(&mut self, capacity: usize) {
        self.filled = 0;
        if self.bytes.len() < capacity {
            self.bytes.resize(capacity, 0);
        }
    }

    /// Makes sure that `count` more bytes fit.
    pub(crate) fn reserve(&mut self, count: usize) {
        if self.bytes.len() < self.filled + count {
            self.bytes.resize(self.filled + count, 0);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// The next `count` bytes to write, which [`Self::commit`] then keeps; `None` if they do not fit.
    pub(crate) fn space(&mut self, count: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.filled..)?.get_mut(..count)
    }

    pub(crate) fn commit(&mut self, count: usize) {
        self.filled += count;
    }
}

thread_local! {
    // One per worker: a batch is filled and offered to the socket without an await in between.
    static BATCH: RefCell<Batch> = RefCell::new(Batch::new());
}

/// Lends this worker's batch.
pub(crate) fn with_batch<R>(work: impl FnOnce(&mut Batch) -> R) -> R {
    BATCH.with_borrow_mut(work)
}
