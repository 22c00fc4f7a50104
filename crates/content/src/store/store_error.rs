//! Why the cache could not be opened.

use std::fmt;
use std::io;

use penstock_cache::{DiskError, OpenError, TierError};

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

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Memory(error) => Self::Memory(error),
            OpenError::Disks(error) => Self::Disk(error),
        }
    }
}

impl StoreError {
    /// The error of the system, if it is one.
    pub fn system_error(&self) -> Option<&io::Error> {
        match self {
            Self::Memory(TierError::Unusable { source, .. })
            | Self::Disk(DiskError::Unusable { source, .. }) => Some(source),
            _ => None,
        }
    }

    /// Whether the tiers belong to a process that is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self, Self::Memory(TierError::Draining(_)))
    }
}

impl std::error::Error for StoreError {}
