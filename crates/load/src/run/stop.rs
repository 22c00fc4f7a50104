//! Ending a run from outside.

use tokio::sync::watch;

/// Ends a run from outside. The run returns its figures up to then.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Sender<bool>);

impl Default for StopSignal {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl StopSignal {
    /// Ends the run.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}
