//! Opens the files of a tier so that no other user of the machine can have prepared them, and asks for their space.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, Stat, memfd_create};
use rustix::io::Errno;

use super::limits::TierError;

/// Bits of a mode that let the group or others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Bits of a mode that let the group or others do anything.
const OPEN_TO_OTHERS: u32 = 0o077;

/// Names of the files in the tier's directory.
pub(super) const SLICES_NAME: &str = "slices";
pub(super) const RECORDS_NAME: &str = "records";
pub(super) const KEY_NAME: &str = "key";
pub(super) const QUEUE_NAME: &str = "popular";
/// The name in the system of the files of a tier without a directory.
pub(super) const MEMORY_FILE_NAME: &str = "penstock";

/// A directory that belongs to the user of this process, and that no other user can write to.
pub(super) struct TierDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// All of it; `None` for a tmpfs without a limit.
    pub(super) total: Option<u64>,
    /// The free space.
    pub(super) free: u64,
}

impl TierDirectory {
    /// Opens the directory, which is made if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, TierError> {
        let unusable = |source: io::Error| TierError::Unusable { path: path.to_owned(), source };
        let unsafe_because = |reason| TierError::Unsafe { path: path.to_owned(), reason };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(directory) => directory,
            // With both flags a link to a directory gives either.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(unsafe_because("it is a link; name the directory itself"));
            }
            Err(error) => return Err(unusable(error.into())),
        };
        let stat = rustix::fs::fstat(&directory).map_err(|error| unusable(error.into()))?;
        if !is_own(&stat) {
            return Err(unsafe_because("it belongs to another user; remove it or choose another"));
        }
        if stat.st_mode & WRITABLE_BY_OTHERS != 0 {
            return Err(unsafe_because("other users may write to it; run `chmod go-w` on it"));
        }
        Ok(Self { path: path.to_owned(), directory })
    }

    /// Opens a file of the directory for reading and writing; makes it if it is missing.
    pub(super) fn open_file(&self, name: &str) -> Result<File, TierError> {
        let path = self.path.join(name);
        let unusable = |source: Errno| TierError::Unusable { path: path.clone(), source: source.into() };
        let unsafe_because = |reason| TierError::Unsafe { path: path.clone(), reason };
        // Without NONBLOCK a pipe or device of that name could hold up the start.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file,
            Err(Errno::LOOP) => return Err(unsafe_because("it is a link; remove it")),
            Err(error) => return Err(unusable(error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(unusable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(unsafe_because("it is no file of its own; remove it"));
        }
        if !is_own(&stat) {
            return Err(unsafe_because("it belongs to another user; remove it"));
        }
        if stat.st_mode & OPEN_TO_OTHERS != 0 {
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(unusable)?;
        }
        Ok(file.into())
    }
}

impl TierDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes another file in place of the one of this name, which lives on without a name while it is open. `prepare` gets
    /// the new file, opened twice, before it has the name.
    pub(super) fn replace_file<T>(
        &self,
        name: &str,
        prepare: impl FnOnce([File; 2]) -> io::Result<T>,
    ) -> io::Result<T> {
        let next = format!("{name}.next");
        match rustix::fs::unlinkat(&self.directory, &next, AtFlags::empty()) {
            // A process has left it that ended meanwhile.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = rustix::fs::openat(&self.directory, &next, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
        // Not a copy of the other descriptor, which would share its lock.
        let again = rustix::fs::openat(&self.directory, &next, flags, mode)?;
        let prepared = prepare([made.into(), again.into()])?;
        rustix::fs::renameat(&self.directory, &next, &self.directory, name)?;
        Ok(prepared)
    }
}

/// A file that has no name in any directory.
pub(super) fn memory_file(bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(MEMORY_FILE_NAME, MemfdFlags::CLOEXEC)?);
    file.set_len(bytes)?;
    Ok(file)
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// The space of the file system of a file or directory.
pub(super) fn space_of(file: impl AsFd) -> io::Result<Space> {
    let of = rustix::fs::fstatvfs(file)?;
    let total = (of.f_blocks > 0).then_some(of.f_blocks.saturating_mul(of.f_frsize));
    Ok(Space { total, free: of.f_bavail.saturating_mul(of.f_frsize) })
}

/// Bytes that a file takes.
pub(super) fn allocated_bytes(file: &File) -> io::Result<u64> {
    // A block as `stat` counts them.
    const BLOCK_BYTES: u64 = 512;
    let stat = rustix::fs::fstat(file)?;
    Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES)
}
