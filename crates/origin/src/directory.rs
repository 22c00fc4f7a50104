//! Directories of files, and a cache of open files that spares most requests every system call.

mod open_files;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_sys::root::{OpenError, Root, RootError};

pub use open_files::{OpenFiles, OpenFilesCounters, OpenFilesLimits};

/// A directory whose files are served; a clone is the same directory.
#[derive(Clone, Debug)]
pub struct Directory {
    root: Arc<Root>,
    // Tells directories apart in a cache, also one opened again at the same path.
    id: u64,
}

impl Directory {
    /// Opens the directory at `path`. Blocks: for the start of the program and the reload.
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn open(path: &Path) -> Result<Self, RootError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let root = Arc::new(Root::open(path)?);
        Ok(Self { root, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// Opens the directory at `path`, or returns the one of `known` that is the same, so that cached files stay valid.
    /// Blocks like [`Self::open`].
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn open_again<'d>(path: &Path, known: impl Iterator<Item = &'d Self>) -> Result<Self, RootError> {
        let fresh = Self::open(path)?;
        let same = |other: &&Self| fresh.root.is_same(&other.root).unwrap_or(false);
        let mut known = known;
        Ok(known.find(same).cloned().unwrap_or(fresh))
    }
}

/// Why a path has no file to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// No file has this name: 404.
    NotFound,
    /// The path or a symbolic link leads out of the directory: 404.
    OutsideRoot,
    /// It is a FIFO, a socket or a device: 404.
    NotRegular,
    /// It is a directory: the edge redirects to the path with a slash, or looks for an index.
    IsDirectory,
    /// The process may not read it: 403.
    Forbidden,
    /// No descriptor is left: 503.
    TooManyOpenFiles,
    /// The queue of the I/O threads is full: 503.
    Busy,
    /// Another error of the system, such as a failed disk: 500.
    Failed(io::ErrorKind),
}

impl LookupError {
    /// Whether the error belongs to the path, so that it holds for the next request as well.
    fn is_about_the_path(self) -> bool {
        match self {
            Self::NotFound | Self::OutsideRoot | Self::NotRegular | Self::IsDirectory | Self::Forbidden => {
                true
            }
            Self::TooManyOpenFiles | Self::Busy | Self::Failed(_) => false,
        }
    }
}

impl From<OpenError> for LookupError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NotFound => Self::NotFound,
            OpenError::OutsideRoot => Self::OutsideRoot,
            OpenError::NotRegular => Self::NotRegular,
            OpenError::IsDirectory => Self::IsDirectory,
            OpenError::Forbidden => Self::Forbidden,
            OpenError::TooManyOpenFiles => Self::TooManyOpenFiles,
            OpenError::WouldBlock => Self::Busy,
            OpenError::Other(error) => Self::Failed(error.kind()),
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file"),
            Self::OutsideRoot => f.write_str("leads out of the directory"),
            Self::NotRegular => f.write_str("not a regular file"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::Forbidden => f.write_str("permission denied"),
            Self::TooManyOpenFiles => f.write_str("too many open files"),
            Self::Busy => f.write_str("too many requests are waiting for the disk"),
            Self::Failed(kind) => kind.fmt(f),
        }
    }
}

impl std::error::Error for LookupError {}
