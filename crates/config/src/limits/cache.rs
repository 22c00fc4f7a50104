//! Limits of the cache.

use super::{GIB, KIB, MIB};

/// Bytes of a slice: what is asked of an origin, kept and dropped as one.
pub const SLICE_BYTES: u32 = 1024 * 1024;

/// The smallest slice that a configuration may ask for.
pub const SLICE_BYTES_MIN: u64 = 64 * KIB;

/// The largest slice: a fill that fails loses no more than this.
pub const SLICE_BYTES_MAX: u64 = 16 * MIB;

/// Where the memory tier is unless another directory is named.
pub const MEMORY_TIER_DIRECTORY: &str = "/dev/shm/penstock";

/// How much memory that tier takes unless more or less is asked for.
pub const MEMORY_TIER_BYTES: u64 = GIB;

/// The least a memory tier can work with, in slices: readers and fills hold some of them.
pub const MEMORY_TIER_SLICES_MIN: u64 = 16;

/// The most memory that a configuration may give away.
pub const MEMORY_TIER_BYTES_MAX: u64 = 4096 * GIB;

/// Objects that are known at the same time; the oldest is forgotten first.
pub const OBJECTS: usize = 1_000_000;

/// How long an answer is fresh whose origin does not say.
pub const DEFAULT_TTL_SECONDS: u64 = 60;

/// How long a 404 is fresh whose origin does not say: the next segment of a live stream is one until it exists.
pub const MISSING_TTL_SECONDS: u64 = 1;

/// The longest freshness that a configuration may give: a year, as long as HTTP caches go.
pub const TTL_SECONDS_MAX: u64 = 365 * 24 * 3600;

const _: () = assert!(SLICE_BYTES as u64 >= SLICE_BYTES_MIN && SLICE_BYTES as u64 <= SLICE_BYTES_MAX);
const _: () = assert!(MEMORY_TIER_BYTES >= MEMORY_TIER_SLICES_MIN * SLICE_BYTES_MAX);
