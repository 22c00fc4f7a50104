//! Limits of a fleet: the store that edges share.

use super::bytes::KIB;

/// How long a handshake waits for the store, in milliseconds.
pub const FLEET_DEADLINE_MILLISECONDS: u64 = 20;

/// The least such deadline: timers of a worker are a millisecond coarse.
pub const FLEET_DEADLINE_MILLISECONDS_MIN: u64 = 5;

/// The longest such deadline.
pub const FLEET_DEADLINE_MILLISECONDS_MAX: u64 = 1000;

/// How long the fleet's own thread waits for an answer of the store.
pub const FLEET_PATIENCE_MILLISECONDS: u64 = 500;

/// The least bytes of the secret.
pub const FLEET_SECRET_BYTES_MIN: usize = 32;

/// The longest name of an edge, in bytes.
pub const FLEET_NAME_BYTES: usize = 64;

/// The port of a store whose URL has none.
pub const FLEET_PORT: u16 = 6379;

/// Handshakes of all workers that wait for the store; the next ones do without it.
pub const FLEET_OPERATIONS: usize = 1024;

/// Operations without an answer in time, one after the other, after which handshakes do without the store.
pub const FLEET_FAILURES: u32 = 5;

/// Probes answered in time, one after the other, after which handshakes ask again.
pub const FLEET_PROBES: u32 = 3;

/// Bytes that the store may send between two answered probes. The largest sessions of all handshakes at once are half of that.
pub const FLEET_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Line feeds in them. Each element of an answer has at least one, and sealed records have one in 256 bytes.
pub const FLEET_ANSWER_LINES: usize = 256 * 1024;

/// Bytes of a session that goes to the store. A session with a client's certificate has several KiB.
pub const FLEET_SESSION_BYTES: usize = 8 * 1024;

/// Percent of the store's memory from which on no session is stored, so that clients without tickets leave space for purges.
pub const FLEET_SESSIONS_PERCENT: u64 = 90;

/// New sessions that wait to be written, so at most 8 MiB.
pub const FLEET_SESSIONS_QUEUED: usize = 1024;

/// Sessions written at once.
pub const FLEET_SESSIONS_BATCH: usize = 64;

/// Bytes of a file in the state directory.
pub const FLEET_STATE_FILE_BYTES: u64 = 64 * KIB;

/// For how long one edge alone may add ticket keys, in milliseconds.
pub const FLEET_LOCK_MILLISECONDS: u64 = 5000;

/// An edge that says nothing for so long is away.
pub const FLEET_PRESENCE_SECONDS: u64 = 5;

/// An edge that is away for so long is forgotten.
pub const FLEET_FORGOTTEN_SECONDS: u64 = 24 * 3600;

/// Edges that are read.
pub const FLEET_EDGES: usize = 4096;

/// Purges that stay in the store; an edge that missed more purges its whole cache.
pub const FLEET_PURGES: usize = 4096;

/// Purges read at once.
pub const FLEET_PURGES_BATCH: usize = 64;

/// Bytes of a purge that goes to the store; a longer one becomes a purge of everything there.
pub const FLEET_PURGE_BYTES: usize = 16 * 1024;

/// Purges of this machine's operators that are kept to be written again after the store was emptied.
pub const FLEET_OWN_PURGES: usize = 512;

/// How long those are kept. An edge that was away for less misses none.
pub const FLEET_OWN_PURGES_SECONDS: u64 = 600;

/// Between two looks at the stream of purges; each is also the probe of the circuit.
pub const FLEET_POLL_MILLISECONDS: u64 = 100;

/// Between two renewals of ticket keys, strike register and presence.
pub const FLEET_RENEWAL_MILLISECONDS: u64 = 1000;

/// From the first byte of a connection with the store to the end of the login.
pub const FLEET_CONNECT_MILLISECONDS: u64 = 1000;

/// The first pause after a connection failed; it doubles each time.
pub const FLEET_RETRY_MILLISECONDS: u64 = 100;

/// The longest such pause.
pub const FLEET_RETRY_MILLISECONDS_MAX: u64 = 2000;

/// How long a start waits for ticket keys and missed purges, each. Without the store it does not wait.
pub const FLEET_START_MILLISECONDS: u64 = 3000;

/// How long a purge waits until all edges that are present have applied it.
pub const FLEET_CONFIRMATION_MILLISECONDS: u64 = 3000;

/// Sessions of TLS with the store that are kept.
pub const FLEET_TLS_SESSIONS: usize = 2;
