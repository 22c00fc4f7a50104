//! Counters of a keyserver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use penstock_keys::protocol::{ErrorCode, Opcode};
use penstock_metrics::LogCounters;

/// Results of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationOutcome {
    Ok,
    Failed(ErrorCode),
    /// More operations under way than allowed.
    Busy,
    /// More operations than the rate allows.
    RateLimited,
}

impl OperationOutcome {
    const LABELS: [&str; 10] = [
        "ok",
        "cryptography",
        "key_not_found",
        "version_mismatch",
        "bad_opcode",
        "unexpected_opcode",
        "malformed",
        "internal",
        "busy",
        "rate_limited",
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(code) => code.label(),
            Self::Busy => "busy",
            Self::RateLimited => "rate_limited",
        }
    }

    /// The code for the client; `None` for a success.
    pub(crate) fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Ok => None,
            Self::Failed(code) => Some(code),
            Self::Busy | Self::RateLimited => Some(ErrorCode::Internal),
        }
    }
}

const OPERATIONS: [&str; 7] = ["rsa_pkcs1", "rsa_pss", "ecdsa", "ed25519", "ping", "rsa_decrypt", "other"];

/// Counters of one client.
#[derive(Debug, Default)]
pub(crate) struct ClientCounters {
    operations: [[AtomicU64; OperationOutcome::LABELS.len()]; OPERATIONS.len()],
    nanoseconds: AtomicU64,
}

impl ClientCounters {
    /// Counts an operation. `time` is from its receipt to its answer.
    pub(crate) fn ended(&self, opcode: Opcode, outcome: OperationOutcome, time: Duration) {
        let operation = OPERATIONS.iter().position(|name| *name == opcode.name());
        let result = OperationOutcome::LABELS.iter().position(|label| *label == outcome.label());
        if let (Some(operation), Some(result)) = (operation, result) {
            self.operations[operation][result].fetch_add(1, Relaxed);
        }
        if outcome == OperationOutcome::Ok {
            self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Time of successful operations, added up.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }

    /// Counts that are not zero: operation, result, count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        OPERATIONS
            .into_iter()
            .zip(&self.operations)
            .flat_map(|(operation, results)| {
                let results = OperationOutcome::LABELS.into_iter().zip(results);
                results.map(move |(result, count)| (operation, result, count.load(Relaxed)))
            })
            .filter(|(_, _, count)| *count > 0)
    }
}

/// Counters of the whole keyserver.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) handshake_failures: AtomicU64,
    /// Connections of clients that the configuration does not name.
    pub(crate) strangers: AtomicU64,
    /// Connections closed because there were too many.
    pub(crate) refused: AtomicU64,
    /// Connections closed because their network had too many handshakes.
    pub(crate) network_full: AtomicU64,
    pub(crate) access_log: Arc<LogCounters>,
}
