//! Locks without poison.
//!
//! ```
//! use penstock_sys::lock::Unpoisoned;
//! # let numbers = std::sync::Mutex::new(vec![1]);
//! numbers.lock().unpoisoned().push(2);
//! ```

use std::sync::{LockResult, PoisonError};

/// The content of a lock after another holder has panicked.
pub trait Unpoisoned {
    /// What the lock gives.
    type Guard;

    /// Takes the guard also if another holder has panicked. For data that is complete at every moment that a panic can
    /// happen.
    fn unpoisoned(self) -> Self::Guard;
}

impl<G> Unpoisoned for LockResult<G> {
    type Guard = G;

    fn unpoisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
