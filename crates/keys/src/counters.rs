//! Counters of one keyserver or hardware module, which a scrape reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_tls::circuit::{Circuit, CircuitLimits};
use penstock_tls::remote_key::RemoteKeyError;

/// Results of operations, in the order of [`SignerStatus::results`].
pub const OPERATION_RESULTS: [&str; 6] =
    ["ok", "unavailable", "timed_out", "refused", "wrong_signature", "abandoned"];

/// The state of a keyserver or hardware module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerStatus {
    /// Its name: the address of a keyserver, the token of a module.
    pub name: String,
    /// Whether it can sign: there is a connection on which the keyserver has answered, or a session with the token.
    pub up: bool,
    /// Whether it gets no operations, because it has failed too often.
    pub circuit_open: bool,
    /// Operations that wait for its answer.
    pub under_way: u64,
    /// Operations by result; see [`OPERATION_RESULTS`].
    pub results: [u64; OPERATION_RESULTS.len()],
    /// Time of successful operations, added up.
    pub time: Duration,
    /// Connections or sessions that were opened.
    pub connections: u64,
    /// The end of the keyserver's certificate; `None` before the first connection, and for tokens.
    pub certificate_end: Option<SystemTime>,
}

/// Counts signatures of local keys in the place of remote ones, and logs the first after each success of those.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks {
    count: AtomicU64,
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

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct SignerCounters {
    pub(crate) up: AtomicBool,
    pub(crate) circuit: Circuit,
    pub(crate) under_way: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// In seconds since 1970; 0 if it is not known.
    certificate_end: AtomicU64,
    results: [AtomicU64; OPERATION_RESULTS.len()],
    nanoseconds: AtomicU64,
}

impl SignerCounters {
    /// `pause` is how long a signer that has failed so often in a row gets no operations.
    pub(crate) fn new(failures: u32, pause: Duration) -> Self {
        Self {
            up: AtomicBool::new(false),
            circuit: Circuit::new(CircuitLimits { failures, successes: 1, pause: Some(pause) }),
            under_way: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            certificate_end: AtomicU64::new(0),
            results: std::array::from_fn(|_| AtomicU64::new(0)),
            nanoseconds: AtomicU64::new(0),
        }
    }

    pub(crate) fn ended(&self, result: Result<Duration, RemoteKeyError>) {
        let index = match result {
            Ok(time) => {
                self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
                0
            }
            Err(RemoteKeyError::Unavailable | RemoteKeyError::Overloaded) => 1,
            Err(RemoteKeyError::TimedOut) => 2,
            Err(RemoteKeyError::Refused(_)) => 3,
            Err(RemoteKeyError::WrongSignature) => 4,
        };
        self.results[index].fetch_add(1, Relaxed);
    }

    /// Counts an operation whose handshake has ended before.
    pub(crate) fn abandoned(&self) {
        self.results[5].fetch_add(1, Relaxed);
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
            results: std::array::from_fn(|index| self.results[index].load(Relaxed)),
            time: Duration::from_nanos(self.nanoseconds.load(Relaxed)),
            connections: self.connections.load(Relaxed),
            certificate_end: end.map(|end| UNIX_EPOCH + Duration::from_secs(end)),
        }
    }
}
