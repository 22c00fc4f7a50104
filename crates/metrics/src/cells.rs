//! The cells of a shard: counters, histograms and counter vectors that one worker writes and a scrape reads.

use std::marker::PhantomData;
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

/// Bounds of the buckets of a histogram; the last bucket, without a bound, is not listed.
pub(crate) const BOUNDS: usize = 22;

/// What a histogram counts: how large its buckets are, and in which unit a scrape shows them.
pub(crate) trait Scale {
    /// Upper bounds of the buckets, in whole parts of the unit.
    const BOUNDS: [u64; BOUNDS];
    /// Parts of one unit.
    const PARTS: f64;

    /// The bucket of a number, in parts of the unit.
    fn bucket(parts: u64) -> usize {
        Self::BOUNDS.partition_point(|bound| *bound < parts)
    }
}

/// Durations, in nanoseconds. A signature takes some 10 µs, a handshake 100 µs to 10 s, a response to a slow client minutes.
#[derive(Debug, Default)]
pub(crate) struct Seconds;

impl Scale for Seconds {
    const BOUNDS: [u64; BOUNDS] = [
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
    const PARTS: f64 = 1e9;
}

/// Rates, in bytes per second: from 0.25 Mbit/s to 10 Gbit/s, and close to each other where renditions of video are.
#[derive(Debug, Default)]
pub(crate) struct BytesPerSecond;

impl Scale for BytesPerSecond {
    const BOUNDS: [u64; BOUNDS] = [
        31_250,
        62_500,
        93_750,
        125_000,
        187_500,
        250_000,
        375_000,
        500_000,
        625_000,
        750_000,
        1_000_000,
        1_250_000,
        1_500_000,
        2_000_000,
        2_500_000,
        3_125_000,
        6_250_000,
        12_500_000,
        31_250_000,
        62_500_000,
        125_000_000,
        1_250_000_000,
    ];
    const PARTS: f64 = 1.0;
}

/// Shares of a whole, in millionths.
#[derive(Debug, Default)]
pub(crate) struct Share;

impl Scale for Share {
    const BOUNDS: [u64; BOUNDS] = [
        0, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000,
        100_000, 150_000, 200_000, 300_000, 500_000, 750_000, 1_000_000,
    ];
    const PARTS: f64 = 1e6;
}

/// Multiples of one, in thousandths.
#[derive(Debug, Default)]
pub(crate) struct Multiple;

impl Scale for Multiple {
    const BOUNDS: [u64; BOUNDS] = [
        100, 250, 500, 750, 900, 1_000, 1_100, 1_250, 1_500, 1_750, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000,
        8_000, 10_000, 15_000, 20_000, 50_000, 100_000,
    ];
    const PARTS: f64 = 1e3;
}

/// Numbers counted in buckets. The count is the sum of the buckets, so the two always agree in a scrape.
#[derive(Debug, Default)]
pub(crate) struct Histogram<S = Seconds> {
    buckets: [Counter; BOUNDS + 1],
    sum: Counter,
    scale: PhantomData<S>,
}

impl<S: Scale> Histogram<S> {
    /// Counts a number, in parts of the unit.
    pub(crate) fn observe_parts(&self, parts: u64) {
        if let Some(counter) = self.buckets.get(S::bucket(parts)) {
            counter.add(1);
        }
        self.sum.add(parts);
    }
}

impl Histogram {
    pub(crate) fn observe(&self, duration: Duration) {
        self.observe_parts(nanoseconds(duration));
    }
}

/// The sum of several histograms of one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    bounds: [u64; BOUNDS],
    parts: f64,
    /// Observations per bucket, not cumulative.
    buckets: [u64; BOUNDS + 1],
    /// In parts of the unit.
    sum: u64,
}

impl Distribution {
    /// Observations in the buckets of this scale, and their sum.
    pub(crate) fn counted<S: Scale>(buckets: [u64; BOUNDS + 1], sum: u64) -> Self {
        Self { bounds: S::BOUNDS, parts: S::PARTS, buckets, sum }
    }

    /// What has come since an earlier state of the same histograms.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut grown = self.clone();
        for (mine, theirs) in grown.buckets.iter_mut().zip(&before.buckets) {
            *mine = mine.saturating_sub(*theirs);
        }
        grown.sum = self.sum.wrapping_sub(before.sum);
        grown
    }

    /// Adds another distribution of the same scale.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The sum of these histograms.
    pub(crate) fn of<'h, S: Scale + 'h>(histograms: impl IntoIterator<Item = &'h Histogram<S>>) -> Self {
        let mut total = Self::counted::<S>([0; BOUNDS + 1], 0);
        for histogram in histograms {
            for (mine, theirs) in total.buckets.iter_mut().zip(&histogram.buckets) {
                *mine += theirs.get();
            }
            total.sum = total.sum.wrapping_add(histogram.sum.get());
        }
        total
    }

    /// The number of observations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of the observations, in the unit.
    pub(crate) fn sum(&self) -> f64 {
        self.in_units(self.sum)
    }

    /// The bounds in the unit with the observations of their buckets, not cumulative.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().map(|bound| self.in_units(*bound)).chain([f64::INFINITY]);
        bounds.zip(self.buckets)
    }

    /// The quantile in the unit, estimated like Prometheus' `histogram_quantile`: evenly spread within a bucket, and
    /// at most the last bound. `None` if nothing was counted.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = share * self.count() as f64;
        let mut below = 0;
        for (place, held) in self.buckets.iter().copied().enumerate().filter(|(_, held)| *held > 0) {
            let upto = below + held;
            if upto as f64 >= rank {
                let lower = place.checked_sub(1).map_or(0, |previous| self.bounds[previous]);
                let upper = self.bounds.get(place).copied().unwrap_or(lower);
                let within = (rank - below as f64) / held as f64;
                return Some((lower as f64 + (upper - lower) as f64 * within) / self.parts);
            }
            below = upto;
        }
        None
    }

    fn in_units(&self, parts: u64) -> f64 {
        parts as f64 / self.parts
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
        self.add_many(key, 1);
    }

    pub(crate) fn add_many(&self, key: K, amount: u64) {
        let mut counts = lock(&self.0);
        let known = counts.iter().any(|(held, _)| *held == key);
        let key = if known || counts.len() < limits::LABEL_SETS { key } else { K::OTHER };
        match counts.iter_mut().find(|(held, _)| *held == key) {
            Some((_, count)) => *count = count.wrapping_add(amount),
            None => counts.push((key, amount)),
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
        let histogram = Histogram::<Seconds>::default();
        durations.iter().for_each(|nanoseconds| histogram.observe(Duration::from_nanos(*nanoseconds)));
        Distribution::of([&histogram])
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_rank() {
        let seen = distribution(&[60_000, 60_000, 60_000, 2_000_000]);
        assert_eq!(seen.quantile(0.5).map(|seconds| (seconds * 1e9).trunc()), Some(83_333.0));
        assert_eq!(seen.quantile(0.75), Some(0.0001));
        assert_eq!(seen.quantile(0.99), Some(0.002_44));
        assert_eq!(seen.quantile(1.0), Some(0.002_5));
    }

    #[test]
    fn a_quantile_beyond_the_last_bound_is_that_bound_and_of_nothing_there_is_none() {
        assert_eq!(distribution(&[u64::MAX]).quantile(0.5), Some(300.0));
        assert_eq!(distribution(&[]).quantile(0.5), None);
    }
}
