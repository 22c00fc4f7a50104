//! One disk: a directory of segments, first in, first out.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use penstock_metrics::DiskCounters;
use penstock_sys::file::OpenFile;
use penstock_sys::lock::Unpoisoned;
use rustix::fs::{FlockOperation, flock};

use super::format::{RecordHeader, UNIT_BYTES};
use super::index::RecordPlace;
use super::limits::{DiskError, DiskLimits};
use super::segment::{Segment, Unusable, Writing, number_in};
use super::shared::{SharedState, count};
use super::slice::{DiskSlice, SliceName};
use crate::draining;
use crate::event::TierEvent;
use crate::key::Key;
use crate::not_copied::NotCopied;

/// The file that the process of a directory holds locked.
const LOCK_NAME: &str = "lock";
/// Lower bits of a place's segment, with its number; the bits above name the disk.
const NUMBER_BITS: u32 = 28;
/// A directory of segments.
pub(super) struct Disk {
    pub(super) shared: Arc<SharedState>,
    pub(super) disk: u32,
    pub(super) directory: PathBuf,
    pub(super) limits: DiskLimits,
    segments: Mutex<BTreeMap<u32, Arc<Segment>>>,
    /// The first segment that is not of an earlier process.
    pub(super) begins: u32,
    /// Segments with open files, the one opened longest ago first.
    opened: Mutex<VecDeque<Weak<Segment>>>,
    lock: File,
    failed: AtomicBool,
    read_errors: AtomicU32,
    pub(super) counts: Counts,
}

/// Counters of a disk.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) promoted: AtomicU64,
    pub(super) segments_dropped: AtomicU64,
    pub(super) scrubbed_bytes: AtomicU64,
}

impl Disk {
    /// Opens the directory, which is made if it is missing, and lists what is in it. Reads no file yet.
    pub(super) fn open(
        shared: &Arc<SharedState>,
        disk: u32,
        directory: PathBuf,
        limits: DiskLimits,
    ) -> Result<Arc<Self>, DiskError> {
        let unusable = |source| DiskError::Unusable { directory: directory.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(unusable)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(directory.join(LOCK_NAME)).map_err(unusable)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| DiskError::InUse(directory.clone()))?;
        let mut segments = BTreeMap::new();
        for file in std::fs::read_dir(&directory).map_err(unusable)? {
            let file = file.map_err(unusable)?;
            if let Some(number) = file.file_name().to_str().and_then(number_in) {
                let bytes = file.metadata().map_err(unusable)?.len();
                segments.insert(number, Segment::new(&directory, number, bytes));
            }
        }
        Ok(Arc::new(Self {
            shared: Arc::clone(shared),
            disk,
            directory,
            limits,
            begins: segments.last_key_value().map_or(0, |(number, _)| number + 1),
            segments: Mutex::new(segments),
            opened: Mutex::default(),
            lock,
            failed: AtomicBool::new(false),
            read_errors: AtomicU32::new(0),
            counts: Counts::default(),
        }))
    }

    /// Whether a process has locked the directory.
    pub(super) fn is_locked(directory: &Path) -> bool {
        draining::is_locked(&directory.join(LOCK_NAME))
    }

    pub(super) fn is_in_service(&self) -> bool {
        !self.failed.load(Ordering::Acquire)
    }

    /// The name of a segment in places.
    pub(super) fn code(&self, number: u32) -> u32 {
        self.disk << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
    }

