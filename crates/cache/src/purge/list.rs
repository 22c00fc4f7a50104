//! The list of purges.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime};

use penstock_sys::lock::Unpoisoned;

use super::file::PurgeFile;
use super::pattern::{NotKept, Pattern, Purge, PurgeEffect, Subject, nanoseconds, nanoseconds_of};
use super::target::PurgeTarget;
use super::undelivered::{self, UndeliveredPurge};

/// The bounds of the list.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLimits {
    /// Purges; beyond that the oldest become one purge of everything.
    pub purges: usize,
    /// Bytes of all patterns.
    pub bytes: usize,
}

/// Nanoseconds for which stamps need no write of their own.
const STAMPS_AHEAD: u64 = 1_000_000_000;

/// The list of purges.
#[derive(Debug)]
pub struct Purges {
    limits: PurgeLimits,
    /// The time of the newest.
    latest: AtomicU64,
    /// The time of a purge that is being added and is not in the list yet: 0 until it is known, `u64::MAX` without one.
    pending: AtomicU64,
    /// The time at which the list was opened: all stamps of earlier processes were given before.
    opened: u64,
    /// No stamp is later. Set a little ahead, so that workers seldom write to it.
    stamped: AtomicU64,
    list: SharedList,
    /// Purges in the files that newer ones have made needless.
    needless: AtomicUsize,
    files: Mutex<Vec<PurgeFile>>,
    undelivered: Mutex<Undelivered>,
    /// Whether purges of another process wait in `undelivered`.
    has_found: AtomicBool,
    /// Whether a directory has an older file of `undelivered`, because the newest could not be written.
    is_outdated: AtomicBool,
}

/// The purges in force. Requests read it all the time, so its lock is held for the exchange of a pointer only. Changed by
/// the thread that has the lock of the files.
#[derive(Debug)]
struct SharedList(RwLock<Arc<[Purge]>>);

impl Default for SharedList {
    fn default() -> Self {
        Self(RwLock::new(Arc::new([])))
    }
}

impl SharedList {
    fn get(&self) -> Arc<[Purge]> {
        Arc::clone(&self.0.read().unpoisoned())
    }

    fn replace(&self, list: Arc<[Purge]>) {
        let before = std::mem::replace(&mut *self.0.write().unpoisoned(), list);
        // Without the lock: thousands of patterns may go with it.
        drop(before);
    }
}

/// Purges that other servers have yet to confirm.
#[derive(Debug, Default)]
struct Undelivered {
    /// Those that another process has left.
    found: Vec<UndeliveredPurge>,
    /// Whether a directory may have a file with some.
    is_kept: bool,
}

impl Purges {
    /// Opens the list in these directories, which exist.
    ///
    /// # Errors
    /// When a file of it cannot be read or written.
    pub fn open(directories: &[&Path], limits: PurgeLimits, now: SystemTime) -> Result<Self, NotKept> {
        let mut purges = Self {
            limits,
            latest: AtomicU64::new(0),
            pending: AtomicU64::new(u64::MAX),
            opened: 0,
            stamped: AtomicU64::new(0),
            list: SharedList::default(),
            needless: AtomicUsize::new(0),
            files: Mutex::default(),
            undelivered: Mutex::default(),
            has_found: AtomicBool::new(false),
            is_outdated: AtomicBool::new(false),
        };
        directories.iter().try_for_each(|directory| purges.add_directory(directory, now))?;
        purges.opened = nanoseconds_of(now).max(*purges.latest.get_mut());
        Ok(purges)
    }

    /// Keeps the list in this directory too, and adds the purges that are there already.
    ///
    /// # Errors
    /// When a file cannot be read or written; the directory is left out if it is that one.
    pub fn add_directory(&self, directory: &Path, now: SystemTime) -> Result<(), NotKept> {
        let (mut file, found) = PurgeFile::open(directory, nanoseconds_of(now))?;
        self.find_undelivered(directory, now)?;
        let mut files = self.files();
        let known = self.entries();
        let unknown: Vec<Purge> = found.iter().filter(|purge| !contains(&known, purge)).cloned().collect();
        let mut list: Vec<Purge> = known.iter().chain(&unknown).cloned().collect();
        list.sort_by_key(|purge| purge.at);
        let list = needed(list);
        // A process that had only some of the directories has written its purges only there.
        if list != found {
            file.replace(&list)?;
        }
        if !unknown.is_empty() {
            files.iter_mut().try_for_each(|file| file.replace(&list))?;
        }
        let latest = list.last().map_or(0, |purge| purge.at);
        self.list.replace(list.into());
        self.latest.fetch_max(latest, Ordering::SeqCst);
        // The directory may have been opened before, for tiers that could not be used then.
        files.retain(|known| known.path() != file.path());
        files.push(file);
        drop(files);
        self.bound().inspect_err(|error| self.files().retain(|file| file.path() != error.path))
    }

