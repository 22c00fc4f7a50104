//! Purging: objects that came before some moment are not to be used any more.
//!
//! A purge is a line in a short list. Nobody searches for what it means: whoever finds an object compares the moment up
//! to which that was judged with the newest purge, which is one number, and only if there is something newer looks
//! through the list. So a purge holds in all workers at once, for objects that are still on their way, and, since the
//! list lies in files beside the objects, for those that another process finds there later.
//!
//! Moments are in nanoseconds since 1970, and never go back: a purge is later than all before it, whatever the clock
//! says.

mod file;
mod fuzz;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use file::PurgeFile;
pub(crate) use fuzz::fuzz_purges;

/// What a purge is told about an object.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// Where objects of the same names belong together, such as an origin.
    pub place: &'s str,
    /// The name there; several objects may have the same.
    pub name: &'s str,
    /// Tags, separated by spaces.
    pub tags: &'s str,
}

/// Which objects a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Only there; everywhere if `None`.
    pub place: Option<String>,
    /// What of it.
    pub what: What,
}

/// Which objects of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Those of this name.
    Name(String),
    /// Those whose name begins so.
    Beginning(String),
    /// Those with this tag.
    Tag(String),
    /// All.
    Everything,
}

impl Pattern {
    /// Whether it is about this object.
    pub fn matches(&self, subject: Subject<'_>) -> bool {
        self.place.as_deref().is_none_or(|place| place == subject.place)
            && match &self.what {
                What::Name(name) => subject.name == name,
                What::Beginning(start) => subject.name.starts_with(start.as_str()),
                What::Tag(tag) => subject.tags.split(' ').any(|one| one == tag),
                What::Everything => true,
            }
    }

    /// Bytes that it takes, give or take a few.
    fn bytes(&self) -> usize {
        let what = match &self.what {
            What::Name(text) | What::Beginning(text) | What::Tag(text) => text.len(),
            What::Everything => 0,
        };
        what + self.place.as_ref().map_or(0, String::len) + 64
    }
}

/// What has become of an object since it was last judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    #[default]
    Good,
    /// It is stale.
    Stale,
    /// It is not to be used.
    Gone,
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Purge {
    at: u64,
    /// Whether what it is about is only stale.
    soft: bool,
    pattern: Pattern,
}

/// The bounds of the list.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLimits {
    /// Purges; beyond that the oldest become one that is about everything.
    pub purges: usize,
    /// Bytes of all patterns.
    pub bytes: usize,
}

/// A purge holds, but not for the next process.
#[derive(Debug)]
pub struct NotKept {
    /// The file that could not be written.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write down purges in {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for NotKept {}

/// Nanoseconds for which stamps need no note of their own.
const STAMPS_AHEAD: u64 = 1_000_000_000;

/// The list of purges.
#[derive(Debug)]
pub struct Purges {
    limits: PurgeLimits,
    /// The moment of the newest.
    latest: AtomicU64,
    /// No stamp is later. Set a little ahead, so that workers seldom write to it.
    stamped: AtomicU64,
    list: RwLock<Arc<[Purge]>>,
    files: Mutex<Vec<PurgeFile>>,
}

impl Purges {
    /// Opens the list that lies in these directories, which are there.
    ///
    /// # Errors
    /// When a file of it cannot be read or written.
    pub fn open(directories: &[&Path], limits: PurgeLimits, now: SystemTime) -> Result<Self, NotKept> {
        let (mut files, mut list) = (Vec::new(), Vec::new());
        for directory in directories {
            let (file, found) = PurgeFile::open(directory, moment(now))?;
            files.push(file);
            list.extend(found);
        }
        list.sort_by_key(|purge: &Purge| purge.at);
        list.dedup();
        let latest = list.last().map_or(0, |purge| purge.at);
        let list = RwLock::new(list.into());
        let purges = Self {
            limits,
            latest: AtomicU64::new(latest),
            stamped: AtomicU64::new(0),
            list,
            files: Mutex::new(files),
        };
        purges.bound()?;
        Ok(purges)
    }

