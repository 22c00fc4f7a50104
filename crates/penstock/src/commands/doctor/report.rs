//! The report of the doctor.

use super::examine::examine;
use super::facts::Facts;
use super::finding::{Finding, Rating};

/// Facts and what follows from them.
pub(super) struct Report {
    pub(super) facts: Facts,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn of(facts: Facts) -> Self {
        Self { findings: examine(&facts), facts }
    }

    /// How many findings ask for a change.
    pub(super) fn faults(&self) -> usize {
        let is_fault = |one: &&Finding| matches!(one.rating, Rating::Better(_) | Rating::Problem(_));
        self.findings.iter().filter(is_fault).count()
    }
}
