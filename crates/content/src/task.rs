//! Tasks of a worker.

use penstock_metrics::{Work, doing_all};
use tokio::task::{JoinHandle, spawn_local};

/// Starts a task of this worker. Its future has a box of its own: tokio aligns a task to two cache lines, and glibc cuts
/// aligned blocks out of larger ones, so that the space left by a large task is too small for the next. Between objects
/// that stay, such holes came to 1.5 KB for each object.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    spawn_local(Box::pin(future))
}

/// The same for a task that fetches from an origin or another node.
pub(crate) fn spawn_filling(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    spawn_local(doing_all(Work::Filling, Box::pin(future)))
}
