//! Limits of a fleet: the store that edges share.

/// How long a handshake waits for the store, in milliseconds.
pub const FLEET_DEADLINE_MILLISECONDS: u64 = 20;

/// The least such deadline: timers of a worker are a millisecond coarse.
pub const FLEET_DEADLINE_MILLISECONDS_MIN: u64 = 5;

/// The longest such deadline.
pub const FLEET_DEADLINE_MILLISECONDS_MAX: u64 = 1000;

/// The least bytes of the secret.
pub const FLEET_SECRET_BYTES_MIN: usize = 32;

/// The longest name of an edge, in bytes.
pub const FLEET_NAME_BYTES: usize = 64;

/// The port of a store whose URL has none.
pub const FLEET_PORT: u16 = 6379;

/// How long a start waits for ticket keys and missed purges, each. Without the store it does not wait.
pub const FLEET_START_MILLISECONDS: u64 = 3000;

/// How long a purge waits until all edges that are present have applied it.
pub const FLEET_CONFIRMATION_MILLISECONDS: u64 = 3000;

/// Sessions of TLS with the store that are kept.
pub const FLEET_TLS_SESSIONS: usize = 2;
