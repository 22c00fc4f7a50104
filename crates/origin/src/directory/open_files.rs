//! The cache of open files of one worker.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_sys::file::{Identity, OpenFile};
use penstock_sys::root::{OpenError, Root};
use tokio::sync::watch;

use super::{Directory, LookupError};
use crate::io_threads::{Busy, IoThreads};
use crate::lru::{Gone, Lru};

/// Longer paths do not exist on Linux (`PATH_MAX`); it also bounds the memory of the cache.
const MAX_PATH_BYTES: usize = 4095;

/// Bounds of an [`OpenFiles`].
#[derive(Clone, Copy, Debug)]
pub struct OpenFilesLimits {
    /// Open files kept, at least one. Each holds a descriptor, and a mapping once it was sent.
    pub max_files: usize,
    /// Paths without a file kept, at least one. Each holds its path, so at most 4 KiB.
    pub max_absent: usize,
    /// How long a result is used without asking again: a change on disk is noticed after this time.
    pub recheck_after: Duration,
}

/// Counts since the start, and the present number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFilesCounters {
    /// Answered with a file and without a system call.
    pub hits: u64,
    /// Answered with an error about the path and without a system call.
    pub absent_hits: u64,
    /// Files opened.
    pub opens: u64,
    /// Open files looked at again because `recheck_after` had passed.
    pub revalidations: u64,
    /// Opens that went to the I/O threads.
    pub asked: u64,
    /// Requests that waited for another request's open of the same path.
    pub waits: u64,
    /// Files evicted because the cache was full.
    pub evictions: u64,
    /// Files held now.
    pub files: usize,
    /// Paths without a file held now.
    pub absent: usize,
}

/// Open files by path, for one worker: nothing in it is locked.
///
/// A result is used again for `recheck_after`. Then the path is checked again, and the file stays, with its mapping,
/// unless its [`Identity`] has changed. An open that the kernel can answer from memory runs on the worker; one that
/// needs the disk goes to the I/O threads, once per path for all requests that wait.
///
/// Paths without a file have a table of their own, so that a scan of random names cannot evict open files.
/// An eviction only drops the reference of this cache: responses that send the file go on.
pub struct OpenFiles {
    io: Arc<IoThreads>,
    limits: OpenFilesLimits,
    files: RefCell<Lru<CachedFile>>,
    absent: RefCell<Lru<CachedError>>,
    asked: RefCell<HashMap<PathKey, watch::Receiver<Option<OpenResult>>>>,
    counters: Cell<OpenFilesCounters>,
}

impl OpenFiles {
    /// An empty cache that sends slow opens to `io`.
    pub fn new(io: Arc<IoThreads>, limits: OpenFilesLimits) -> Self {
        Self {
            io,
            limits,
            files: RefCell::new(Lru::new(limits.max_files)),
            absent: RefCell::new(Lru::new(limits.max_absent)),
            asked: RefCell::default(),
            counters: Cell::default(),
        }
    }

