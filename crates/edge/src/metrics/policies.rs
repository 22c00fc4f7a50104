//! What the policies of handshakes have decided.

use super::cells::Counter;
use super::shard::Shard;

/// Counters of one worker.
#[derive(Debug, Default)]
pub(super) struct Policies {
    pub(super) queued: Counter,
    pub(super) retried: Counter,
}

impl Shard {
    /// A handshake had to wait for its turn to sign.
    pub fn handshake_queued(&self) {
        self.expect_own_thread();
        self.policies.queued.add(1);
    }

    /// A client was asked for a second ClientHello.
    pub fn hello_retried(&self) {
        self.expect_own_thread();
        self.policies.retried.add(1);
    }
}
