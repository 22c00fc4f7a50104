//! The cells of a shard: counters, histograms and counter vectors that one worker writes and a scrape reads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::labels::LabelSet;
use crate::limits;
use crate::lock::lock;

/// A number that one thread writes and any thread reads.
///
/// Adding is a plain load and store, not a locked instruction: a single writer cannot lose an update.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds from any thread, for events that the worker itself cannot count.
    pub(crate) fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the histogram buckets, in nanoseconds; the last bucket, without a bound, is not listed.
///
/// All histograms share them: a signature takes some 10 µs, a handshake 100 µs to 10 s, a response to a slow client
/// minutes.
pub(crate) const BUCKET_BOUNDS_NANOSECONDS: [u64; 22] = [
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

/// Durations counted in buckets. The count is the sum of the buckets, so the two always agree in a scrape.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Counter; BUCKET_BOUNDS_NANOSECONDS.len() + 1],
    sum_nanoseconds: Counter,
}

impl Histogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        let bucket = BUCKET_BOUNDS_NANOSECONDS.partition_point(|bound| *bound < nanoseconds);
        if let Some(counter) = self.buckets.get(bucket) {
            counter.add(1);
        }
        self.sum_nanoseconds.add(nanoseconds);
    }
}

/// The sum of several [`Histogram`]s.
#[derive(Debug, Default)]
pub(crate) struct Distribution {
    /// Observations per bucket, not cumulative.
    pub(crate) buckets: [u64; BUCKET_BOUNDS_NANOSECONDS.len() + 1],
    pub(crate) sum_nanoseconds: u64,
}

impl Distribution {
    pub(crate) fn merge(&mut self, histogram: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *mine += theirs.get();
        }
        self.sum_nanoseconds = self.sum_nanoseconds.wrapping_add(histogram.sum_nanoseconds.get());
    }

    /// Adds another distribution.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum_nanoseconds = self.sum_nanoseconds.wrapping_add(other.sum_nanoseconds);
    }

    /// What has come since an earlier state of the same histograms.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut grown = Self::default();
        for (place, bucket) in grown.buckets.iter_mut().enumerate() {
            *bucket = self.buckets[place].saturating_sub(before.buckets[place]);
        }
        grown.sum_nanoseconds = self.sum_nanoseconds.wrapping_sub(before.sum_nanoseconds);
        grown
    }

    /// The quantile in nanoseconds, estimated like Prometheus' `histogram_quantile`: evenly spread within a bucket, and
    /// at most the last bound. `None` if nothing was counted.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
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

/// Counters by label sets that are not known in advance, at most [`limits::LABEL_SETS`] of them; later label sets are
/// counted under [`LabelSet::OTHER`].
///
/// For events that happen at most once per connection, request or fault: the one worker that writes takes a lock, and
/// so does a scrape.
#[derive(Debug)]
pub(crate) struct CounterVec<K>(Mutex<Vec<(K, u64)>>);

impl<K> Default for CounterVec<K> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<K: LabelSet> CounterVec<K> {
    pub(crate) fn add(&self, key: K) {
        let mut counts = lock(&self.0);
        let known = counts.iter().any(|(held, _)| *held == key);
        let key = if known || counts.len() < limits::LABEL_SETS { key } else { K::OTHER };
        match counts.iter_mut().find(|(held, _)| *held == key) {
            Some((_, count)) => *count = count.wrapping_add(1),
            None => counts.push((key, 1)),
        }
    }

    /// Adds these counts to `totals`. The sum has no bound of its own: if a label set moved to [`LabelSet::OTHER`]
    /// because other workers have other label sets, its counter would go backwards.
    pub(crate) fn merge_into(&self, totals: &mut Vec<(K, u64)>) {
        let counts = lock(&self.0);
        for (key, amount) in counts.iter() {
            match totals.iter_mut().find(|(held, _)| held == key) {
                Some((_, total)) => *total = total.wrapping_add(*amount),
                None => totals.push((*key, *amount)),
            }
        }
    }
}

/// A duration in nanoseconds; one of more than 584 years counts as that.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
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
