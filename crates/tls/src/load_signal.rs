//! Wakes handshakes when the certificate that they wait for has been loaded.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The end of one load. A clone is the same signal.
#[derive(Clone, Debug)]
// A semaphore without permits: every wait ends when it is closed.
pub(crate) struct LoadSignal(Arc<Semaphore>);

impl LoadSignal {
    /// Creates a signal for a load that has not ended.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Wakes all waiters, now and later.
    pub(crate) fn notify(&self) {
        self.0.close();
    }

    /// Waits until the load has ended.
    pub(crate) async fn loaded(&self) {
        drop(self.0.acquire().await);
    }
}
