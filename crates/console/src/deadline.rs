//! When a connection is closed, which the body of its response may postpone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The deadline of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    at: Arc<Mutex<Instant>>,
    length: Duration,
}

impl Deadline {
    /// A deadline this long from now.
    pub(crate) fn new(length: Duration) -> Self {
        Self { at: Arc::new(Mutex::new(Instant::now() + length)), length }
    }

    /// Starts the time anew: the client takes what it is sent.
    pub(crate) fn postpone(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + self.length;
    }

    /// Resolves once the deadline has passed and was not postponed.
    pub(crate) async fn passed(&self) {
        loop {
            let at = self.at();
            sleep_until(at).await;
            if self.at() <= Instant::now() {
                return;
            }
        }
    }

    fn at(&self) -> Instant {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
