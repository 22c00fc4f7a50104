//! The disk tier: directories of segments that survive everything but their disks.
//!
//! Bytes get here from the memory tier once they have been asked for again, and go with the oldest segment. They are
//! sent from the page cache, after an I/O thread has read and checked them; what is asked for again comes back to
//! memory. No worker ever waits for a disk, and a disk that fails is left out from then on.

mod admission;
mod format;
mod fuzz;
mod index;
mod inspect;
mod keep;
mod one;
mod segment;
mod threads;
mod write;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Key;
use index::DiskIndex;
use one::{DISKS_MAX, Disk, count, disk_of};
use threads::Readers;
use write::{Job, write};

pub(crate) use admission::comes_to_memory;
pub(crate) use fuzz::fuzz_segment;
pub(crate) use index::{Place, Versions};
pub(crate) use inspect::inspect;
pub(crate) use one::{DiskLease, DiskSlice, Wanted};
pub(crate) use write::SliceJob;

/// How much a disk may keep and do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes of all its segments together.
    pub bytes: u64,
    /// Bytes of a segment. A slice with its description has to fit, four of them should.
    pub segment_bytes: u64,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Threads that read.
    pub readers: usize,
    /// Reads that may wait beyond those under way.
    pub queued_reads: usize,
    /// Bytes of slices that may wait to be written, on all disks together.
    pub bytes_in_flight: u64,
    /// Segments whose files are open.
    pub open_segments: usize,
    /// Bytes that are looked at in each second to find out whether they are still right.
    pub scrub_bytes_per_second: u64,
    /// Reads that fail one after the other before the disk is taken out of service.
    pub read_errors: u32,
}

/// Why a disk cannot be used.
#[derive(Debug)]
pub enum DiskError {
    /// The directory or a file in it could not be made or opened.
    Unusable {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses the directory, or this one uses it twice.
    InUse(PathBuf),
    /// Places cannot tell so many disks apart.
    TooMany,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { directory, source } => {
                write!(f, "the disk tier cannot use {}: {source}", directory.display())
            }
            Self::InUse(directory) => {
                write!(f, "another process uses the disk tier in {}; give each its own", directory.display())
            }
            Self::TooMany => write!(f, "there can be at most {DISKS_MAX} directories of the disk tier"),
        }
    }
}

impl std::error::Error for DiskError {}

/// What an operator may want to read in the log.
#[derive(Debug)]
pub enum DiskEvent<'e> {
    /// All tables of a disk have been read.
    Read {
        /// The disk's directory.
        directory: &'e Path,
        /// Segments that were there.
        segments: usize,
        /// Those of them that were of no use, and are deleted.
        lost: usize,
        /// Slices in the others.
        slices: u64,
        /// How long it took.
        took: Duration,
    },
    /// The disk is not used any more until the next start.
    OutOfService {
        /// The disk's directory.
        directory: &'e Path,
        /// What was wrong.
        reason: &'e str,
    },
}

/// Is told what happens, on whichever thread it does.
pub type Report = Box<dyn Fn(DiskEvent<'_>) + Send + Sync>;

/// What happened on a disk since the start, and how full it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Its directory, which is its name.
    pub directory: PathBuf,
    /// Whether it is used.
    pub in_service: bool,
    /// Bytes that its segments take.
    pub bytes: u64,
    /// Its segments.
    pub segments: u64,
    /// Slices written.
    pub written: u64,
    /// Bytes of those, with what is written about them.
    pub written_bytes: u64,
    /// Slices read and found right.
    pub read: u64,
    /// Slices and segments found damaged.
    pub damaged: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Slices not read because too many waited.
    pub busy: u64,
    /// Slices that came back to memory.
    pub promoted: u64,
    /// Segments that had to go for new ones.
    pub segments_dropped: u64,
    /// Bytes that the scrub has looked at.
    pub scrubbed_bytes: u64,
}

/// What the disks have in common.
pub(crate) struct Common {
    index: DiskIndex,
    in_flight: AtomicU64,
    in_flight_max: u64,
    /// Slices that were not written because too many waited.
    skipped: AtomicU64,
    report: Report,
}

