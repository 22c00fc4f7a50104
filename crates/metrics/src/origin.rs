//! Counters of one server of an origin, which all workers share: a request to an origin costs more than a locked addition.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cells::{BOUNDS, CounterVec, Distribution, Scale, Seconds, nanoseconds};
use crate::readings::OriginRequestsReading;

/// The outcome of a request whose response has a head other than 502, 503 or 504.
pub const ANSWERED: &str = "answered";

/// Requests to one server of an origin, and how long they took.
#[derive(Debug, Default)]
pub struct OriginCounters {
    connect: SharedHistogram,
    first_byte: SharedHistogram,
    whole: SharedHistogram,
    outcomes: CounterVec<&'static str>,
    incomplete: CounterVec<&'static str>,
}

/// Durations that several threads count.
#[derive(Debug, Default)]
struct SharedHistogram {
    buckets: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

impl SharedHistogram {
    fn observe(&self, duration: Duration) {
        let parts = nanoseconds(duration);
        if let Some(bucket) = self.buckets.get(Seconds::bucket(parts)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(parts, Relaxed);
    }

    fn distribution(&self) -> Distribution {
        let buckets = std::array::from_fn(|place| self.buckets[place].load(Relaxed));
        Distribution::counted::<Seconds>(buckets, self.sum.load(Relaxed))
    }
}

impl OriginCounters {
    /// Counts a connection that was opened, after this time.
    pub fn connected(&self, after: Duration) {
        self.connect.observe(after);
    }

    /// Counts the head of a response, this long after its request.
    pub fn answered(&self, after: Duration) {
        self.first_byte.observe(after);
    }

    /// Counts the end of a response, this long after its request.
    pub fn ended(&self, after: Duration) {
        self.whole.observe(after);
    }

    /// Counts how a request ended: a short name.
    pub fn outcome(&self, outcome: &'static str) {
        self.outcomes.add(outcome);
    }

    /// Counts a response whose body failed behind its head: a short name.
    pub fn incomplete(&self, why: &'static str) {
        self.incomplete.add(why);
    }

    /// Requests that were answered, the others, and the time from request to head of all answered ones together.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, Duration) {
        let mut outcomes = Vec::new();
        self.outcomes.merge_into(&mut outcomes);
        let (answered, failed): (Vec<_>, Vec<_>) =
            outcomes.into_iter().partition(|(outcome, _)| *outcome == ANSWERED);
        let sum = |counts: Vec<(&str, u64)>| counts.iter().map(|(_, count)| count).sum();
        let time = Duration::from_secs_f64(self.first_byte.distribution().sum().max(0.0));
        (sum(answered), sum(failed), time)
    }

    /// The counts, for a scrape.
    #[must_use]
    pub fn reading(&self, site: &str, target: &str) -> OriginRequestsReading {
        let mut outcomes = Vec::new();
        self.outcomes.merge_into(&mut outcomes);
        let mut incomplete = Vec::new();
        self.incomplete.merge_into(&mut incomplete);
        OriginRequestsReading {
            site: site.to_owned(),
            target: target.to_owned(),
            outcomes,
            incomplete,
            connect: self.connect.distribution(),
            first_byte: self.first_byte.distribution(),
            whole: self.whole.distribution(),
        }
    }
}
