//! Holds back a scripted server until the test lets it go on.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use penstock_sys::lock::Unpoisoned;

use crate::deadline::DEADLINE;

/// A gate between a test and the threads of a scripted server; clones are the same gate.
///
/// ```
/// use penstock_testkit::Gate;
///
/// let gate = Gate::closed();
/// let script = gate.clone();
/// let server = std::thread::spawn(move || script.pass());
/// gate.wait_for_arrivals(1);
/// gate.let_one_pass();
/// assert!(server.join().unwrap());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    /// Passes that are given and not yet used.
    passes: usize,
    arrivals: usize,
}

impl Gate {
    /// A gate that holds back every arrival.
    #[must_use]
    pub fn closed() -> Self {
        Self::default()
    }

    /// Waits to be let through; false after [`DEADLINE`], which ends a script.
    pub fn pass(&self) -> bool {
        let mut state = self.state();
        state.arrivals += 1;
        self.0.changed.notify_all();
        let mut state = self.wait_while(state, |state| !state.open && state.passes == 0);
        let passed = state.open || state.passes > 0;
        state.passes = state.passes.saturating_sub(1);
        passed
    }

    /// Lets one arrival through, the present one or the next.
    pub fn let_one_pass(&self) {
        self.state().passes += 1;
        self.0.changed.notify_all();
    }

    /// Lets every arrival through from now on.
    pub fn open(&self) {
        self.state().open = true;
        self.0.changed.notify_all();
    }

    /// Waits until so many have arrived, those that have passed included.
    ///
    /// # Panics
    /// After [`DEADLINE`].
    pub fn wait_for_arrivals(&self, count: usize) {
        let state = self.wait_while(self.state(), |state| state.arrivals < count);
        assert!(state.arrivals >= count, "{} of {count} came to the gate", state.arrivals);
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unpoisoned()
    }

    fn wait_while<'g>(
        &'g self,
        state: MutexGuard<'g, GateState>,
        condition: impl FnMut(&mut GateState) -> bool,
    ) -> MutexGuard<'g, GateState> {
        self.0.changed.wait_timeout_while(state, DEADLINE, condition).unpoisoned().0
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_pass_lets_one_through_and_opening_lets_all_through() {
        let gate = Gate::closed();
        thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| gate.pass()));
            gate.wait_for_arrivals(3);
            gate.let_one_pass();
            gate.open();
            assert!(waiting.into_iter().all(|one| one.join().unwrap()));
        });
        assert!(gate.pass(), "open for good");
    }

    #[test]
    fn a_pass_may_be_given_before_the_arrival() {
        let gate = Gate::closed();
        gate.let_one_pass();
        assert!(gate.pass());
    }
}
