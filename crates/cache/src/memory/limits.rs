//! Limits, errors and counters of the memory tier.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Space behind the bytes of each slot for the metadata of its object. Memory is taken only for what is written.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Unit in which the system gives and takes memory.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The size of a memory tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Bytes of all slices together, counted in whole pages.
    pub bytes: u64,
    /// Bytes of one slice, a multiple of the page size.
    pub slice_bytes: u32,
    /// Bytes that the scrub checks in each second; 0 turns it off.
    pub scrub_bytes_per_second: u64,
}

/// Whole slices that a tier needs at least: readers and fills hold some.
pub(super) const SLICES_MIN: u64 = 4;

/// Why a memory tier cannot be used.
#[derive(Debug)]
pub enum TierError {
    /// The directory or a file in it could not be made or opened.
    Unusable {
        /// The directory or file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process uses the directory.
    InUse(PathBuf),
    /// A process that drains uses the directory, until it ends.
    Draining(PathBuf),
    /// The file system cannot give back parts of a file.
    NoHoles(PathBuf),
    /// Another user of the machine could read or change what lies there.
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The file system has no space for the least that a tier needs.
    TooSmall {
        /// The directory.
        path: PathBuf,
        /// Bytes that it has.
        available: u64,
        /// Bytes that a tier needs at least.
        needed: u64,
    },
}

/// A warning about a tier that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierWarning {
    /// The file system is smaller than the tier, which is used up to `available` bytes.
    Shrunk {
        /// The directory.
        path: PathBuf,
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that the tier uses at most, as of now.
        available: u64,
    },
}

impl fmt::Display for TierWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shrunk { path, asked, available } => write!(
                f,
                "the memory tier in {} uses {} of {} MiB: its file system has no more space; mount it with a \
                 larger `size=` or set a smaller `size`",
                path.display(),
                available >> 20,
                asked >> 20
            ),
        }
    }
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { path, source } => {
                write!(f, "the memory tier cannot use {}: {source}{}", path.display(), remedy(source))
            }
            Self::InUse(path) => {
                write!(f, "another process uses the memory tier in {}; give each its own", path.display())
            }
            Self::Draining(path) => {
                write!(f, "a process that drains still uses the memory tier in {}", path.display())
            }
            Self::NoHoles(path) => {
                write!(f, "the file system of {} cannot punch holes; use tmpfs", path.display())
            }
            Self::Unsafe { path, reason } => {
                write!(f, "the memory tier does not use {}: {reason}", path.display())
            }
            Self::TooSmall { path, available, needed } => write!(
                f,
                "the file system of {} has space for {} KiB of the memory tier, which needs {} KiB; mount it with a \
                 larger `size=`, or choose another directory or a smaller `slice`",
                path.display(),
                available >> 10,
                needed >> 10
            ),
        }
    }
}

impl std::error::Error for TierError {}

/// What an operator does about an error of the system in the directory of a tier.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; give the directory to the user of the server with `chown -R`, and let it enter those above"
        }
        io::ErrorKind::StorageFull => "; free space there, or choose another directory",
        io::ErrorKind::ReadOnlyFilesystem => "; mount it writable, or choose another directory",
        _ => "",
    }
}

/// Bytes of a slice of an object of this length.
pub(crate) fn slice_length(object_length: u64, slice: u32, slice_bytes: u32) -> u32 {
    let before = u64::from(slice) * u64::from(slice_bytes);
    let left = object_length.saturating_sub(before).min(u64::from(slice_bytes));
    u32::try_from(left).unwrap_or(slice_bytes)
}
