//! A directory that paths cannot leave, and opening regular files below it without waiting.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::file::{Identity, OpenFile};

/// How often a path is tried again when a rename elsewhere made the kernel unsure of it.
const ATTEMPTS: u32 = 8;

/// Why a directory cannot be served.
#[derive(Debug)]
pub enum RootError {
    /// There is nothing of this name.
    NotFound,
    /// It is something else.
    NotADirectory,
    /// The user of this process may not search it.
    Forbidden,
    /// The kernel does not have `openat2` (before Linux 5.6), or a system call filter hides it.
    NoOpenat2,
    /// The error of the system.
    Other(io::Error),
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such directory"),
            Self::NotADirectory => f.write_str("not a directory"),
            Self::Forbidden => f.write_str("no permission to search this directory"),
            Self::NoOpenat2 => f.write_str(
                "the system call openat2 is missing, without which paths could leave the directory: \
                 Linux 5.6 or later is needed, a container's seccomp filter has to allow it, and a systemd unit \
                 must not have RestrictSUIDSGID=yes",
            ),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RootError {}

/// Why a path did not give a file.
#[derive(Debug)]
pub enum OpenError {
    /// There is nothing of this name.
    NotFound,
    /// The user of this process may not read it, or may not search one of its directories.
    Forbidden,
    /// It is a directory.
    IsDirectory,
    /// It is a FIFO, a socket or a device; it was not opened.
    NotRegular,
    /// The answer needs the disk, and the caller did not want to wait.
    WouldBlock,
    /// The path or a symbolic link on the way leads out of the directory.
    OutsideRoot,
    /// The process or the system has no descriptor left.
    TooManyOpenFiles,
    /// The error of the system.
    Other(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file"),
            Self::Forbidden => f.write_str("permission denied"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::NotRegular => f.write_str("not a regular file"),
            Self::WouldBlock => f.write_str("would have to wait for the disk"),
            Self::OutsideRoot => f.write_str("leads out of the directory"),
            Self::TooManyOpenFiles => f.write_str("too many open files"),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// A directory below which files are opened.
///
/// It stays the same directory when it is renamed or replaced.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// Takes hold of a directory and makes sure that the kernel can keep paths inside it.
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => RootError::NotFound,
            Errno::NOTDIR => RootError::NotADirectory,
            Errno::ACCESS | Errno::PERM => RootError::Forbidden,
            other => RootError::Other(other.into()),
        })?;
        let root = Self(fd);
        match root.openat2(".", flags, ResolveFlags::empty()) {
            Ok(_) => Ok(root),
            // Filters of containers answer EPERM to calls that they do not know.
            Err(Errno::NOSYS | Errno::PERM) => Err(RootError::NoOpenat2),
            Err(Errno::ACCESS) => Err(RootError::Forbidden),
            Err(other) => Err(RootError::Other(other.into())),
        }
    }

    /// Opens the regular file at `path`, which is relative to this directory; symbolic links may lead
    /// anywhere inside. Anything but a regular file is looked at, never opened: opening a FIFO or a device can
    /// wait forever or do something.
    ///
    /// With `nonblocking` the kernel answers from its memory of names (`RESOLVE_CACHED`, Linux 5.12) and gives
    /// [`OpenError::WouldBlock`] where it would have to read the disk; some file systems (overlayfs, NFS) always
    /// do. It takes four or five system calls.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_regular(&self, path: &str, nonblocking: bool) -> Result<OpenFile, OpenError> {
        self.identify(path, nonblocking)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = self.resolve(path, flags, nonblocking)?;
        // Another file may be there since the check. `from_fd` looks at what was really opened.
        OpenFile::from_fd(fd).map(OpenFile::with_other_writers).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => OpenError::NotRegular,
            _ => OpenError::Other(error),
        })
    }

    /// Whether both are the same directory, under whatever path they were opened.
    ///
    /// # Errors
    /// The error of `fstat`.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (ours, theirs) = (rustix::fs::fstat(&self.0)?, rustix::fs::fstat(&other.0)?);
        Ok((ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
    }

    /// Looks at the regular file at `path` without opening it; otherwise as [`Root::open_regular`].
    ///
    /// # Errors
    /// See [`OpenError`]. Permission to read the file itself is not checked.
    pub fn identify(&self, path: &str, nonblocking: bool) -> Result<Identity, OpenError> {
        let fd = self.resolve(path, OFlags::PATH | OFlags::CLOEXEC, nonblocking)?;
        let stat = rustix::fs::fstat(&fd).map_err(to_open_error)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Identity::of(&stat)),
            FileType::Directory => Err(OpenError::IsDirectory),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(OpenError::NotRegular),
        }
    }

    fn resolve(&self, path: &str, flags: OFlags, nonblocking: bool) -> Result<OwnedFd, OpenError> {
        if path.contains('\0') {
            return Err(OpenError::NotFound);
        }
        let path = if path.is_empty() { "." } else { path };
        if nonblocking {
            return self.openat2(path, flags, ResolveFlags::CACHED).map_err(|errno| match errno {
                // EINVAL: this kernel has no RESOLVE_CACHED.
                Errno::AGAIN | Errno::INVAL | Errno::INTR => OpenError::WouldBlock,
                other => to_open_error(other),
            });
        }
        let mut last = Errno::AGAIN;
        for _ in 0..ATTEMPTS {
            match self.openat2(path, flags, ResolveFlags::empty()) {
                Ok(fd) => return Ok(fd),
                // EAGAIN: something on the way was renamed, and the kernel could not be sure of "..".
                Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
                Err(other) => return Err(to_open_error(other)),
            }
        }
        Err(OpenError::Other(last.into()))
    }

    fn openat2(&self, path: &str, flags: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve)
    }
}

fn to_open_error(errno: Errno) -> OpenError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => OpenError::NotFound,
        Errno::ACCESS | Errno::PERM => OpenError::Forbidden,
        Errno::ISDIR => OpenError::IsDirectory,
        Errno::NXIO | Errno::NODEV => OpenError::NotRegular,
        Errno::XDEV => OpenError::OutsideRoot,
        Errno::MFILE | Errno::NFILE => OpenError::TooManyOpenFiles,
        other => OpenError::Other(other.into()),
    }
}

#[cfg(test)]
mod tests;
