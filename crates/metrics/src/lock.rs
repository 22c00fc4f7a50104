//! Locking without poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data is complete at every moment, so a panic of another holder does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
