//! What is counted while a run goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::failure::Failure;
use crate::schedule::Punctuality;

/// Latencies in nanoseconds, to three digits.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} latencies to {:?}", self.count(), self.max())
    }
}

/// Nothing is waited for longer; what exceeds it is counted as this.
const LATENCY_NANOSECONDS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

impl Default for Latencies {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and right: a test makes one")]
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, DIGITS).expect("the bounds are right"))
    }
}

impl Latencies {
    /// Notes one.
    pub fn note(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "both have the same bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this share of all does not exceed, in percent; zero if there are none.
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

    /// The histogram below.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// What one address was seen to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerAddress {
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Those of them that resumed a session.
    pub resumed: u64,
    /// Handshakes that offered a session.
    pub offered: u64,
    /// Operations that failed.
    pub errors: u64,
}

/// Everything counted by one thread, or of all together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// TCP connections that were opened.
    pub connections: u64,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Handshakes that offered one.
    pub offered: u64,
    /// Connections on which early data was sent.
    pub early_data_sent: u64,
    /// Connections on which the server took it.
    pub early_data_accepted: u64,
    /// Whole responses, whatever their status.
    pub requests: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Requests sent again on a new connection, because the server had ended the idle one.
    pub retried: u64,
    /// Operations under way.
    pub in_flight: u64,
    /// Operations that came to a response with which nothing was wrong, or to the handshake that was all they wanted.
    pub succeeded: u64,
    /// Failures by kind.
    pub errors: BTreeMap<Failure, u64>,
    /// What was said of the first one of a kind, where there is more to say than its name.
    pub details: BTreeMap<Failure, String>,
    /// Whole responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Handshakes by what was agreed on: `TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 …`.
    pub agreed: BTreeMap<String, u64>,
    /// By address.
    pub addresses: BTreeMap<SocketAddr, PerAddress>,
    /// Until TCP is connected.
    pub tcp: Latencies,
    /// From there until the handshake is over.
    pub tls: Latencies,
    /// From sending the request to the first byte of the response.
    pub first_byte: Latencies,
    /// From when the operation was due to its end.
    pub total: Latencies,
    /// The same since the last look at it.
    pub recent: Latencies,
    /// How punctual an open loop was.
    pub punctuality: Punctuality,
    /// What players went through.
    pub playback: crate::player::Totals,
}

impl Tally {
    /// Counts a failure.
    pub fn fail(&mut self, failure: Failure) {
        *self.errors.entry(failure).or_default() += 1;
    }

    /// Counts a whole response.
    pub fn respond(&mut self, status: u16) {
        self.requests += 1;
        *self.statuses.entry(status).or_default() += 1;
        if let Some(failure) = Failure::of_status(status) {
            self.fail(failure);
        }
    }

    /// Says where a failure was seen, and keeps what is said of the first one of its kind.
    pub fn blame(&mut self, address: SocketAddr, failure: Failure, detail: &dyn fmt::Display) {
        self.at(address).errors += 1;
        self.details.entry(failure).or_insert_with(|| format!("{address}: {detail}"));
    }

    /// Notes how long a whole operation took.
    pub fn finish(&mut self, total: Duration) {
        self.total.note(total);
        self.recent.note(total);
    }

    /// All failures.
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// What was counted under an address.
    pub fn at(&mut self, address: SocketAddr) -> &mut PerAddress {
        self.addresses.entry(address).or_default()
    }

    /// Adds all of another thread's.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.offered += other.offered;
        self.early_data_sent += other.early_data_sent;
        self.early_data_accepted += other.early_data_accepted;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.retried += other.retried;
        self.in_flight += other.in_flight;
        self.succeeded += other.succeeded;
        add_counts(&mut self.errors, &other.errors);
        for (failure, detail) in &other.details {
            self.details.entry(*failure).or_insert_with(|| detail.clone());
        }
        add_counts(&mut self.statuses, &other.statuses);
        add_counts(&mut self.agreed, &other.agreed);
        for (address, theirs) in &other.addresses {
            let ours = self.at(*address);
            ours.handshakes += theirs.handshakes;
            ours.resumed += theirs.resumed;
            ours.offered += theirs.offered;
            ours.errors += theirs.errors;
        }
        self.tcp.add(&other.tcp);
        self.tls.add(&other.tls);
        self.first_byte.add(&other.first_byte);
        self.total.add(&other.total);
        self.recent.add(&other.recent);
        self.punctuality.add(&other.punctuality);
        self.playback.add(&other.playback);
    }
}

fn add_counts<K: Ord + Clone>(ours: &mut BTreeMap<K, u64>, theirs: &BTreeMap<K, u64>) {
    for (key, count) in theirs {
        *ours.entry(key.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_within(found: Duration, wanted: Duration, share: f64) -> bool {
        (found.as_secs_f64() - wanted.as_secs_f64()).abs() <= wanted.as_secs_f64() * share
    }

    #[test]
    fn percentiles_of_an_even_distribution_are_where_they_should_be() {
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
    fn percentiles_of_an_exponential_distribution_are_where_they_should_be() {
        let mut latencies = Latencies::default();
        let mut random = crate::random::Random::new(11);
        for _ in 0..200_000 {
            latencies.note(random.pause(Duration::from_millis(10)));
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
    fn a_rare_slow_answer_shows_in_the_last_percentiles_only() {
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

    #[test]
    fn a_response_of_an_error_is_a_response_and_an_error() {
        let mut tally = Tally::default();
        for status in [200, 206, 304, 404, 500, 503] {
            tally.respond(status);
        }
        assert_eq!(tally.requests, 6);
        assert_eq!(tally.errors[&Failure::StatusClient], 1);
        assert_eq!(tally.errors[&Failure::StatusServer], 2);
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.requests, sum.errors_total(), sum.statuses[&404]), (12, 6, 2));
    }

    #[test]
    fn of_each_kind_of_failure_the_first_is_described() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        one.blame(address, Failure::ConnectRefused, &"the first");
        one.blame(address, Failure::ConnectRefused, &"the second");
        other.blame(address, Failure::ConnectRefused, &"of another thread");
        other.blame(address, Failure::HeadCut, &"there");
        one.add(&other);
        assert_eq!(one.details[&Failure::ConnectRefused], "127.0.0.1:9: the first");
        assert_eq!(one.details[&Failure::HeadCut], "127.0.0.1:9: there");
        assert_eq!(one.addresses[&address].errors, 4);
    }
}