    /// The moment for whatever is asked for now: no purge so far is about it.
    pub fn stamp(&self, now: SystemTime) -> u64 {
        let stamp = moment(now).max(self.latest.load(Ordering::Acquire));
        if stamp > self.stamped.load(Ordering::Relaxed) {
            self.stamped.fetch_max(stamp.saturating_add(STAMPS_AHEAD), Ordering::Relaxed);
        }
        stamp
    }

    /// Adds a purge, which holds from now on.
    ///
    /// # Errors
    /// When it could not be written down.
    pub fn add(&self, pattern: Pattern, soft: bool, now: SystemTime) -> Result<(), NotKept> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that went back has given stamps that are later than now.
        let before = self.latest.load(Ordering::Acquire).max(self.stamped.load(Ordering::Relaxed));
        let at = moment(now).max(before.saturating_add(1));
        let purge = Purge { at, soft, pattern };
        // First on the disk: what holds now would otherwise not hold after a crash.
        let kept = files.iter_mut().try_for_each(|file| file.append(&purge));
        {
            let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
            *list = list.iter().cloned().chain([purge]).collect();
        }
        self.latest.store(at, Ordering::Release);
        drop(files);
        kept.and_then(|()| self.bound())
    }

    /// What has become of an object that was judged up to `judged`, which is then up to date.
    /// `subject` is only asked for if there is a purge to judge by.
    pub fn judge<'s>(&self, judged: &AtomicU64, subject: impl FnOnce() -> Subject<'s>) -> Verdict {
        let latest = self.latest.load(Ordering::Acquire);
        let since = judged.load(Ordering::Relaxed);
        if since >= latest {
            return Verdict::Good;
        }
        let (list, subject) =
            (Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner)), subject());
        let newer = &list[list.partition_point(|purge| purge.at <= since)..];
        let mut verdict = Verdict::Good;
        for purge in newer.iter().filter(|purge| purge.pattern.matches(subject)) {
            if !purge.soft {
                // Not marked as judged: whoever else still finds it is to hear the same.
                return Verdict::Gone;
            }
            verdict = Verdict::Stale;
        }
        judged.fetch_max(latest, Ordering::Relaxed);
        verdict
    }

    /// Drops what is older than `age`, for a caller who knows that no object is that old.
    ///
    /// # Errors
    /// When the files could not be written; the list is then as it was.
    pub fn sweep(&self, age: Duration, now: SystemTime) -> Result<(), NotKept> {
        let oldest = moment(now).saturating_sub(nanoseconds(age));
        self.shorten(|list| {
            let kept = &list[list.partition_point(|purge| purge.at < oldest)..];
            (kept.len() < list.len()).then(|| kept.to_vec())
        })
    }

    /// How many purges are in the list.
    pub fn len(&self) -> usize {
        self.list.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes one purge about everything of the older half, if there are too many.
    fn bound(&self) -> Result<(), NotKept> {
        self.shorten(|list| {
            let bytes: usize = list.iter().map(|purge| purge.pattern.bytes()).sum();
            if list.len() <= self.limits.purges && bytes <= self.limits.bytes {
                return None;
            }
            let (older, newer) = list.split_at(list.len().div_ceil(2));
            let at = older.last().map_or(0, |purge| purge.at);
            let everything = Pattern { place: None, what: What::Everything };
            let mut shorter = vec![Purge { at, soft: false, pattern: everything }];
            shorter.extend_from_slice(newer);
            Some(shorter)
        })
    }

    fn shorten(&self, shorter: impl FnOnce(&[Purge]) -> Option<Vec<Purge>>) -> Result<(), NotKept> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let list = Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner));
        let Some(shorter) = shorter(&list) else { return Ok(()) };
        for file in files.iter_mut() {
            file.replace(&shorter)?;
        }
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = shorter.into();
        Ok(())
    }
}

fn moment(time: SystemTime) -> u64 {
    nanoseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
