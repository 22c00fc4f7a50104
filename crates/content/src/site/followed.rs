//! A file whose contents a site uses: read again when it changes, on the threads for files.
//!
//! A request that comes when the file has not been looked at for a while queues a look, and goes on with what is known. A file that
//! cannot be used leaves the contents as they were, which the log says once.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use penstock_config::limits;
use penstock_origin::io_threads::IoThreads;
use penstock_sys::lock::Unpoisoned;

/// Reads a file, or says why not.
type Read<T> = fn(&Path) -> Result<T, String>;

/// Device, inode, size and time of change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// A file that is followed.
#[derive(Debug)]
pub(crate) struct Followed<T> {
    shared: Arc<FollowedFile<T>>,
}

#[derive(Debug)]
struct FollowedFile<T> {
    path: PathBuf,
    read: Read<T>,
    contents: ArcSwap<T>,
    began: Instant,
    /// When the next look is due, in milliseconds after `began`.
    due: AtomicU64,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    stamp: Stamp,
    /// Whether the log says that the file cannot be used.
    is_said: bool,
}

impl<T: Send + Sync + 'static> Followed<T> {
    /// A file with these contents.
    pub(crate) fn new(path: &Path, contents: T, read: Read<T>, now: Instant) -> Self {
        let state = FileState { stamp: stamp_of(path), is_said: false };
        let shared = FollowedFile {
            path: path.to_owned(),
            read,
            contents: ArcSwap::from_pointee(contents),
            began: now,
            // The file may have changed since it was read.
            due: AtomicU64::new(0),
            state: Mutex::new(state),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The contents. Queues a look at the file if one is due.
    pub(crate) fn contents(&self, io: &IoThreads, now: Instant) -> Arc<T> {
        let shared = &self.shared;
        let elapsed = now.saturating_duration_since(shared.began);
        let due = shared.due.load(Relaxed);
        if elapsed >= Duration::from_millis(due) {
            let next = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let next = next.saturating_add(limits::FOLLOWED_FILE_MILLISECONDS);
            if shared.due.compare_exchange(due, next, Relaxed, Relaxed).is_ok() {
                let shared = Arc::clone(shared);
                // With a full queue the next round tries again.
                let _is_queued = io.run_later(move || shared.look());
            }
        }
        shared.contents.load_full()
    }
}

impl<T> FollowedFile<T> {
    /// Reads the file if it is another one.
    fn look(&self) {
        let mut state = self.state.lock().unpoisoned();
        let stamp = stamp_of(&self.path);
        // A file that could not be used is tried again: it may have been written halfway.
        if stamp == state.stamp && !state.is_said {
            return;
        }
        match (self.read)(&self.path) {
            Ok(contents) => {
                self.contents.store(Arc::new(contents));
                tracing::info!("{} has changed and is in force", self.path.display());
                state.is_said = false;
            }
            Err(why) => {
                if !state.is_said {
                    let path = self.path.display();
                    tracing::warn!("{path} {why}; what it had before stays in force");
                }
                state.is_said = true;
            }
        }
        state.stamp = stamp;
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn read(path: &Path) -> Result<String, String> {
        let text = penstock_sys::small_file::read_text(path, 64).map_err(|error| error.to_string())?;
        if text == "rubbish" { Err("is rubbish".to_owned()) } else { Ok(text) }
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_rubbish_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "one").unwrap();
        let followed = Followed::new(&path, "one".to_owned(), read, Instant::now());
        let seen = || {
            followed.shared.look();
            (followed.shared.contents.load_full().to_string(), followed.shared.state.lock().unwrap().is_said)
        };
        assert_eq!(seen(), ("one".to_owned(), false));
        for (contents, expected, said) in [
            ("second", "second", false),
            ("rubbish", "second", true),
            ("rubbish", "second", true),
            ("4th", "4th", false),
        ] {
            fs::write(&path, contents).unwrap();
            assert_eq!(seen(), (expected.to_owned(), said), "{contents}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(seen(), ("4th".to_owned(), true));
        // The writer of a pipe may never come.
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(seen(), ("4th".to_owned(), true));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "back").unwrap();
        assert_eq!(seen(), ("back".to_owned(), false));
    }
}
