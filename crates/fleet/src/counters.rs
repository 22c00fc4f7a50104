//! What was asked of the store, and how that ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A handshake looks for a session.
    SessionFind,
    /// A new session is stored.
    SessionStore,
    /// A ClientHello with early data is recorded.
    Strike,
    /// Session ticket keys are read or written.
    TicketKeys,
    /// Purges are read.
    PurgeRead,
    /// A purge is written.
    PurgeWrite,
    /// The edge says that it is there, or reads which others are.
    Edges,
}

impl Operation {
    /// All of them, in the order of [`Self::LABELS`].
    pub const ALL: [Self; 7] = [
        Self::SessionFind,
        Self::SessionStore,
        Self::Strike,
        Self::TicketKeys,
        Self::PurgeRead,
        Self::PurgeWrite,
        Self::Edges,
    ];

    /// Label values.
    pub const LABELS: [&str; 7] =
        ["session_find", "session_store", "strike", "ticket_keys", "purge_read", "purge_write", "edges"];
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done or found.
    Ok,
    /// Not found; a ClientHello that was recorded before.
    Miss,
    /// No answer in time.
    Timeout,
    /// The connection broke.
    Lost,
    /// The store has no memory left.
    Full,
    /// The store refused it for another reason.
    Refused,
    /// What was found was not sealed with the fleet's secret, or for something else.
    Forged,
    /// Not asked: no connection, the circuit is open, or too many operations are under way.
    Skipped,
    /// The client left before the answer.
    Abandoned,
}

impl Outcome {
    /// All of them, in the order of [`Self::LABELS`].
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Miss,
        Self::Timeout,
        Self::Lost,
        Self::Full,
        Self::Refused,
        Self::Forged,
        Self::Skipped,
        Self::Abandoned,
    ];

    /// Label values.
    pub const LABELS: [&str; 9] =
        ["ok", "miss", "timeout", "lost", "full", "refused", "forged", "skipped", "abandoned"];
}

/// Counts of operations by outcome.
#[derive(Debug, Default)]
pub(crate) struct Counters([[AtomicU64; Outcome::ALL.len()]; Operation::ALL.len()]);

impl Counters {
    pub(crate) fn count(&self, operation: Operation, outcome: Outcome) {
        self.0[operation as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> [[u64; Outcome::ALL.len()]; Operation::ALL.len()] {
        std::array::from_fn(|operation| {
            std::array::from_fn(|outcome| self.0[operation][outcome].load(Relaxed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_the_order_of_the_labels() {
        let counters = Counters::default();
        counters.count(Operation::Strike, Outcome::Forged);
        let read = counters.read();
        let place = |labels: &[&str], label| labels.iter().position(|one| *one == label).unwrap();
        assert_eq!(read[place(&Operation::LABELS, "strike")][place(&Outcome::LABELS, "forged")], 1);
        assert_eq!(read.iter().flatten().sum::<u64>(), 1);
        assert_eq!(Operation::ALL.map(|one| one as usize), std::array::from_fn(|place| place));
        assert_eq!(Outcome::ALL.map(|one| one as usize), std::array::from_fn(|place| place));
    }
}