    /// The regular file at `path`, which is relative to `directory` and decoded. `now` is the current time.
    ///
    /// The future may be dropped; another request that waits for the same path then opens it.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub async fn open(
        &self,
        directory: &Directory,
        path: &str,
        now: Instant,
    ) -> Result<Arc<OpenFile>, LookupError> {
        if path.len() > MAX_PATH_BYTES {
            return Err(LookupError::NotFound);
        }
        loop {
            if let Some(outcome) = self.remembered(directory, path, now) {
                return outcome;
            }
            if let Some(mut answer) = self.asked_by_another(directory, path) {
                self.count(|counters| counters.waits += 1);
                // An error means that the other request was dropped before its result came.
                if let Ok(answer) = answer.wait_for(Option::is_some).await
                    && let Some(outcome) = &*answer
                {
                    return outcome.clone();
                }
                continue;
            }
            let known = self.known(directory, path);
            return match look(&directory.root, path, identity(known.as_ref()), true) {
                Err(OpenError::WouldBlock) => self.ask(directory, path, known, now).await,
                found => self.remember(directory, path, known, found, now),
            };
        }
    }

    /// Closes files that no request has opened since `before`. To be called from time to time: a deleted file keeps its
    /// space on disk as long as it is open.
    pub fn close_idle(&self, before: Instant) {
        // A file in use is looked at again after `recheck_after`, so the last look tells when it was last used.
        while let Some(known) = self.files.borrow_mut().take_oldest_if(|known| known.checked < before) {
            self.io.discard(known.file);
        }
    }

    /// Counts and present number of entries.
    pub fn counters(&self) -> OpenFilesCounters {
        let (files, absent) = (self.files.borrow().len(), self.absent.borrow().len());
        OpenFilesCounters { files, absent, ..self.counters.get() }
    }

    /// A cached result that is young enough.
    fn remembered(&self, directory: &Directory, path: &str, now: Instant) -> Option<OpenResult> {
        let young = |checked: Instant| now.saturating_duration_since(checked) < self.limits.recheck_after;
        if let Some(known) = self.files.borrow_mut().get(directory.id, path) {
            if !young(known.checked) || known.file.is_truncated() {
                return None;
            }
            self.count(|counters| counters.hits += 1);
            return Some(Ok(known.file.clone()));
        }
        let mut absent = self.absent.borrow_mut();
        let absent = absent.get(directory.id, path).filter(|absent| young(absent.checked))?;
        self.count(|counters| counters.absent_hits += 1);
        Some(Err(absent.error))
    }

    fn asked_by_another(
        &self,
        directory: &Directory,
        path: &str,
    ) -> Option<watch::Receiver<Option<OpenResult>>> {
        let asked = self.asked.borrow();
        if asked.is_empty() {
            return None;
        }
        asked.get(&(directory.id, path.into())).cloned()
    }

    /// The file that is worth keeping if it is still the one at this path.
    fn known(&self, directory: &Directory, path: &str) -> Option<Arc<OpenFile>> {
        let file = self.files.borrow_mut().get(directory.id, path).map(|known| known.file.clone())?;
        if file.is_truncated() {
            return None;
        }
        self.count(|counters| counters.revalidations += 1);
        Some(file)
    }

    /// Opens on the I/O threads, while other requests for this path wait for the same result.
    async fn ask(
        &self,
        directory: &Directory,
        path: &str,
        known: Option<Arc<OpenFile>>,
        now: Instant,
    ) -> OpenResult {
        self.count(|counters| counters.asked += 1);
        let (sender, receiver) = watch::channel(None);
        let question = PendingOpen::put(self, (directory.id, path.into()), receiver);
        let (root, name, identity) = (directory.root.clone(), path.to_owned(), identity(known.as_ref()));
        let found = match self.io.run(move || look(&root, &name, identity, false)) {
            Ok(answer) => answer.await,
            Err(Busy) => Err(Busy),
        };
        let outcome = match found {
            Ok(found) => self.remember(directory, path, known, found, now),
            Err(Busy) => Err(LookupError::Busy),
        };
        drop(question);
        sender.send_replace(Some(outcome.clone()));
        outcome
    }

    /// Caches the result of an open.
    ///
    /// `now` is from before the open, so that a slow open is not used for longer.
    fn remember(
        &self,
        directory: &Directory,
        path: &str,
        known: Option<Arc<OpenFile>>,
        found: Result<Opened, OpenError>,
        now: Instant,
    ) -> OpenResult {
        let file = match (found, known) {
            (Ok(Opened::Same), Some(known)) => known,
            (Ok(Opened::New(file)), _) => {
                self.count(|counters| counters.opens += 1);
                Arc::new(file)
            }
            // `Same` is only returned for a known file.
            (Ok(Opened::Same), None) => return Err(LookupError::Busy),
            (Err(error), known) => {
                drop(known);
                return Err(self.remember_error(directory, path, error.into(), now));
            }
        };
        let known = CachedFile { file: file.clone(), checked: now };
        let gone = self.files.borrow_mut().insert(directory.id, path, known);
        match gone {
            Some(Gone::Evicted(known)) => {
                self.count(|counters| counters.evictions += 1);
                self.io.discard(known.file);
            }
            Some(Gone::Replaced(known)) => self.io.discard(known.file),
            None => {}
        }
        Ok(file)
    }

    fn remember_error(
        &self,
        directory: &Directory,
        path: &str,
        error: LookupError,
        now: Instant,
    ) -> LookupError {
        if error.is_about_the_path() {
            let gone = self.files.borrow_mut().remove(directory.id, path);
            if let Some(known) = gone {
                self.io.discard(known.file);
            }
            self.absent.borrow_mut().insert(directory.id, path, CachedError { error, checked: now });
        }
        error
    }

    fn count(&self, change: impl FnOnce(&mut OpenFilesCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles")
            .field("limits", &self.limits)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

type PathKey = (u64, Box<str>);

type OpenResult = Result<Arc<OpenFile>, LookupError>;

struct CachedFile {
    file: Arc<OpenFile>,
    checked: Instant,
}

struct CachedError {
    error: LookupError,
    checked: Instant,
}

/// Result of opening a path.
enum Opened {
    /// The file that was known already.
    Same,
    /// Another, or the first.
    New(OpenFile),
}

/// An entry in `asked`, which is removed on drop.
struct PendingOpen<'a> {
    files: &'a OpenFiles,
    key: PathKey,
}

impl<'a> PendingOpen<'a> {
    fn put(files: &'a OpenFiles, key: PathKey, answer: watch::Receiver<Option<OpenResult>>) -> Self {
        files.asked.borrow_mut().insert(key.clone(), answer);
        Self { files, key }
    }
}

impl Drop for PendingOpen<'_> {
    fn drop(&mut self) {
        self.files.asked.borrow_mut().remove(&self.key);
    }
}

/// Opens the file at `path`, unless it is the `known` one.
fn look(root: &Root, path: &str, known: Option<Identity>, nonblocking: bool) -> Result<Opened, OpenError> {
    if let Some(known) = known
        && root.identify(path, nonblocking)? == known
    {
        return Ok(Opened::Same);
    }
    root.open_regular(path, nonblocking).map(Opened::New)
}

fn identity(file: Option<&Arc<OpenFile>>) -> Option<Identity> {
    file.map(|file| file.identity())
}

#[cfg(test)]
mod tests;