struct Held {
    disk: Arc<Disk>,
    readers: Readers,
    /// Locked for a moment: a channel's sender is not shared.
    jobs: Mutex<Sender<Job>>,
}

/// All disks of the tier.
pub struct Disks {
    common: Arc<Common>,
    disks: Box<[Held]>,
    /// Those that could not be used from the beginning.
    absent: Vec<DiskCounters>,
}

impl Disks {
    /// Whole slices for which the disks have room.
    pub(crate) fn slices_max(&self) -> usize {
        let slices = |held: &Held| held.disk.limits.bytes / u64::from(held.disk.limits.slice_bytes.max(1));
        usize::try_from(self.disks.iter().map(slices).sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Opens the disks, and begins to find out what is on them. One that cannot be used, now or later, is left out, and
    /// `report` is told.
    ///
    /// # Errors
    /// See [`DiskError`].
    pub fn open(disks: &[(PathBuf, DiskLimits)], report: Report) -> Result<Arc<Self>, DiskError> {
        if disks.len() > DISKS_MAX {
            return Err(DiskError::TooMany);
        }
        let common = Arc::new(Common {
            index: DiskIndex::new(disks.len() as u64),
            in_flight: AtomicU64::new(0),
            in_flight_max: disks.iter().map(|(_, limits)| limits.bytes_in_flight).max().unwrap_or(0),
            skipped: AtomicU64::new(0),
            report,
        });
        let (mut held, mut absent) = (Vec::with_capacity(disks.len()), Vec::new());
        for (directory, limits) in disks {
            let number = u32::try_from(held.len()).unwrap_or(u32::MAX);
            match Disk::open(&common, number, directory.clone(), *limits).and_then(Held::start) {
                Ok(started) => held.push(started),
                Err(DiskError::Unusable { source, .. }) => {
                    let reason = source.to_string();
                    (common.report)(DiskEvent::OutOfService { directory, reason: &reason });
                    common.index.has_been_read();
                    absent.push(DiskCounters { directory: directory.clone(), ..DiskCounters::default() });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(Arc::new(Self { common, disks: held.into_boxed_slice(), absent }))
    }

    /// What happened so far, disk by disk.
    pub fn counters(&self) -> Vec<DiskCounters> {
        let held = self.disks.iter().map(|held| held.disk.counters());
        held.chain(self.absent.iter().cloned()).collect()
    }

    /// Slices that are known to be on a disk.
    pub fn slices(&self) -> u64 {
        self.common.index.slices()
    }

    /// Memory that the index of them takes, near enough.
    pub fn index_bytes(&self) -> u64 {
        self.common.index.memory_bytes()
    }

    /// Bytes that wait to be written.
    pub fn bytes_in_flight(&self) -> u64 {
        self.common.in_flight.load(Ordering::Relaxed)
    }

    /// Slices that were not written because too many waited.
    pub fn skipped(&self) -> u64 {
        self.common.skipped.load(Ordering::Relaxed)
    }

    /// Whether all disks have been read: until then some of what is there is not found.
    pub fn are_known(&self) -> bool {
        self.common.index.reading.load(Ordering::Acquire) == 0
    }

    /// Whether a slice of this version is on a disk.
    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.common.index.find(&wanted.key, wanted.object, wanted.slice).is_some()
    }

    /// Whether a slice in memory may be written now.
    pub(crate) fn admits(&self, requests: u8, on_disk: bool, bytes: u32) -> bool {
        let admitted = |bytes_in_flight| {
            let (bytes_in_flight_max, slice) = (self.common.in_flight_max, bytes);
            let known = admission::InMemory { requests, on_disk, bytes_in_flight, bytes_in_flight_max };
            admission::goes_to_disk(known, slice)
        };
        if on_disk || self.disks.iter().all(|held| !held.disk.is_in_service()) {
            return false;
        }
        let now = admitted(self.bytes_in_flight());
        if !now && admitted(0) {
            count(&self.common.skipped, 1);
        }
        now
    }

    /// Has a slice written, some time. False if there is no disk for it.
    pub(crate) fn write(&self, job: SliceJob) -> bool {
        let in_service = self.disks.iter().enumerate().filter(|(_, held)| held.disk.is_in_service());
        let sizes = in_service.map(|(number, held)| (number, held.disk.limits.bytes));
        let (name, _) = job.key.split_first_chunk().expect("a key is longer than eight bytes");
        let Some(number) = admission::choose_disk(u64::from_ne_bytes(*name), sizes) else { return false };
        let bytes = job.bytes();
        self.common.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let sent = self.disks[number].send(Job::Slice(Box::new(job)));
        if !sent {
            self.common.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Versions of an object, all up to `object` among them, are gone, also after a restart.
    /// Whether there may have been any.
    pub(crate) fn forget(&self, key: &Key, object: u64, versions: Versions) -> bool {
        let known = self.common.index.forget(key, object, versions);
        if known {
            for held in self.disks.iter().filter(|held| held.disk.is_in_service()) {
                // One whose thread is gone is not read any more either.
                held.send(Job::Tombstone(*key, object));
            }
        }
        known
    }

    /// The newest version of an object on a disk: its id, its length, and its description.
    pub(crate) async fn recall(&self, key: &Key) -> Option<(u64, u64, Vec<u8>)> {
        let place = self.common.index.anchor(key)?;
        let held = self.disks.get(disk_of(&place))?;
        let (disk, key) = (Arc::clone(&held.disk), *key);
        let job = held.readers.run(move || disk.describe(&key, &place));
        let Some(answer) = job else {
            count(&held.disk.counts.busy, 1);
            return None;
        };
        let (header, description) = answer.await.ok().flatten()?;
        Some((header.object, header.object_length, description))
    }

    /// Nobody understands what is written about an object.
    pub(crate) fn is_unreadable(&self, key: &Key) {
        if let Some(place) = self.common.index.anchor(key) {
            self.common.index.remove(key, place.slice, place.segment, place.offset);
        }
    }

    /// Reads a slice, if a disk has it, and makes sure that it is right. It is in the page cache then.
    pub(crate) async fn read(&self, wanted: Wanted) -> Option<DiskSlice> {
        let place = self.common.index.find(&wanted.key, wanted.object, wanted.slice)?;
        let held = self.disks.get(disk_of(&place))?;
        let disk = Arc::clone(&held.disk);
        let job = held.readers.run(move || disk.read(&wanted, &place, |_| Ok(())));
        let Some(answer) = job else {
            count(&held.disk.counts.busy, 1);
            return None;
        };
        answer.await.ok().flatten()
    }

    /// Has a slice read once more into memory by `take`, and `done` called if all of it was right. False if there is
    /// too much to do.
    pub(crate) fn promote(
        &self,
        wanted: Wanted,
        place: Place,
        take: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
        done: impl FnOnce() + Send + 'static,
    ) -> bool {
        let Some(held) = self.disks.get(disk_of(&place)) else { return false };
        let disk = Arc::clone(&held.disk);
        held.readers.run_if_idle(move || {
            if disk.read(&wanted, &place, take).is_some() {
                count(&disk.counts.promoted, 1);
                done();
            }
        })
    }
}

impl Held {
    fn start(disk: Arc<Disk>) -> Result<Self, DiskError> {
        let directory = disk.directory.clone();
        Self::start_threads(disk).map_err(|source| DiskError::Unusable { directory, source })
    }

    fn start_threads(disk: Arc<Disk>) -> io::Result<Self> {
        let limits = disk.limits;
        let readers = Readers::start(&format!("disk-{}", disk.disk), limits.readers, limits.queued_reads)?;
        let (sender, jobs) = channel();
        let writing = Arc::clone(&disk);
        let name = format!("disk-write-{}", disk.disk);
        thread::Builder::new().name(name).spawn(move || write(&writing, &jobs))?;
        let keeping = Arc::downgrade(&disk);
        let name = format!("disk-scrub-{}", disk.disk);
        thread::Builder::new().name(name).spawn(move || keep::keep(&keeping))?;
        Ok(Self { disk, readers, jobs: Mutex::new(sender) })
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job).is_ok()
    }
}

impl fmt::Debug for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.disks.iter().map(|held| &held.disk)).finish()
    }
}
