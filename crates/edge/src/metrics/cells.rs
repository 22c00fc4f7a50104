//! What a shard is made of: counters, histograms and tallies that one worker writes and a scrape reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_config::limits;

use super::labels::Direction;

/// A number that one thread writes and any thread reads.
///
/// Adding is a plain load and store, not a locked instruction: with a single writer nothing can come between.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds from any thread, for events that the worker itself cannot count.
    pub(super) fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the histogram buckets, in nanoseconds; the last bucket, without a bound, is not listed.
///
/// One ladder for all: a signature takes some 10 µs, handshakes live between 100 µs and 10 s, and a response to a slow
/// viewer may take minutes.
pub(super) const BUCKET_BOUNDS_NANOSECONDS: [u64; 22] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    300_000_000_000,
];

/// Durations counted in buckets. The count is the sum of the buckets, so the two can never disagree in a scrape.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [Counter; BUCKET_BOUNDS_NANOSECONDS.len() + 1],
    sum_nanoseconds: Counter,
}

impl Histogram {
    pub(super) fn observe(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        let bucket = BUCKET_BOUNDS_NANOSECONDS.partition_point(|bound| *bound < nanoseconds);
        if let Some(counter) = self.buckets.get(bucket) {
            counter.add(1);
        }
        self.sum_nanoseconds.add(nanoseconds);
    }
}

/// What several [`Histogram`]s hold together at one moment.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    /// How many fell in each bucket, not cumulative.
    pub(super) buckets: [u64; BUCKET_BOUNDS_NANOSECONDS.len() + 1],
    pub(super) sum_nanoseconds: u64,
}

impl Distribution {
    pub(super) fn merge(&mut self, histogram: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *mine += theirs.get();
        }
        self.sum_nanoseconds = self.sum_nanoseconds.wrapping_add(histogram.sum_nanoseconds.get());
    }

    /// The duration in nanoseconds that this share of all stays below, as Prometheus' `histogram_quantile` estimates
    /// it: evenly spread within a bucket, and no more than the last bound. `None` if nothing was counted.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let count: u64 = self.buckets.iter().sum();
        let rank = share * count as f64;
        let mut below = 0;
        for (place, held) in self.buckets.iter().copied().enumerate().filter(|(_, held)| *held > 0) {
            let upto = below + held;
            if upto as f64 >= rank {
                let lower = place.checked_sub(1).map_or(0, |previous| BUCKET_BOUNDS_NANOSECONDS[previous]);
                let upper = BUCKET_BOUNDS_NANOSECONDS.get(place).copied().unwrap_or(lower);
                let within = (rank - below as f64) / held as f64;
                return Some(lower as f64 + (upper - lower) as f64 * within);
            }
            below = upto;
        }
        None
    }
}

/// A key of a [`Tally`].
pub(super) trait TallyKey: Copy + Eq {
    /// Stands for every key that came after the tally was full, at [`limits::METRICS_LABEL_SETS`] keys.
    const OTHER: Self;
}

/// Counts by label sets that are not known before they are seen, bounded so that they can never grow without limit.
///
/// Only for what happens at most once per connection or per fault: the lock is taken by the one worker that writes,
/// and by a scrape.
#[derive(Debug)]
pub(super) struct Tally<K>(Mutex<Vec<(K, u64)>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<K: TallyKey> Tally<K> {
    pub(super) fn add(&self, key: K) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.iter().any(|(held, _)| *held == key);
        let key = if known || counts.len() < limits::METRICS_LABEL_SETS { key } else { K::OTHER };
        match counts.iter_mut().find(|(held, _)| *held == key) {
            Some((_, count)) => *count = count.wrapping_add(1),
            None => counts.push((key, 1)),
        }
    }

    /// Adds what is counted here to `totals`. The sum is not bounded anew: a key must not move to
    /// [`TallyKey::OTHER`] because another worker has met other keys, for its counter would go backwards.
    pub(super) fn merge_into(&self, totals: &mut Vec<(K, u64)>) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, amount) in counts.iter() {
            match totals.iter_mut().find(|(held, _)| held == key) {
                Some((_, total)) => *total = total.wrapping_add(*amount),
                None => totals.push((*key, *amount)),
            }
        }
    }
}

/// The value of a label that stands for all that did not fit in a [`Tally`].
pub(super) const OTHER: &str = "other";

impl TallyKey for &'static str {
    const OTHER: Self = OTHER;
}

impl TallyKey for (Direction, &'static str) {
    const OTHER: Self = (Direction::Received, OTHER);
}

/// A duration in nanoseconds; one of more than 584 years counts as that.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(durations: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        durations.iter().for_each(|nanoseconds| histogram.observe(Duration::from_nanos(*nanoseconds)));
        let mut seen = Distribution::default();
        seen.merge(&histogram);
        seen
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_rank() {
        let seen = distribution(&[60_000, 60_000, 60_000, 2_000_000]);
        assert_eq!(seen.quantile(0.5).map(f64::trunc), Some(83_333.0));
        assert_eq!(seen.quantile(0.75), Some(100_000.0));
        assert_eq!(seen.quantile(0.99), Some(2_440_000.0));
        assert_eq!(seen.quantile(1.0), Some(2_500_000.0));
    }

    #[test]
    fn a_quantile_beyond_the_last_bound_is_that_bound_and_of_nothing_there_is_none() {
        assert_eq!(distribution(&[u64::MAX]).quantile(0.5), Some(300_000_000_000.0));
        assert_eq!(distribution(&[]).quantile(0.5), None);
    }
}
