//! Limits of what is done for players.

/// A player that has this much in its buffer needs nothing that is fetched ahead for it.
pub const FULL_BUFFER_SECONDS: u64 = 30;

/// Of the connections to each server of an origin, one in this number may fetch what no client waits for yet.
pub const PREFETCH_CONNECTIONS_SHARE: usize = 4;

/// Of the slices of the memory tier, one in this number may be the beginnings of segments that are being fetched ahead.
pub const PREFETCH_TIER_SHARE: u64 = 8;

/// How long players wait before they ask for the steering manifest again.
pub const STEERING_TTL_SECONDS: u64 = 60;

/// The longest such time that a configuration may have.
pub const STEERING_TTL_SECONDS_MAX: u64 = 86_400;

/// Pathways of a steering manifest.
pub const STEERING_PATHWAYS_MAX: usize = 64;

/// Bytes of the ID of a pathway.
pub const STEERING_ID_BYTES: usize = 64;

/// Of a node's time, in thousandths: one whose workers work more than this is hot, and viewers are sent to others.
pub const STEERING_BUSY_THOUSANDTHS: u64 = 900;

/// Bytes that a connection has to have sent before its throughput is told to a player: those of a handshake measure too little.
pub const CMSD_BYTES_MIN: u64 = 64 * 1024;
