//! What happens to the tiers, for the log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An event for the log.
#[derive(Debug)]
pub enum TierEvent<'e> {
    /// All tables of a disk were read.
    Scanned {
        /// The disk's directory.
        directory: &'e Path,
        /// Segments of earlier processes.
        segments: usize,
        /// Those of them that were unusable, and were deleted.
        lost: usize,
        /// Slices in the others.
        slices: u64,
        /// Time that it took.
        took: Duration,
    },
    /// The disk is out of service until the next start.
    OutOfService {
        /// The disk's directory.
        directory: &'e Path,
        /// Why.
        reason: &'e str,
    },
    /// Other files have taken space that the memory tier had.
    MemoryShort {
        /// The memory tier's directory.
        directory: &'e Path,
        /// Bytes that the tier may use now.
        available: u64,
        /// Bytes that it could use before.
        before: u64,
    },
    /// The memory tier has that space again.
    MemoryEnough {
        /// The memory tier's directory.
        directory: &'e Path,
        /// Bytes that the tier may use now.
        available: u64,
    },
}

/// Receives events, on the thread on which they happen.
pub type Report = Arc<dyn Fn(TierEvent<'_>) + Send + Sync>;
