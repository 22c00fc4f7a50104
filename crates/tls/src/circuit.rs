//! Keeps handshakes from asking a server that fails each time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;

/// When a [`Circuit`] opens and closes.
#[derive(Clone, Copy, Debug)]
pub struct CircuitLimits {
    /// Failures one after the other that open it.
    pub failures: u32,
    /// Successes one after the other that close it.
    pub successes: u32,
    /// How long it then admits no operation; afterwards one at a time. `None` if none is admitted until probes beside the
    /// operations have closed it.
    pub pause: Option<Duration>,
}

/// Counts failures in a row of a server. Above a number it is open, and admits no operations, or few. Any thread may use it;
/// none waits, and while the server answers no lock is taken.
///
/// ```
/// use std::time::{Duration, Instant};
/// use penstock_tls::circuit::{Circuit, CircuitLimits};
///
/// let circuit = Circuit::new(CircuitLimits { failures: 2, successes: 1, pause: Some(Duration::from_secs(2)) });
/// let now = Instant::now();
/// assert!(!circuit.failed(now) && circuit.failed(now));
/// assert!(!circuit.admits(now));
/// ```
#[derive(Debug)]
pub struct Circuit {
    limits: CircuitLimits,
    is_open: AtomicBool,
    /// Failures while it is closed, successes while it is open.
    in_a_row: AtomicU32,
    trial: Mutex<Trial>,
}

/// The operations of an open circuit.
#[derive(Debug, Default)]
struct Trial {
    not_before: Option<Instant>,
    is_under_way: bool,
}

impl Circuit {
    /// A closed circuit.
    pub fn new(limits: CircuitLimits) -> Self {
        let (is_open, in_a_row) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { limits, is_open, in_a_row, trial: Mutex::default() }
    }

    /// Whether the server has failed too often.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Whether an operation may begin.
    pub fn admits(&self, now: Instant) -> bool {
        if !self.is_open() {
            return true;
        }
        let trial = self.trial();
        !trial.is_under_way && trial.not_before.is_some_and(|time| now >= time)
    }

    /// Records the begin of an operation. Each is followed by [`Self::succeeded`], [`Self::failed`] or [`Self::ended`].
    pub fn begun(&self) {
        if self.is_open() {
            self.trial().is_under_way = true;
        }
    }

    /// Records an operation or a probe that was answered. Returns whether it has closed the circuit.
    pub fn succeeded(&self) -> bool {
        if !self.is_open() {
            if self.in_a_row.load(Relaxed) > 0 {
                self.in_a_row.store(0, Relaxed);
            }
            return false;
        }
        self.trial().is_under_way = false;
        if self.in_a_row.fetch_add(1, Relaxed) + 1 < self.limits.successes {
            return false;
        }
        self.in_a_row.store(0, Relaxed);
        self.is_open.swap(false, Relaxed)
    }

    /// Records a failure. Returns whether it has opened the circuit.
    pub fn failed(&self, now: Instant) -> bool {
        let opens = self.is_open() || self.in_a_row.fetch_add(1, Relaxed) + 1 >= self.limits.failures;
        opens && self.open(now)
    }

    /// Opens the circuit without waiting for more failures, such as after the loss of the connection. Returns whether it was
    /// closed.
    pub fn open(&self, now: Instant) -> bool {
        *self.trial() = Trial { not_before: self.limits.pause.map(|pause| now + pause), is_under_way: false };
        self.in_a_row.store(0, Relaxed);
        !self.is_open.swap(true, Relaxed)
    }

    /// Records the end of an operation that says nothing about the server.
    pub fn ended(&self) {
        if self.is_open() {
            self.trial().is_under_way = false;
        }
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    fn circuit(failures: u32, successes: u32, pause: Option<Duration>) -> (Circuit, Instant) {
        (Circuit::new(CircuitLimits { failures, successes, pause }), Instant::now())
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_success_closes_it() {
        let (circuit, now) = circuit(3, 1, Some(PAUSE));
        assert!(!circuit.failed(now) && !circuit.failed(now));
        assert!(!circuit.succeeded(), "it was closed");
        assert!(!circuit.failed(now) && !circuit.failed(now) && circuit.admits(now));
        assert!(circuit.failed(now) && circuit.is_open());
        assert!(!circuit.admits(now) && !circuit.admits(now + PAUSE / 2));
        assert!(circuit.succeeded() && circuit.admits(now));
        assert!(!circuit.failed(now) && circuit.admits(now), "the count begins again");
    }

    #[test]
    fn an_open_circuit_admits_one_operation_at_a_time_after_its_pause() {
        let (circuit, now) = circuit(1, 1, Some(PAUSE));
        assert!(circuit.failed(now));
        let later = now + PAUSE;
        assert!(circuit.admits(later));
        circuit.begun();
        assert!(!circuit.admits(later), "the first is under way");
        circuit.ended();
        assert!(circuit.admits(later));
        circuit.begun();
        assert!(!circuit.failed(later), "it was open already");
        assert!(!circuit.admits(later) && circuit.admits(later + PAUSE));
    }

    #[test]
    fn without_a_pause_only_probes_in_a_row_close_it() {
        let (circuit, now) = circuit(3, 2, None);
        assert!(circuit.open(now) && !circuit.open(now));
        assert!(!circuit.admits(now + 1000 * PAUSE));
        assert!(!circuit.succeeded() && !circuit.failed(now) && !circuit.succeeded());
        assert!(circuit.is_open());
        assert!(circuit.succeeded() && circuit.admits(now));
    }
}