    /// The time of a request that begins now: no purge so far affects its object.
    pub fn stamp(&self, now: SystemTime) -> u64 {
        let stamp = nanoseconds_of(now).max(self.latest.load(Ordering::Acquire));
        if stamp > self.stamped.load(Ordering::Relaxed) {
            self.stamped.fetch_max(stamp.saturating_add(STAMPS_AHEAD), Ordering::Relaxed);
        }
        stamp
    }

    /// A time that is later than all stamps so far, for a purge or another change. Those from now on are later, unless they
    /// are made at the same time.
    pub fn later_stamp(&self, now: SystemTime) -> u64 {
        // A clock that went back has given stamps that are later than now.
        let stamped = self.stamped.load(Ordering::SeqCst).max(self.opened);
        let before = self.latest.load(Ordering::SeqCst).max(stamped);
        let at = nanoseconds_of(now).max(before.saturating_add(1));
        self.stamped.fetch_max(at, Ordering::SeqCst);
        at
    }

    /// The time of the newest purge.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// A time, no later than `at`, up to which [`Self::judge`] knows all purges from now on. A purge that is being written to
    /// its files can be earlier than `at`, a time of [`Self::later_stamp`].
    pub fn complete_until(&self, at: u64) -> u64 {
        // A purge that this does not see yet has a later time than `at`: `add` changes this before it reads `stamped`.
        at.min(self.pending.load(Ordering::SeqCst).saturating_sub(1))
    }

    /// Corrects the stamp of a restored object if it is later than now: an earlier process gave it while the clock was
    /// ahead. Purges since the list was opened then affect the object.
    pub fn correct_stamp(&self, judged: &AtomicU64, now: SystemTime) {
        if judged.load(Ordering::Relaxed) > self.stamp(now) {
            judged.fetch_min(self.opened, Ordering::Relaxed);
        }
    }

    /// Adds a purge, which is in force from now on.
    ///
    /// # Errors
    /// When it could not be persisted.
    pub fn add(&self, pattern: Pattern, soft: bool, now: SystemTime) -> Result<(), NotKept> {
        let mut files = self.files();
        self.pending.store(0, Ordering::SeqCst);
        let at = self.later_stamp(now);
        self.pending.store(at, Ordering::SeqCst);
        let purge = Purge { at, soft, pattern };
        // The file first: a purge in force must also be in force after a crash.
        let kept = files.iter_mut().map(|file| file.append(&purge)).fold(Ok(()), Result::and);
        let list = self.entries();
        let is_needed = |known: &&Purge| known.pattern != purge.pattern || (purge.soft && !known.soft);
        let longer: Arc<[Purge]> = list.iter().filter(is_needed).cloned().chain([purge.clone()]).collect();
        self.needless.fetch_add(list.len() + 1 - longer.len(), Ordering::Relaxed);
        self.list.replace(longer);
        self.latest.store(at, Ordering::SeqCst);
        self.pending.store(u64::MAX, Ordering::SeqCst);
        drop(files);
        kept.and_then(|()| self.bound())
    }

    /// Judges an object by the purges since `since`. If the effect is not [`PurgeEffect::Gone`], the caller may begin the next
    /// time at the newest purge that it saw before.
    pub fn judge(&self, since: u64, subject: Subject<'_>) -> PurgeEffect {
        if since >= self.latest() {
            return PurgeEffect::None;
        }
        let list = self.entries();
        let newer = &list[list.partition_point(|purge| purge.at <= since)..];
        let mut effect = PurgeEffect::None;
        for purge in newer.iter().filter(|purge| purge.pattern.matches(subject)) {
            if !purge.soft {
                return PurgeEffect::Gone;
            }
            effect = PurgeEffect::Stale;
        }
        effect
    }

    /// Drops purges older than `age`; the caller knows that no object is that old.
    ///
    /// # Errors
    /// When the files could not be written; the list is then as it was.
    pub fn sweep(&self, age: Duration, now: SystemTime) -> Result<(), NotKept> {
        let oldest = nanoseconds_of(now).saturating_sub(nanoseconds(age));
        self.shorten(|list| {
            let kept = &list[list.partition_point(|purge| purge.at < oldest)..];
            (kept.len() < list.len()).then(|| kept.to_vec())
        })
    }

