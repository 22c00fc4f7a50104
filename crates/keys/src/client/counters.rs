//! Counters of one keyserver, which a scrape reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use penstock_tls::remote_key::RemoteKeyError;

/// Results of operations, in the order of [`ServerStatus::results`].
pub const OPERATION_RESULTS: [&str; 5] = ["ok", "unavailable", "timed_out", "refused", "wrong_signature"];

/// The state of a keyserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its address as configured.
    pub address: String,
    /// Whether there is a connection on which it has answered.
    pub up: bool,
    /// Whether it gets no operations, because it has failed too often.
    pub circuit_open: bool,
    /// Operations that wait for its answer.
    pub under_way: u64,
    /// Operations by result; see [`OPERATION_RESULTS`].
    pub results: [u64; OPERATION_RESULTS.len()],
    /// Time of successful operations, added up.
    pub time: Duration,
    /// Connections that were made.
    pub connections: u64,
}

#[derive(Debug, Default)]
pub(super) struct ServerCounters {
    pub(super) up: AtomicBool,
    pub(super) circuit_open: AtomicBool,
    pub(super) under_way: AtomicU64,
    pub(super) connections: AtomicU64,
    results: [AtomicU64; OPERATION_RESULTS.len()],
    nanoseconds: AtomicU64,
}

impl ServerCounters {
    pub(super) fn ended(&self, result: Result<Duration, RemoteKeyError>) {
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

    pub(super) fn status(&self, address: &str) -> ServerStatus {
        ServerStatus {
            address: address.to_owned(),
            up: self.up.load(Relaxed),
            circuit_open: self.circuit_open.load(Relaxed),
            under_way: self.under_way.load(Relaxed),
            results: std::array::from_fn(|index| self.results[index].load(Relaxed)),
            time: Duration::from_nanos(self.nanoseconds.load(Relaxed)),
            connections: self.connections.load(Relaxed),
        }
    }
}
