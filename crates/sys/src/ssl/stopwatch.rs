//! Sums up the time of some steps of a handshake.

use std::time::{Duration, Instant};

/// Adds up the time of the steps that exchange keys; a pure state machine.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    total: Duration,
    /// Start of the current step plus its pauses; `None` in all other steps.
    since: Option<Instant>,
}

impl Stopwatch {
    pub(super) fn runs(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// A step that exchanges keys begins.
    pub(super) fn start(&mut self, now: Instant) {
        self.stop(now);
        self.since = Some(now);
    }

    /// Another step begins.
    pub(super) fn stop(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.total += now.saturating_duration_since(since);
        }
    }

    /// Excludes a pause from the current step.
    pub(super) fn paused(&mut self, duration: Duration) {
        self.since = self.since.and_then(|since| since.checked_add(duration));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_the_steps_that_exchange_keys_are_timed() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.stop(start);
        watch.start(start + 10 * MS);
        watch.stop(start + 13 * MS);
        watch.stop(start + 20 * MS);
        watch.start(start + 25 * MS);
        watch.start(start + 26 * MS);
        watch.stop(start + 28 * MS);
        assert_eq!(watch.total(), 6 * MS);
    }

    #[test]
    fn a_pause_is_no_work() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.paused(50 * MS);
        watch.start(start);
        watch.paused(70 * MS);
        watch.paused(20 * MS);
        watch.stop(start + 93 * MS);
        watch.paused(50 * MS);
        assert_eq!(watch.total(), 3 * MS);
    }

    #[test]
    fn a_pause_that_was_measured_longer_than_its_step_leaves_nothing() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.start(start);
        watch.paused(3 * MS);
        watch.stop(start + 2 * MS);
        assert_eq!(watch.total(), Duration::ZERO);
    }
}
