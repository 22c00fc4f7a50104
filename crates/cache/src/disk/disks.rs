//! All disks of the tier.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use penstock_metrics::DiskCounters;
use penstock_sys::lock::Unpoisoned;

use super::admission;
use super::device::{Disk, disk_of};
use super::index::{DiskIndex, RecordPlace, Versions};
use super::limits::{DISKS_MAX, DiskError, DiskLimits};
use super::maintenance;
use super::shared::{SharedState, count};
use super::slice::{DiskSlice, SliceName};
use super::threads::Readers;
use super::writer::{self, Job, SliceJob};
use crate::budget::Budget;
use crate::event::{Report, TierEvent};
use crate::key::{Key, short_name};
use crate::memory::remedy;

/// A disk with its threads.
struct Running {
    disk: Arc<Disk>,
    readers: Readers,
    /// The queue of the writer thread.
    jobs: Mutex<Sender<Job>>,
}

/// All disks of the tier.
pub struct Disks {
    shared: Arc<SharedState>,
    disks: Box<[Running]>,
    /// Disks that could not be opened.
    absent: Vec<DiskCounters>,
}

impl Disks {
    /// How many whole slices fit on the disks.
    pub(crate) fn slices_max(&self) -> usize {
        let slices =
            |running: &Running| running.disk.limits.bytes / u64::from(running.disk.limits.slice_bytes.max(1));
        usize::try_from(self.disks.iter().map(slices).sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Opens the disks and starts to scan them. Their index takes at most three quarters of `budget`. A disk that cannot be used, now or later, is left out, and `report` is
    /// called.
    ///
    /// # Errors
    /// See [`DiskError`].
    pub fn open(
        disks: &[(PathBuf, DiskLimits)],
        budget: &Arc<Budget>,
        report: Report,
    ) -> Result<Arc<Self>, DiskError> {
        if disks.len() > DISKS_MAX {
            return Err(DiskError::TooMany);
        }
        let shared = Arc::new(SharedState {
            index: DiskIndex::new(disks.len() as u64, Arc::clone(budget)),
            in_flight: AtomicU64::new(0),
            in_flight_max: disks.iter().map(|(_, limits)| limits.bytes_in_flight).max().unwrap_or(0),
            skipped: AtomicU64::new(0),
            newest_object: AtomicU64::new(0),
            report,
        });
        let (mut running, mut absent) = (Vec::with_capacity(disks.len()), Vec::new());
        for (directory, limits) in disks {
            let number = u32::try_from(running.len()).unwrap_or(u32::MAX);
            match Disk::open(&shared, number, directory.clone(), *limits).and_then(Running::start) {
                Ok(started) => running.push(started),
                Err(DiskError::Unusable { source, .. }) => {
                    let reason = format!("{source}{}", remedy(&source));
                    (shared.report)(TierEvent::OutOfService { directory, reason: &reason });
                    shared.index.finish_scan();
                    absent.push(DiskCounters { directory: directory.clone(), ..DiskCounters::default() });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(Arc::new(Self { shared, disks: running.into_boxed_slice(), absent }))
    }

    /// Whether a process has locked the disk in `directory`.
    pub(crate) fn is_locked(directory: &Path) -> bool {
        Disk::is_locked(directory)
    }

    /// Takes the disk with this file out of service. False if the file is on none that is in service.
    pub(crate) fn take_out_of_service(&self, file: &Path, reason: &str) -> bool {
        let is_there = |running: &&Running| {
            running.disk.is_in_service() && file.parent() == Some(running.disk.directory.as_path())
        };
        let Some(running) = self.disks.iter().find(is_there) else { return false };
        running.disk.fail(reason);
        true
    }

    /// Counters of each disk.
    pub fn counters(&self) -> Vec<DiskCounters> {
        let running = self.disks.iter().map(|running| running.disk.counters());
        running.chain(self.absent.iter().cloned()).collect()
    }

    /// Slices in the index.
    pub fn slices(&self) -> u64 {
        self.shared.index.slices()
    }

    /// Memory that the index takes, about.
    pub fn index_bytes(&self) -> u64 {
        self.shared.index.memory_bytes()
    }

    /// Bytes that wait to be written.
    pub fn bytes_in_flight(&self) -> u64 {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Slices that were not written when they had earned it, because too many waited. Each counts once.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// The greatest id of an object that was found on a disk so far. A clock that was set back gives smaller ones.
    pub(crate) fn newest_object(&self) -> u64 {
        self.shared.newest_object.load(Ordering::Relaxed)
    }

    /// Whether all disks have been scanned: until then some of their slices are not found.
    pub fn are_scanned(&self) -> bool {
        self.shared.index.scanning.load(Ordering::Acquire) == 0
    }

    /// Whether a slice of this version is on a disk.
    pub(crate) fn has(&self, wanted: &SliceName) -> bool {
        self.shared.index.find(&wanted.key, wanted.object, wanted.slice).is_some()
    }

    /// Whether a slice in memory is to be written now. If too many wait, and `is_first_skip` says that it has not been left out
    /// before, it is counted.
    pub(crate) fn admits(
        &self,
        (requests, on_disk): (u8, bool),
        bytes: u32,
        is_first_skip: impl FnOnce() -> bool,
    ) -> bool {
        let admitted = |bytes_in_flight| {
            let (bytes_in_flight_max, slice) = (self.shared.in_flight_max, bytes);
            let known = admission::InMemory { requests, on_disk, bytes_in_flight, bytes_in_flight_max };
            admission::is_written(known, slice)
        };
        if on_disk || self.disks.iter().all(|running| !running.disk.is_in_service()) {
            return false;
        }
        let now = admitted(self.bytes_in_flight());
        if !now && admitted(0) && is_first_skip() {
            count(&self.shared.skipped, 1);
        }
        now
    }

    /// Queues a slice to be written. False if no disk is in service.
    pub(crate) fn write(&self, job: SliceJob) -> bool {
        let in_service = self.disks.iter().enumerate().filter(|(_, running)| running.disk.is_in_service());
        let sizes = in_service.map(|(number, running)| (number, running.disk.limits.bytes));
        let Some(number) = admission::choose_disk(short_name(&job.key), sizes) else { return false };
        let bytes = job.bytes();
        self.shared.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let sent = self.disks[number].send(Job::Slice(Box::new(job)));
        if !sent {
            self.shared.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Removes `versions` of an object, for later processes up to `object`. Returns whether there may have been any.
    pub(crate) fn forget(&self, key: &Key, object: u64, versions: Versions) -> bool {
        // Entries that are still to be found may have greater ids, if the clock was set back.
        let is_unbounded = versions == Versions::All && !self.are_scanned();
        let object = if is_unbounded { u64::MAX } else { object };
        let known = self.shared.index.forget(key, object, versions);
        if known {
            for running in self.disks.iter().filter(|running| running.disk.is_in_service()) {
                // A disk whose writer has ended is out of service.
                running.send(Job::Tombstone(*key, object));
            }
        }
        known
    }

    /// The newest version of an object on a disk: its id, its length, and its metadata.
    pub(crate) async fn restore(&self, key: &Key) -> Option<(u64, u64, Vec<u8>)> {
        let place = self.shared.index.anchor(key)?;
        let running = self.disks.get(disk_of(&place))?;
        let (disk, key) = (Arc::clone(&running.disk), *key);
        let job = running.readers.run(move || disk.describe(&key, &place));
        let Some(answer) = job else {
            count(&running.disk.counts.busy, 1);
            return None;
        };
        let (header, metadata) = answer.await.ok().flatten()?;
        Some((header.object, header.object_length, metadata))
    }

    /// Removes the entry of an object whose metadata cannot be decoded.
    pub(crate) fn remove_undecodable(&self, key: &Key) {
        if let Some(place) = self.shared.index.anchor(key) {
            self.shared.index.remove(key, place.slice, place.segment, place.offset);
        }
    }

    /// Reads a slice, if a disk has it, and checks it. Its bytes are in the page cache then.
    pub(crate) async fn read(&self, wanted: SliceName) -> Option<DiskSlice> {
        let place = self.shared.index.find(&wanted.key, wanted.object, wanted.slice)?;
        let running = self.disks.get(disk_of(&place))?;
        let disk = Arc::clone(&running.disk);
        let job = running.readers.run(move || disk.check(&wanted, &place));
        let Some(answer) = job else {
            count(&running.disk.counts.busy, 1);
            return None;
        };
        answer.await.ok().flatten()
    }

    /// Queues a slice to be read by `take` into memory; then calls `done`, with whether all of it was taken and its checksum
    /// was right. False if the queue is too long.
    pub(crate) fn promote<T>(
        &self,
        wanted: SliceName,
        place: RecordPlace,
        take: impl FnMut(&[u8]) -> Result<(), T> + Send + 'static,
        done: impl FnOnce(bool) + Send + 'static,
    ) -> bool {
        let Some(running) = self.disks.get(disk_of(&place)) else { return false };
        let disk = Arc::clone(&running.disk);
        running.readers.run_if_idle(move || {
            let is_complete = disk.read(&wanted, &place, take).is_some();
            count(&disk.counts.promoted, u64::from(is_complete));
            done(is_complete);
        })
    }
}

impl Running {
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
        thread::Builder::new().name(name).spawn(move || writer::run(&writing, &jobs))?;
        let maintained = Arc::downgrade(&disk);
        let name = format!("disk-scrub-{}", disk.disk);
        thread::Builder::new().name(name).spawn(move || maintenance::run(&maintained))?;
        Ok(Self { disk, readers, jobs: Mutex::new(sender) })
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.lock().unpoisoned().send(job).is_ok()
    }
}

impl fmt::Debug for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.disks.iter().map(|running| &running.disk)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_slice_that_the_disks_have_no_time_for_counts_once_however_often_it_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let limits = DiskLimits {
            bytes: 1 << 20,
            segment_bytes: 1 << 18,
            slice_bytes: 1 << 16,
            readers: 1,
            queued_reads: 1,
            bytes_in_flight: 1 << 17,
            open_segments: 2,
            scrub_bytes_per_second: 0,
            read_errors: 3,
        };
        let opened = [(directory.path().to_owned(), limits)];
        let disks =
            Disks::open(&opened, &Arc::new(Budget::new(1 << 20)), Arc::new(|_: TierEvent<'_>| {})).unwrap();
        let ask = |requests, skipped: &Cell<bool>| {
            disks.admits((requests, false), 1 << 16, || !skipped.replace(true))
        };
        let (hot, other) = (Cell::new(false), Cell::new(false));
        assert!(ask(2, &hot));
        disks.shared.in_flight.store(1 << 17, Ordering::Relaxed);
        assert!(!ask(1, &hot));
        assert_eq!(disks.skipped(), 0, "it has not earned its place yet");
        (2..100).for_each(|requests| assert!(!ask(requests, &hot)));
        assert_eq!(disks.skipped(), 1);
        assert!(!ask(2, &other));
        assert_eq!(disks.skipped(), 2);
        disks.shared.in_flight.store(0, Ordering::Relaxed);
        assert!(ask(100, &hot), "and is written once there is time");
    }
}
