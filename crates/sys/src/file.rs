//! Regular files as a source of bytes: opened once, described by extents, mapped or sent, never carried.

pub(crate) mod resident;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

pub use crate::map::{Truncated, Window};

use crate::map::Mapping;

/// Distinguishes versions of a file.
///
/// Two writes of the same length within one tick of the file system's clock (milliseconds) look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device that holds the file.
    pub device: u64,
    /// Number of the inode on that device.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content, in seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Last change of content, owner, mode or links, in seconds since 1970 and nanoseconds.
    pub changed: (i64, u32),
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: instant(stat.st_mtime, stat.st_mtime_nsec),
            changed: instant(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A regular file opened for reading, as it was at that moment.
///
/// It may be shared between threads. Its mapping is made on first use and lives as long as the file.
pub struct OpenFile {
    fd: OwnedFd,
    identity: Identity,
    mapping: OnceLock<Mapping>,
    residency: AtomicU8,
    resident_until: AtomicU64,
    immutable: bool,
    has_other_writers: bool,
}

impl OpenFile {
    /// Takes over a descriptor that was opened for reading.
    ///
    /// # Errors
    /// `InvalidInput` if it is not a regular file, or what `fstat` said.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self {
            fd,
            identity: Identity::of(&stat),
            mapping: OnceLock::new(),
            residency: AtomicU8::new(resident::UNTRIED),
            resident_until: AtomicU64::new(0),
            immutable: false,
            has_other_writers: false,
        })
    }

    /// Marks the file as one that other programs may write, so that [`Self::is_intact`] looks at it.
    #[must_use]
    pub fn with_other_writers(self) -> Self {
        Self { has_other_writers: true, ..self }
    }

    /// Marks the file as immutable: the caller promises that its bytes never change while it is open. Never true of
    /// files that other programs write.
    #[must_use]
    pub fn promise_immutable(self) -> Self {
        Self { immutable: true, ..self }
    }

    /// Whether the bytes were promised never to change.
    pub fn is_immutable(&self) -> bool {
        self.immutable
    }

    /// Length in bytes when the file was opened; later growth is not seen.
    pub fn len(&self) -> u64 {
        self.identity.size
    }

    /// Whether the file had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.identity.size == 0
    }

    /// Distinguishes this version of the file from others.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Number of the inode.
    pub fn inode(&self) -> u64 {
        self.identity.inode
    }

    /// Last change of the content.
    pub fn modified(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.identity.modified;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let start = if seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(whole)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(whole)
        };
        start
            .and_then(|at| at.checked_add(Duration::from_nanos(nanoseconds.into())))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The descriptor, for `sendfile`.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// `len` bytes from `offset` in the mapping of the whole file, which is made at the first call.
    ///
    /// # Errors
    /// `InvalidInput` if the window does not lie inside the file as it was opened, `UnexpectedEof` if the
    /// file is known to be truncated, or what `mmap` said.
    pub fn window(&self, offset: u64, len: u64) -> io::Result<Window<'_>> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "window outside the file");
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(outside());
        }
        let mapping = self.mapping()?;
        if mapping.is_truncated() {
            return Err(Truncated.into());
        }
        let offset = usize::try_from(offset).map_err(|_| outside())?;
        let len = usize::try_from(len).map_err(|_| outside())?;
        Ok(Window::new(mapping, offset, len))
    }

    /// Whether a read through the mapping met the end of a file that had become shorter.
    ///
    /// Part of the mapping then holds zeros, so nothing may be sent from this file any more.
    pub fn is_truncated(&self) -> bool {
        self.mapping.get().is_some_and(Mapping::is_truncated)
    }

    /// Whether the file has kept its bytes since it was opened, as far as `fstat` shows: it has not become shorter, and
    /// has not been rewritten at the same length. A file that grows is intact, and so is one that no other program
    /// writes, which costs no system call.
    pub fn is_intact(&self) -> bool {
        if !self.has_other_writers {
            return true;
        }
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| {
            let now = Identity::of(&stat);
            now.size > self.identity.size
                || (now.size == self.identity.size && now.modified == self.identity.modified)
        })
    }

    /// A number kept with the file for a cache of [`OpenFile::is_resident`]; 0 at first. The caller chooses its unit.
    pub fn resident_until(&self) -> u64 {
        self.resident_until.load(Ordering::Relaxed)
    }

    /// Sets the number that [`OpenFile::resident_until`] returns.
    pub fn set_resident_until(&self, value: u64) {
        self.resident_until.store(value, Ordering::Relaxed);
    }

    fn mapping(&self) -> io::Result<&Mapping> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let len = usize::try_from(self.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "larger than the address space"))?;
        let fresh = Mapping::of_file(self.fd.as_fd(), len)?;
        // When two threads get here at once, the second mapping is dropped unused.
        Ok(self.mapping.get_or_init(|| fresh))
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("fd", &self.fd)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// `len` bytes from `offset` of a file: how a body is described.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The file that holds the bytes.
    pub file: Arc<OpenFile>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// An extent inside `file` as it was opened, or `None` if it would reach past the end.
    pub fn new(file: Arc<OpenFile>, offset: u64, len: u64) -> Option<Self> {
        (offset.checked_add(len)? <= file.len()).then_some(Self { file, offset, len })
    }

    /// The whole of `file`.
    pub fn whole(file: Arc<OpenFile>) -> Self {
        let len = file.len();
        Self { file, offset: 0, len }
    }
}

fn instant(seconds: impl TryInto<i64>, nanoseconds: impl TryInto<u32>) -> (i64, u32) {
    (seconds.try_into().unwrap_or(0), nanoseconds.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests;
