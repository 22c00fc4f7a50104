//! The time within which a node answers nearly always.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Estimates the 95th percentile of response times without keeping them: each one moves the estimate a little, up
/// nineteen times as far as down.
#[derive(Debug)]
pub struct Latency {
    microseconds: AtomicU64,
}

impl Latency {
    /// An estimate that begins here.
    pub fn new(first: Duration) -> Self {
        Self { microseconds: AtomicU64::new(micros(first)) }
    }

    /// Takes in the time of one response. Updates by several threads at once may be lost, which an estimate bears.
    pub fn record(&self, time: Duration) {
        let (before, time) = (self.microseconds.load(Ordering::Relaxed), micros(time));
        let step = (before / 400).max(1);
        let after =
            if time > before { before.saturating_add(19 * step) } else { before.saturating_sub(step) };
        self.microseconds.store(after, Ordering::Relaxed);
    }

    /// The estimate.
    pub fn percentile_95(&self) -> Duration {
        Duration::from_micros(self.microseconds.load(Ordering::Relaxed))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_goes_to_the_95th_percentile() {
        for first in [1, 1000] {
            let latency = Latency::new(Duration::from_millis(first));
            for number in 0..20_000_u64 {
                // Evenly from 1 to 100 ms, in no order.
                latency.record(Duration::from_millis(1 + number * 37 % 100));
            }
            let found = latency.percentile_95();
            let expected = Duration::from_millis(85)..Duration::from_millis(110);
            assert!(expected.contains(&found), "{found:?}");
        }
    }
}
