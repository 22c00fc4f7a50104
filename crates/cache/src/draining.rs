//! The mark in the directory of a memory tier whose process drains: a successor waits for the tiers instead of failing.
//!
//! Only the lock on its files shows whether the directory is in use. A mark that a crash left there means nothing without
//! that lock, and the next process that takes it removes the mark.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The file in the directory.
const NAME: &str = "draining";

/// Marks a directory that this process has locked.
pub(crate) fn mark(directory: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(directory.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Removes the mark of an earlier process from a directory that this process has locked.
pub(crate) fn clear(directory: &Path) {
    // Without a mark there is nothing to remove. One that stays delays an error message, no more.
    drop(fs::remove_file(directory.join(NAME)));
}

/// Whether the process that has locked the directory drains.
pub(crate) fn is_marked(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(NAME)).is_ok_and(|mark| mark.is_file())
}

/// Whether a process holds the lock on a file, which need not exist.
pub(crate) fn is_locked(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}
