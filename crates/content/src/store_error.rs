//! Why the cache could not be opened.

use std::fmt;

use penstock_cache::{DiskError, TierError};

/// Why the cache could not be opened.
#[derive(Debug)]
pub enum StoreError {
    /// The memory tier.
    Memory(TierError),
    /// The disk tier.
    Disk(DiskError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}
