//! Keeps operations from a server that fails one after the other.

use std::time::{Duration, Instant};

/// Counts failures in a row. Above a number the circuit is open: the server gets no operations for a time, then one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circuit {
    failures: u32,
    open_until: Option<Instant>,
    probing: bool,
    failures_max: u32,
    open_for: Duration,
}

impl Circuit {
    pub(super) fn new(failures_max: u32, open_for: Duration) -> Self {
        Self { failures: 0, open_until: None, probing: false, failures_max, open_for }
    }

    /// Whether an operation may begin.
    pub(super) fn admits(&self, now: Instant) -> bool {
        self.open_until.is_none_or(|until| now >= until && !self.probing)
    }

    /// Records the begin of an operation.
    pub(super) fn begun(&mut self) {
        self.probing = self.open_until.is_some();
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::new(self.failures_max, self.open_for);
    }

    /// Records a failure; returns whether it has opened the circuit.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.probing = false;
        self.failures = self.failures.saturating_add(1);
        if self.failures < self.failures_max {
            return false;
        }
        self.open_until.replace(now + self.open_for).is_none()
    }

    /// Records an end that says nothing about the server.
    pub(super) fn ended(&mut self) {
        self.probing = false;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Duration = Duration::from_secs(2);

    #[test]
    fn failures_in_a_row_open_it_and_one_success_closes_it() {
        let now = Instant::now();
        let mut circuit = Circuit::new(3, OPEN);
        assert!(!circuit.failed(now) && !circuit.failed(now));
        circuit.succeeded();
        assert!(!circuit.failed(now) && !circuit.failed(now) && circuit.admits(now));
        assert!(circuit.failed(now) && circuit.is_open());
        assert!(!circuit.admits(now) && !circuit.admits(now + OPEN / 2));
        circuit.succeeded();
        assert!(circuit.admits(now));
    }

    #[test]
    fn an_open_circuit_admits_one_operation_at_a_time_after_its_pause() {
        let now = Instant::now();
        let mut circuit = Circuit::new(1, OPEN);
        assert!(circuit.failed(now));
        let later = now + OPEN;
        assert!(circuit.admits(later));
        circuit.begun();
        assert!(!circuit.admits(later), "the first is under way");
        circuit.ended();
        assert!(circuit.admits(later));
        circuit.begun();
        assert!(!circuit.failed(later), "it was open already");
        assert!(!circuit.admits(later) && circuit.admits(later + OPEN));
    }
}
