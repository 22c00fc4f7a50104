//! The tiers of the cache.

use std::path::PathBuf;

use crate::limits;

/// The tiers of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of a slice, a multiple of 4 KiB.
    pub slice: u32,
    /// The memory tier.
    pub memory: MemoryTier,
    /// The disk tier; empty if there is none.
    pub disks: Vec<DiskTier>,
}

/// A directory of the disk tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTier {
    /// A directory on a disk; absolute, made at the start if it is missing.
    pub directory: PathBuf,
    /// Bytes it may take, never less than a few slices.
    pub size: u64,
}

/// The memory tier of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTier {
    /// A directory on tmpfs; absolute, made at the start if it is missing.
    pub directory: PathBuf,
    /// Bytes it may take, never less than a few slices.
    pub size: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            slice: limits::SLICE_BYTES,
            memory: MemoryTier {
                directory: PathBuf::from(limits::MEMORY_TIER_DIRECTORY),
                size: limits::MEMORY_TIER_BYTES,
            },
            disks: Vec::new(),
        }
    }
}