    fn find_undelivered(&self, directory: &Path, now: SystemTime) -> Result<(), NotKept> {
        let read = undelivered::read(directory, now);
        let found = read.map_err(|source| not_kept(directory, source))?;
        if !found.is_empty() {
            let mut undelivered = self.undelivered();
            undelivered.is_kept = true;
            // All directories have the same, unless one of them was missing for a while.
            let unknown: Vec<_> =
                found.into_iter().filter(|purge| !undelivered.found.contains(purge)).collect();
            undelivered.found.extend(unknown);
            self.has_found.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The purges that an earlier process could not deliver to other servers, each once. The caller delivers them.
    pub fn take_undelivered(&self) -> Vec<UndeliveredPurge> {
        if !self.has_found.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut undelivered = self.undelivered();
        self.has_found.store(false, Ordering::Release);
        std::mem::take(&mut undelivered.found)
    }

    /// Keeps these purges for the next process, in place of those that were kept before. `list` is called when no other
    /// thread is at it, so that the newest list is written last.
    ///
    /// # Errors
    /// When a file could not be written. The other directories have theirs, and [`Self::take_outdated`] says that it is to be
    /// tried again.
    pub fn keep_undelivered(&self, list: impl FnOnce() -> Vec<UndeliveredPurge>) -> Result<(), NotKept> {
        let mut undelivered = self.undelivered();
        let mut list = list();
        // Those that have not been taken yet.
        list.extend_from_slice(&undelivered.found);
        if list.is_empty() && !undelivered.is_kept {
            return Ok(());
        }
        undelivered.is_kept = true;
        let directories: Vec<PathBuf> =
            self.files().iter().filter_map(|file| file.path().parent().map(Path::to_owned)).collect();
        let write = |directory: &PathBuf| {
            undelivered::write(directory, &list).map_err(|source| not_kept(directory, source))
        };
        let written = directories.iter().map(write).fold(Ok(()), Result::and);
        undelivered.is_kept = !list.is_empty() || written.is_err();
        self.is_outdated.store(written.is_err(), Ordering::Release);
        written
    }

    /// Whether the last call of [`Self::keep_undelivered`] failed; true once for each failure.
    pub fn take_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire) && self.is_outdated.swap(false, Ordering::AcqRel)
    }

    fn undelivered(&self) -> MutexGuard<'_, Undelivered> {
        self.undelivered.lock().unpoisoned()
    }

    /// Number of purges.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All purges, the oldest first.
    pub(super) fn entries(&self) -> Arc<[Purge]> {
        self.list.get()
    }

    fn files(&self) -> MutexGuard<'_, Vec<PurgeFile>> {
        self.files.lock().unpoisoned()
    }

    /// Replaces the older half by one purge of everything, if there are too many; leaves needless ones out of the files.
    fn bound(&self) -> Result<(), NotKept> {
        self.shorten(|list| {
            let bytes: usize = list.iter().map(|purge| purge.pattern.bytes()).sum();
            if list.len() <= self.limits.purges && bytes <= self.limits.bytes {
                let is_grown = self.needless.load(Ordering::Relaxed) >= self.limits.purges;
                return is_grown.then(|| list.to_vec());
            }
            let (older, newer) = list.split_at(list.len().div_ceil(2));
            let at = older.last().map_or(0, |purge| purge.at);
            let everything = Pattern { place: None, target: PurgeTarget::Everything };
            let mut shorter = vec![Purge { at, soft: false, pattern: everything }];
            shorter.extend_from_slice(newer);
            Some(shorter)
        })
    }

    fn shorten(&self, shorter: impl FnOnce(&[Purge]) -> Option<Vec<Purge>>) -> Result<(), NotKept> {
        let mut files = self.files();
        let list = self.entries();
        let Some(shorter) = shorter(&list) else { return Ok(()) };
        for file in files.iter_mut() {
            file.replace(&shorter)?;
        }
        self.needless.store(0, Ordering::Relaxed);
        self.list.replace(shorter.into());
        Ok(())
    }
}

/// The purges of a list in order of time that no newer one makes needless: one of the same objects that does as much.
fn needed(list: Vec<Purge>) -> Vec<Purge> {
    let mut is_hard: HashMap<Pattern, bool> = HashMap::new();
    let mut kept: Vec<Purge> = Vec::with_capacity(list.len());
    for purge in list.into_iter().rev() {
        match is_hard.entry(purge.pattern.clone()) {
            Entry::Occupied(newer) if purge.soft || *newer.get() => continue,
            Entry::Occupied(mut newer) => *newer.get_mut() = true,
            Entry::Vacant(none) => {
                none.insert(!purge.soft);
            }
        }
        kept.push(purge);
    }
    kept.reverse();
    kept
}

/// Whether a list in order of time has a purge.
fn contains(list: &[Purge], purge: &Purge) -> bool {
    let from = list.partition_point(|other| other.at < purge.at);
    list[from..].iter().take_while(|other| other.at == purge.at).any(|other| other == purge)
}

fn not_kept(directory: &Path, source: io::Error) -> NotKept {
    NotKept { path: directory.join(undelivered::FILE_NAME), source }
}

#[cfg(test)]
mod tests;
