//! What handshakes had from earlier ones, and what it took.

use penstock_tls::early_data::EarlyData;
use penstock_tls::session_store::LookupWait;

use super::cells::{Counter, OTHER, Tally, TallyKey};
use super::shard::Shard;

/// Counters of one worker.
#[derive(Debug, Default)]
pub(super) struct Resumption {
    pub(super) waits_answered: Counter,
    pub(super) waits_timed_out: Counter,
    pub(super) early_data: Tally<(&'static str, &'static str)>,
    pub(super) early_requests: Tally<&'static str>,
}

impl TallyKey for (&'static str, &'static str) {
    const OTHER: Self = (OTHER, OTHER);
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

    /// A handshake came as far as this with the client's early data.
    pub fn early_data(&self, outcome: EarlyData) {
        self.expect_own_thread();
        match outcome {
            EarlyData::None => {}
            EarlyData::Accepted => self.resumption.early_data.add(("accepted", "none")),
            EarlyData::Delayed(reason) => self.resumption.early_data.add(("delayed", reason)),
            EarlyData::Rejected(reason) => self.resumption.early_data.add(("rejected", reason)),
        }
    }

    /// What became of a request that came as early data.
    pub fn early_request(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.resumption.early_requests.add(outcome);
    }
}
