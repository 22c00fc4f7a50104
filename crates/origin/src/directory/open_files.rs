//! The memo of open files of one worker.

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

/// Longer paths do not exist on Linux (`PATH_MAX`); it also bounds the memo's memory.
const MAX_PATH_BYTES: usize = 4095;

/// How much an [`OpenFiles`] remembers, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct OpenFilesLimits {
    /// Open files kept, at least one. Each holds a descriptor, and a mapping once it was sent.
    pub max_files: usize,
    /// Paths without a file kept, at least one. Each holds its path, so at most 4 KiB.
    pub max_absent: usize,
    /// For how long an answer is believed: a change on disk is noticed after this time.
    pub recheck_after: Duration,
}

/// What the memo did since it was made, and what it holds.
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
    /// Questions that the I/O threads had to answer.
    pub asked: u64,
    /// Requests that waited for another's question about the same path.
    pub waits: u64,
    /// Files forgotten because the memo was full.
    pub evictions: u64,
    /// Files held now.
    pub files: usize,
    /// Paths without a file held now.
    pub absent: usize,
}

/// Open files by path, for one worker: nothing in it is locked.
///
/// An answer is used again without asking for `recheck_after`. Then the path is looked at again, and the file
/// stays, with its mapping, unless its [`Identity`] has changed. What the kernel can answer from memory is asked
/// right here; only what needs the disk goes to the I/O threads, once per path however many requests wait.
///
/// Paths without a file have a table of their own, so that a scan of random names cannot wash out open files.
/// Forgetting a file only drops this memo's reference: who is sending it goes on.
pub struct OpenFiles {
    io: Arc<IoThreads>,
    limits: OpenFilesLimits,
    files: RefCell<Lru<Known>>,
    absent: RefCell<Lru<Absent>>,
    asked: RefCell<HashMap<Key, watch::Receiver<Option<Outcome>>>>,
    counters: Cell<OpenFilesCounters>,
}

impl OpenFiles {
    /// An empty memo that sends slow questions to `io`.
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
    /// Dropping the future is fine; another request that waits for the same path then asks itself.
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
                // An error means that the other request went away before the answer came.
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

    /// Closes files that nobody has asked for since `before`. Call it now and then: a file that was deleted keeps its
    /// space on disk as long as it is open.
    pub fn close_idle(&self, before: Instant) {
        // A file in use is looked at again after `recheck_after`, so the last look tells when it was last used.
        while let Some(known) = self.files.borrow_mut().take_oldest_if(|known| known.checked < before) {
            self.io.discard(known.file);
        }
    }

    /// What the memo did and holds.
    pub fn counters(&self) -> OpenFilesCounters {
        let (files, absent) = (self.files.borrow().len(), self.absent.borrow().len());
        OpenFilesCounters { files, absent, ..self.counters.get() }
    }

    /// An answer that is young enough.
    fn remembered(&self, directory: &Directory, path: &str, now: Instant) -> Option<Outcome> {
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
    ) -> Option<watch::Receiver<Option<Outcome>>> {
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

    /// Has the I/O threads look, while other requests for this path wait for the same answer.
    async fn ask(
        &self,
        directory: &Directory,
        path: &str,
        known: Option<Arc<OpenFile>>,
        now: Instant,
    ) -> Outcome {
        self.count(|counters| counters.asked += 1);
        let (sender, receiver) = watch::channel(None);
        let question = Question::put(self, (directory.id, path.into()), receiver);
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

    /// Puts what was found into the memo and turns it into an answer.
    ///
    /// `now` is from before the look, so that an answer which took long is not believed for longer.
    fn remember(
        &self,
        directory: &Directory,
        path: &str,
        known: Option<Arc<OpenFile>>,
        found: Result<Found, OpenError>,
        now: Instant,
    ) -> Outcome {
        let file = match (found, known) {
            (Ok(Found::Same), Some(known)) => known,
            (Ok(Found::New(file)), _) => {
                self.count(|counters| counters.opens += 1);
                Arc::new(file)
            }
            // `Same` is only said about a known file.
            (Ok(Found::Same), None) => return Err(LookupError::Busy),
            (Err(error), known) => {
                drop(known);
                return Err(self.remember_error(directory, path, error.into(), now));
            }
        };
        let known = Known { file: file.clone(), checked: now };
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
            self.absent.borrow_mut().insert(directory.id, path, Absent { error, checked: now });
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

type Key = (u64, Box<str>);

type Outcome = Result<Arc<OpenFile>, LookupError>;

struct Known {
    file: Arc<OpenFile>,
    checked: Instant,
}

struct Absent {
    error: LookupError,
    checked: Instant,
}

/// What a look at a path found.
enum Found {
    /// The file that was known already.
    Same,
    /// Another, or the first.
    New(OpenFile),
}

/// An entry in `asked`, which leaves it however the asking ends.
struct Question<'a> {
    files: &'a OpenFiles,
    key: Key,
}

impl<'a> Question<'a> {
    fn put(files: &'a OpenFiles, key: Key, answer: watch::Receiver<Option<Outcome>>) -> Self {
        files.asked.borrow_mut().insert(key.clone(), answer);
        Self { files, key }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.files.asked.borrow_mut().remove(&self.key);
    }
}

/// Opens the file at `path`, unless it is the `known` one.
fn look(root: &Root, path: &str, known: Option<Identity>, nonblocking: bool) -> Result<Found, OpenError> {
    if let Some(known) = known
        && root.identify(path, nonblocking)? == known
    {
        return Ok(Found::Same);
    }
    root.open_regular(path, nonblocking).map(Found::New)
}

fn identity(file: Option<&Arc<OpenFile>>) -> Option<Identity> {
    file.map(|file| file.identity())
}

#[cfg(test)]
mod tests;
