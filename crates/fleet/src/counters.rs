//! What was asked of the store, and how that ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use penstock_metrics::{FleetOperation as Operation, FleetOutcome as Outcome};

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
        assert_eq!(read[Operation::Strike as usize][Outcome::Forged as usize], 1);
        assert_eq!(read.iter().flatten().sum::<u64>(), 1);
    }
}
