//! Limits of a fleet: the store that edges share.

use std::time::Duration;

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

/// How long a purge or a revocation waits until all edges that are present have applied it.
pub const FLEET_CONFIRMATION_MILLISECONDS: u64 = 3000;

/// Ids of revoked tokens that an edge keeps, in some 10 MB of memory.
pub const FLEET_REVOKED_IDS: usize = 100_000;

/// How far ahead the end of a revocation may be: 400 days.
pub const REVOCATION_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// Ids in one order to revoke.
pub const REVOKED_IDS_PER_ORDER: usize = 256;

/// Sessions of TLS with the store that are kept.
pub const FLEET_TLS_SESSIONS: usize = 2;
