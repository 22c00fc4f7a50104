//! Tells when a change of the settings is in force in every worker.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A change that is not in force everywhere yet. Each worker drops it once the settings are its own and the listeners that the
/// change closes accept no more: a connection made after that finds the new settings.
#[derive(Clone)]
pub(crate) struct PendingChange {
    _dropped: Sender<Infallible>,
}

impl PendingChange {
    /// A change, and what waits for the workers that it is given to.
    pub(crate) fn new() -> (Self, AppliedEverywhere) {
        let (sender, dropped) = channel();
        (Self { _dropped: sender }, AppliedEverywhere(dropped))
    }
}

/// Waits until every worker has applied a change.
pub(crate) struct AppliedEverywhere(Receiver<Infallible>);

impl AppliedEverywhere {
    /// Blocks until then, or for `patience`. Returns whether the change is in force in every worker.
    pub(crate) fn wait(self, patience: Duration) -> bool {
        matches!(self.0.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
    }
}
