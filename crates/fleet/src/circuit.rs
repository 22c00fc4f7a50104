//! Whether handshakes may ask the store.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// When a [`Circuit`] opens and closes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CircuitLimits {
    /// Operations without an answer in time, one after the other, that open it.
    pub(crate) failures: u32,
    /// Probes answered in time, one after the other, that close it again.
    pub(crate) probes: u32,
}

/// Opens when the store does not answer in time, so that no further handshake waits; closes when it answers probes
/// again. Shared by all workers.
#[derive(Debug)]
pub(crate) struct Circuit {
    limits: CircuitLimits,
    open: AtomicBool,
    failures: AtomicU32,
    probes: AtomicU32,
}

impl Circuit {
    pub(crate) fn new(limits: CircuitLimits) -> Self {
        Self { limits, open: AtomicBool::new(false), failures: AtomicU32::new(0), probes: AtomicU32::new(0) }
    }

    /// Whether handshakes do without the store.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    /// An operation was answered in time.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// An operation had no answer in time. Returns whether this opened the circuit.
    pub(crate) fn failed(&self) -> bool {
        self.failures.fetch_add(1, Relaxed) + 1 >= self.limits.failures && self.open()
    }

    /// The connection is lost or a probe had no answer at all. Returns whether this opened the circuit.
    pub(crate) fn open(&self) -> bool {
        self.probes.store(0, Relaxed);
        !self.open.swap(true, Relaxed)
    }

    /// A probe was answered, in time for a handshake or not. Returns whether this closed the circuit.
    pub(crate) fn probed(&self, in_time: bool) -> bool {
        if !in_time {
            self.probes.store(0, Relaxed);
            return false;
        }
        if !self.is_open() || self.probes.fetch_add(1, Relaxed) + 1 < self.limits.probes {
            return false;
        }
        self.failures.store(0, Relaxed);
        self.open.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_probes_in_a_row() {
        let circuit = Circuit::new(CircuitLimits { failures: 3, probes: 2 });
        assert!(!circuit.failed() && !circuit.failed());
        circuit.succeeded();
        assert!(!circuit.failed() && !circuit.failed() && !circuit.is_open());
        assert!(circuit.failed() && circuit.is_open());
        assert!(!circuit.failed(), "it opens once");
        assert!(!circuit.probed(true) && !circuit.probed(false) && !circuit.probed(true));
        assert!(circuit.is_open());
        assert!(circuit.probed(true) && !circuit.is_open());
        assert!(!circuit.failed() && !circuit.is_open(), "the count begins again");
        assert!(circuit.open() && circuit.is_open());
    }
}