    /// Segments of this disk, the oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.segments().values().cloned().collect()
    }

    /// The number of the next segment.
    pub(super) fn next_number(&self) -> u32 {
        let last = self.segments().last_key_value().map_or(0, |(number, _)| number + 1);
        last.max(self.begins)
    }

    pub(super) fn add(&self, segment: &Arc<Segment>) {
        self.segments().insert(segment.number, Arc::clone(segment));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments().values().map(|segment| segment.bytes.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn counters(&self) -> DiskCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        DiskCounters {
            directory: self.directory.clone(),
            in_service: self.is_in_service(),
            bytes: self.bytes(),
            bytes_max: self.limits.bytes,
            segments: self.segments().len() as u64,
            written: load(&counts.written),
            written_bytes: load(&counts.written_bytes),
            read: load(&counts.read),
            damaged: load(&counts.damaged),
            errors: load(&counts.errors),
            busy: load(&counts.busy),
            promoted: load(&counts.promoted),
            segments_dropped: load(&counts.segments_dropped),
            scrubbed_bytes: load(&counts.scrubbed_bytes),
        }
    }

    /// Takes the disk out of service until the next start. Readers may finish.
    pub(super) fn fail(&self, reason: &str) {
        if self.failed.swap(true, Ordering::AcqRel) {
            return;
        }
        (self.shared.report)(TierEvent::OutOfService { directory: &self.directory, reason });
        let gone = std::mem::take(&mut *self.segments());
        for segment in gone.values() {
            segment.close();
        }
        drop(gone);
        self.shared.index.forget_segments(|code| code >> NUMBER_BITS == self.disk);
    }

    /// Whether the directory is still the one that was opened.
    pub(super) fn is_there(&self) -> bool {
        let (held, named) = (self.lock.metadata(), std::fs::metadata(self.directory.join(LOCK_NAME)));
        matches!((held, named), (Ok(held), Ok(named)) if held.ino() == named.ino() && held.dev() == named.dev())
    }

    /// Deletes the oldest segment. False if there is none but the one that is being written.
    pub(super) fn drop_oldest(&self) -> io::Result<bool> {
        let oldest = {
            let mut segments = self.segments();
            if segments.len() <= 1 {
                return Ok(false);
            }
            segments.pop_first()
        };
        let Some((number, oldest)) = oldest else { return Ok(false) };
        let code = self.code(number);
        match oldest.entries(self.limits.slice_bytes) {
            Ok((entries, _)) => {
                for entry in entries {
                    self.shared.index.remove(&entry.key, entry.slice, code, entry.place);
                }
            }
            Err(_) => self.shared.index.forget_segments(|other| other == code),
        }
        count(&self.counts.segments_dropped, 1);
        oldest.delete()?;
        Ok(true)
    }

    /// Deletes a segment that is unusable.
    pub(super) fn discard(&self, segment: &Segment) {
        let lost = self.segments().remove(&segment.number);
        let code = self.code(segment.number);
        self.shared.index.forget_segments(|other| other == code);
        if let Some(lost) = lost {
            // If it cannot be deleted, the next start finds it again.
            drop(lost.delete());
        }
    }

    /// Makes a segment, with all its space allocated. Drops older ones for it.
    pub(super) fn new_segment(&self) -> io::Result<Writing> {
        let space = self.limits.segment_bytes;
        while self.bytes().saturating_add(space) > self.limits.bytes && self.drop_oldest()? {}
        loop {
            let number = self.next_number();
            match Writing::begin(&self.directory, number, self.limits.slice_bytes, space) {
                Ok(writing) => {
                    self.add(&writing.segment);
                    return Ok(writing);
                }
                // Other files have filled the file system: the tier makes do with less.
                Err(error) if is_full(&error) => {
                    if !self.drop_oldest()? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The header and metadata of the record at a place. Blocks.
    pub(super) fn describe(&self, key: &Key, place: &RecordPlace) -> Option<(RecordHeader, Vec<u8>)> {
        let found = self.open_at(place).and_then(|(segment, file)| segment.describe(&file, place.offset));
        match found {
            Ok((header, metadata)) if header.key == *key => {
                self.read_errors.store(0, Ordering::Relaxed);
                Some((header, metadata))
            }
            Ok(_) => None,
            Err(why) => {
                self.shared.index.remove(key, place.slice, place.segment, place.offset);
                self.note_unusable(&why);
                None
            }
        }
    }

    /// Reads and checks a slice. Blocks; afterwards its bytes are in the page cache.
    pub(super) fn check(&self, wanted: &SliceName, place: &RecordPlace) -> Option<DiskSlice> {
        self.read(wanted, place, |_| Ok::<_, Infallible>(()))
    }

    /// Reads and checks a slice, passing its bytes to `take`, whose error says nothing about the disk. Blocks.
    pub(super) fn read<T>(
        &self,
        wanted: &SliceName,
        place: &RecordPlace,
        take: impl FnMut(&[u8]) -> Result<(), T>,
    ) -> Option<DiskSlice> {
        match self.try_read(wanted, place, take) {
            Ok(slice) => {
                count(&self.counts.read, 1);
                self.read_errors.store(0, Ordering::Relaxed);
                Some(slice)
            }
            Err(NotCopied::Source(why)) => {
                self.shared.index.mark_bytes_bad(&wanted.key, place);
                self.note_unusable(&why);
                None
            }
            Err(NotCopied::Target(_)) => None,
        }
    }

    fn try_read<T>(
        &self,
        wanted: &SliceName,
        place: &RecordPlace,
        take: impl FnMut(&[u8]) -> Result<(), T>,
    ) -> Result<DiskSlice, NotCopied<Unusable, T>> {
        let (segment, file) = self.open_at(place).map_err(NotCopied::Source)?;
        let (header, _) = segment.describe(&file, place.offset).map_err(NotCopied::Source)?;
        if (header.key, header.object, header.slice) != (wanted.key, wanted.object, wanted.slice) {
            return Err(NotCopied::Source(Unusable::Damaged));
        }
        segment.verify(&file, &header, place.offset, take)?;
        Ok(DiskSlice {
            segment: Arc::downgrade(&segment),
            start: u64::from(place.offset) * UNIT_BYTES + header.bytes_offset(),
            length: header.length,
            place: *place,
            requests: AtomicU8::new(0),
            promoting: AtomicBool::new(false),
        })
    }

    pub(super) fn note_unusable(&self, why: &Unusable) {
        match why {
            Unusable::Damaged => count(&self.counts.damaged, 1),
            Unusable::Io(error) => {
                count(&self.counts.errors, 1);
                let errors = self.read_errors.fetch_add(1, Ordering::Relaxed) + 1;
                if errors >= self.limits.read_errors {
                    self.fail(&format!("cannot read: {error}"));
                }
            }
        }
    }

    fn open_at(&self, place: &RecordPlace) -> Result<(Arc<Segment>, Arc<OpenFile>), Unusable> {
        let number = place.segment & ((1 << NUMBER_BITS) - 1);
        let segment = self.segments().get(&number).cloned().ok_or(Unusable::Damaged)?;
        match segment.file() {
            Ok((file, false)) => Ok((segment, file)),
            Ok((file, true)) => {
                self.close_others(&segment);
                Ok((segment, file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.discard(&segment);
                Err(Unusable::Damaged)
            }
            Err(error) => Err(Unusable::Io(error)),
        }
    }

    /// Closes files over the limit.
    fn close_others(&self, newest: &Arc<Segment>) {
        let mut opened = self.opened.lock().unpoisoned();
        opened.push_back(Arc::downgrade(newest));
        let too_many = opened.len().saturating_sub(self.limits.open_segments);
        let closing: Vec<_> = opened.drain(..too_many).collect();
        drop(opened);
        for segment in closing.iter().filter_map(Weak::upgrade) {
            segment.close();
        }
    }

    fn segments(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Segment>>> {
        self.segments.lock().unpoisoned()
    }
}

/// The disk of a place.
pub(super) fn disk_of(place: &RecordPlace) -> usize {
    (place.segment >> NUMBER_BITS) as usize
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("directory", &self.directory).finish_non_exhaustive()
    }
}
