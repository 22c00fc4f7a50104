//! What handshakes had from earlier ones, and what it took.

use penstock_tls::session_store::LookupWait;

use super::cells::Counter;
use super::shard::Shard;

/// Counters of one worker.
#[derive(Debug, Default)]
pub(super) struct Resumption {
    pub(super) waits_answered: Counter,
    pub(super) waits_timed_out: Counter,
}

impl Shard {
    /// A handshake had to wait for a session that is kept elsewhere.
    pub fn waited_for_session(&self, wait: LookupWait) {
        self.expect_own_thread();
        match wait {
            LookupWait::Answered => self.resumption.waits_answered.add(1),
            LookupWait::TimedOut => self.resumption.waits_timed_out.add(1),
        }
    }
}
