//! Files that let an edge start without the store, and go on where it stopped.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use penstock_sys::small_file::{self, SmallFileError};

/// A directory of small files, each readable by its owner only and replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    directory: Option<PathBuf>,
    file_bytes_max: u64,
}

impl StateDirectory {
    /// Without a directory nothing is kept.
    pub(crate) fn new(directory: Option<PathBuf>, file_bytes_max: u64) -> Self {
        Self { directory, file_bytes_max }
    }

    /// Whether a file of so many bytes can be read again.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes as u64 <= self.file_bytes_max
    }

    /// The contents of a file; `None` if it is missing, too large, or cannot be read, which is logged.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.directory.as_ref()?.join(name);
        match small_file::read(&path, self.file_bytes_max) {
            Ok(bytes) => Some(bytes),
            Err(SmallFileError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!("fleet: {} {error}, and is not used", path.display());
                None
            }
        }
    }

    /// Replaces a file. A failure is logged; the edge then starts without it next time. Returns whether the file is as it should be,
    /// which it is without a directory.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> bool {
        let Some(directory) = &self.directory else { return true };
        let replaced = replace(directory, name, bytes);
        if let Err(error) = &replaced {
            tracing::warn!("fleet: {} cannot be written: {error}", directory.join(name).display());
        }
        replaced.is_ok()
    }
}

fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!(".{name}.tmp"));
    // One of a process that crashed may have other permissions.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, directory.join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_readable_by_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(Some(directory.path().to_owned()), 8);
        assert_eq!(state.read("keys"), None);
        fs::write(directory.path().join(".keys.tmp"), "left by a crash").unwrap();
        for text in ["first", "second"] {
            state.write("keys", text.as_bytes());
            assert_eq!(state.read("keys").as_deref(), Some(text.as_bytes()));
        }
        let mode = directory.path().join("keys").metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        state.write("keys", b"more than eight bytes");
        assert_eq!(state.read("keys"), None);
        assert_eq!(StateDirectory::new(None, 8).read("keys"), None);
    }
}
