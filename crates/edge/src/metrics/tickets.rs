//! What became of session tickets, and which keys there are.

use std::time::SystemTime;

use penstock_tls::tickets::directory::Why;
use penstock_tls::tickets::{TicketFacts, TicketOutcome};

use super::cells::Counter;
use super::shard::Shard;
use super::{Observatory, lock};

/// Counters of one worker.
#[derive(Debug, Default)]
pub(super) struct TicketCounters {
    pub(super) issued: Counter,
    pub(super) offered: [Counter; TicketOutcome::ALL.len()],
}

/// The ticket keys in use, as the control side last saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketKeysSeen {
    /// Keys older than the sealing one that still open tickets.
    pub older: usize,
    /// Keys that do not seal yet.
    pub introduced: usize,
    /// When the file of the sealing key was written; `None` if that key is random.
    pub sealing_modified: Option<SystemTime>,
    /// Files of the directory that are not used, by [`Why::LABELS`].
    pub ignored: [usize; Why::LABELS.len()],
}

impl Shard {
    /// A handshake ended well and did this with tickets.
    pub fn tickets(&self, facts: &TicketFacts) {
        self.expect_own_thread();
        self.tickets.issued.add(facts.issued.into());
        if let Some(outcome) = facts.offered {
            self.tickets.offered[outcome as usize].add(1);
        }
    }
}

impl Observatory {
    /// Replaces what is known of the ticket keys.
    pub fn set_ticket_keys(&self, seen: TicketKeysSeen) {
        *lock(&self.ticket_keys) = seen;
    }
}
