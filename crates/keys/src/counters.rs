//! Counters of keyservers and hardware modules, which a scrape reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_metrics::SignerStatus;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::circuit::{Circuit, CircuitLimits};
use penstock_tls::remote_key::RemoteKeyError;

/// Counts of operations by the name of the keyserver or token. They outlive it, so that no counter falls when a reload ends
/// it, or brings it back.
#[derive(Debug, Default)]
pub struct SignerCounts {
    keyservers: ByName,
    tokens: ByName,
    fallbacks: Arc<AtomicU64>,
}

type ByName = Mutex<BTreeMap<String, Arc<OperationCounts>>>;

/// Names of keyservers, and of tokens, whose counts are kept while nothing uses them.
const UNUSED_NAMES: usize = 256;

impl SignerCounts {
    /// Handshakes that a local key signed because the remote one failed.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Relaxed)
    }

    pub(crate) fn keyserver(&self, name: &str) -> Arc<OperationCounts> {
        Self::of(&self.keyservers, name)
    }

    pub(crate) fn token(&self, name: &str) -> Arc<OperationCounts> {
        Self::of(&self.tokens, name)
    }

    pub(crate) fn fallbacks_of_signer(&self) -> Fallbacks {
        Fallbacks { count: Arc::clone(&self.fallbacks), is_logged: AtomicBool::new(false) }
    }

    fn of(names: &ByName, name: &str) -> Arc<OperationCounts> {
        let mut names = names.lock().unpoisoned();
        if !names.contains_key(name) {
            let unused = |counts: &Arc<OperationCounts>| Arc::strong_count(counts) == 1;
            if names.values().filter(|counts| unused(counts)).count() >= UNUSED_NAMES {
                names.retain(|_, counts| !unused(counts));
            }
        }
        Arc::clone(names.entry(name.to_owned()).or_default())
    }
}

/// Counts signatures of local keys in the place of remote ones, and logs the first after each success of those.
#[derive(Debug)]
pub(crate) struct Fallbacks {
    count: Arc<AtomicU64>,
    is_logged: AtomicBool,
}

impl Fallbacks {
    /// A local key has signed instead of `signer`.
    pub(crate) fn used(&self, signer: &str, error: RemoteKeyError) {
        self.count.fetch_add(1, Relaxed);
        if !self.is_logged.swap(true, Relaxed) {
            tracing::warn!("local keys sign instead of {signer}: {error}");
        }
    }

    /// The remote key has signed.
    pub(crate) fn not_needed(&self) {
        if self.is_logged.load(Relaxed) {
            self.is_logged.store(false, Relaxed);
        }
    }
}

/// Counts of one name.
#[derive(Debug, Default)]
pub(crate) struct OperationCounts {
    connections: AtomicU64,
    results: [AtomicU64; SignerStatus::RESULTS.len()],
    nanoseconds: AtomicU64,
}

/// The state of one keyserver of a group, or of a token, and the counts of its name.
#[derive(Debug)]
pub(crate) struct SignerCounters {
    pub(crate) up: AtomicBool,
    pub(crate) circuit: Circuit,
    pub(crate) under_way: AtomicU64,
    /// In seconds since 1970; 0 if it is not known.
    certificate_end: AtomicU64,
    counts: Arc<OperationCounts>,
}

impl SignerCounters {
    /// `pause` is how long a signer that has failed so often in a row gets no operations.
    pub(crate) fn new(counts: Arc<OperationCounts>, failures: u32, pause: Duration) -> Self {
        Self {
            up: AtomicBool::new(false),
            circuit: Circuit::new(CircuitLimits { failures, successes: 1, pause: Some(pause) }),
            under_way: AtomicU64::new(0),
            certificate_end: AtomicU64::new(0),
            counts,
        }
    }

    /// A connection or session was opened.
    pub(crate) fn opened(&self) {
        self.counts.connections.fetch_add(1, Relaxed);
        self.up.store(true, Relaxed);
    }

    pub(crate) fn ended(&self, result: Result<Duration, RemoteKeyError>) {
        let index = match result {
            Ok(time) => {
                self.counts
                    .nanoseconds
                    .fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
                0
            }
            Err(RemoteKeyError::Unavailable | RemoteKeyError::Overloaded) => 1,
            Err(RemoteKeyError::TimedOut) => 2,
            Err(RemoteKeyError::Refused(_)) => 3,
            Err(RemoteKeyError::WrongSignature) => 4,
        };
        self.counts.results[index].fetch_add(1, Relaxed);
    }

    /// Counts an operation whose handshake has ended before.
    pub(crate) fn abandoned(&self) {
        self.counts.results[5].fetch_add(1, Relaxed);
    }

    pub(crate) fn set_certificate_end(&self, end: Option<SystemTime>) {
        let since = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        self.certificate_end.store(since.map_or(0, |since| since.as_secs()), Relaxed);
    }

    pub(crate) fn status(&self, name: &str) -> SignerStatus {
        let end = Some(self.certificate_end.load(Relaxed)).filter(|end| *end > 0);
        SignerStatus {
            name: name.to_owned(),
            up: self.up.load(Relaxed),
            circuit_open: self.circuit.is_open(),
            under_way: self.under_way.load(Relaxed),
            results: std::array::from_fn(|index| self.counts.results[index].load(Relaxed)),
            time: Duration::from_nanos(self.counts.nanoseconds.load(Relaxed)),
            connections: self.counts.connections.load(Relaxed),
            certificate_end: end.map(|end| UNIX_EPOCH + Duration::from_secs(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nothing_uses_are_kept_up_to_a_bound_and_used_ones_always() {
        let counts = SignerCounts::default();
        let used = counts.keyserver("used");
        used.connections.fetch_add(1, Relaxed);
        counts.keyserver("unused").connections.fetch_add(1, Relaxed);
        assert_eq!(
            counts.keyserver("unused").connections.load(Relaxed),
            1,
            "a reload finds its counts again"
        );
        for number in 0..10 * UNUSED_NAMES {
            drop(counts.keyserver(&number.to_string()));
            let names = counts.keyservers.lock().unwrap().len();
            assert!(names <= UNUSED_NAMES + 2, "{names} names");
        }
        assert_eq!(counts.keyserver("used").connections.load(Relaxed), 1);
        assert_eq!(counts.keyserver("unused").connections.load(Relaxed), 0);
    }
}
