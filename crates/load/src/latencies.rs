//! A histogram of latencies.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies in nanoseconds, to three digits.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} latencies to {:?}", self.count(), self.max())
    }
}

/// The longest latency that is told apart; longer ones count as this.
const LATENCY_NANOSECONDS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

impl Default for Latencies {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and right: a test makes one")]
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, DIGITS).expect("the bounds are right"))
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn note(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "both have the same bounds");
    }

    /// Adds all of another, and empties it.
    pub fn move_from(&mut self, other: &mut Self) {
        if other.count() > 0 {
            self.add(other);
            other.0.reset();
        }
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that `percent` of all do not exceed; zero without any.
    pub fn percentile(&self, percent: f64) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.0.value_at_percentile(percent).min(self.0.max()))
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() / 1e9)
    }

    /// The shortest, exact to three digits.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.0.is_empty() { 0 } else { self.0.min() })
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The histogram.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_within(found: Duration, wanted: Duration, share: f64) -> bool {
        (found.as_secs_f64() - wanted.as_secs_f64()).abs() <= wanted.as_secs_f64() * share
    }

    #[test]
    fn percentiles_of_a_uniform_distribution_are_right() {
        let mut latencies = Latencies::default();
        for microseconds in 1..=100_000 {
            latencies.note(Duration::from_micros(microseconds));
        }
        for (percent, wanted) in [(50.0, 50_000), (90.0, 90_000), (99.0, 99_000), (99.9, 99_900)] {
            let found = latencies.percentile(percent);
            assert!(is_within(found, Duration::from_micros(wanted), 0.002), "{percent}: {found:?}");
        }
        assert!(is_within(latencies.mean(), Duration::from_micros(50_000), 0.002));
        assert!(is_within(latencies.min(), Duration::from_micros(1), 0.002));
        assert!(is_within(latencies.max(), Duration::from_micros(100_000), 0.002));
    }

    #[test]
    fn percentiles_of_an_exponential_distribution_are_right() {
        let mut latencies = Latencies::default();
        // The quantiles of the distribution, evenly spaced.
        for step in 0..200_000_u32 {
            let share = (f64::from(step) + 0.5) / 200_000.0;
            latencies.note(Duration::from_millis(10).mul_f64(-(1.0 - share).ln()));
        }
        for percent in [50.0, 90.0, 99.0] {
            let factor = -(1.0_f64 - percent / 100.0).ln();
            let found = latencies.percentile(percent);
            assert!(
                is_within(found, Duration::from_millis(10).mul_f64(factor), 0.03),
                "{percent}: {found:?}"
            );
        }
    }

    #[test]
    fn a_rare_slow_response_shows_in_the_last_percentiles_only() {
        let mut latencies = Latencies::default();
        for _ in 0..9_990 {
            latencies.note(Duration::from_millis(1));
        }
        for _ in 0..10 {
            latencies.note(Duration::from_secs(2));
        }
        assert!(is_within(latencies.percentile(99.0), Duration::from_millis(1), 0.002));
        assert!(is_within(latencies.percentile(99.95), Duration::from_secs(2), 0.002));
    }

    #[test]
    fn latencies_of_two_threads_add_up() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.note(Duration::from_millis(1));
        other.note(Duration::from_secs(7200));
        one.add(&other);
        assert_eq!(one.count(), 2);
        assert!(is_within(one.max(), Duration::from_secs(3600), 0.002), "the longest that is told apart");
    }

    #[test]
    fn without_latencies_everything_is_zero() {
        let latencies = Latencies::default();
        assert_eq!(latencies.percentile(99.0), Duration::ZERO);
        assert_eq!((latencies.min(), latencies.max(), latencies.mean()), Default::default());
    }
}
