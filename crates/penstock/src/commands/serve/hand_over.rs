//! The running server hands over to a process that succeeds it, or takes over again.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use penstock_config::limits;
use rustix::process::Pid;
use tokio::sync::oneshot;

use super::Running;
use super::admin::AdminListener;
use crate::control::HandOverOutcome;
use crate::succession::{Accepted, Successor, end_successor};

/// The process that succeeds this one.
pub(super) enum SuccessorState {
    None,
    /// It starts; its process id.
    Starts(Pid),
    Accepts(Accepted),
}

impl SuccessorState {
    /// Ends a successor that has not been ready yet.
    pub(super) fn end(&self) {
        if let Self::Starts(id) = self {
            end_successor(*id);
        }
    }

    /// Whether a successor that was ready has failed since.
    pub(super) fn has_failed(&mut self) -> bool {
        let Self::Accepts(successor) = self else { return false };
        let Some(status) = successor.failure() else { return false };
        tracing::error!("the new process has failed ({status}); this process serves again");
        true
    }
}

impl Running {
    pub(super) fn start_successor(&mut self) -> io::Result<oneshot::Receiver<HandOverOutcome>> {
        let program =
            self.program.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let admin = self.admin.as_ref().map(AdminListener::socket).transpose()?;
        let successor = Successor::start(program, self.config.limits.successor_start)?;
        tracing::info!("handing over to process {}, {}", successor.id(), program.path.display());
        let id = successor.id();
        let (sender, outcome) = oneshot::channel();
        let server = Arc::clone(&self.server);
        let thread = thread::Builder::new().name("hand-over".to_owned());
        let run = thread.spawn(move || drop(sender.send(successor.hand_over(&server, admin))));
        // It would begin as if it had no predecessor.
        run.inspect_err(|_| end_successor(id))?;
        self.successor = SuccessorState::Starts(id);
        Ok(outcome)
    }

    /// Leaves the listeners to a successor that accepts. Returns how long connections have for their next response.
    pub(super) fn leave_to(&mut self, successor: Accepted) -> Duration {
        // Before the admin listener: who is told that a purge is done finds it in the successor.
        self.admin = None;
        self.server.complete_hand_over();
        successor.leave();
        successor.tell_changes(&self.server);
        self.successor = SuccessorState::Accepts(successor);
        self.config.limits.lame_duck.max(Duration::from_secs(limits::SUCCEEDED_SECONDS))
    }

    /// Takes everything back from a successor that has failed. Returns whether this process serves.
    pub(super) fn serve_again(&mut self) -> bool {
        self.successor = SuccessorState::None;
        if let Err(error) = self.server.take_back(&self.config) {
            tracing::error!("cannot serve again: {error}; this process ends");
            return false;
        }
        self.restore_admin();
        true
    }
}
