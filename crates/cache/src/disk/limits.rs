//! Limits, errors and counters of the disk tier.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::memory::remedy;

/// Disks that a place can name.
pub(super) const DISKS_MAX: usize = 16;

/// The limits of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes of all its segments together.
    pub bytes: u64,
    /// Bytes of a segment, for at least one slice with its metadata, better four.
    pub segment_bytes: u64,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Reader threads.
    pub readers: usize,
    /// Reads that may be queued.
    pub queued_reads: usize,
    /// Bytes of slices that may wait to be written, for all disks together.
    pub bytes_in_flight: u64,
    /// Segments whose files are open.
    pub open_segments: usize,
    /// Bytes that the scrub checks in each second.
    pub scrub_bytes_per_second: u64,
    /// Consecutive failed reads that take the disk out of service.
    pub read_errors: u32,
}

/// Why a disk cannot be used.
#[derive(Debug)]
pub enum DiskError {
    /// The directory or a file in it could not be made or opened.
    Unusable {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process uses the directory, or this one uses it twice.
    InUse(PathBuf),
    /// More directories than a place can name.
    TooMany,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { directory, source } => {
                write!(f, "the disk tier cannot use {}: {source}{}", directory.display(), remedy(source))
            }
            Self::InUse(directory) => {
                write!(f, "another process uses the disk tier in {}; give each its own", directory.display())
            }
            Self::TooMany => write!(f, "there can be at most {DISKS_MAX} directories of the disk tier"),
        }
    }
}

impl std::error::Error for DiskError {}
