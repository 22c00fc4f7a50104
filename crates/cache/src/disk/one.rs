//! One disk: a directory of segments, first in, first out.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use penstock_sys::file::{Extent, OpenFile};
use rustix::fs::{FlockOperation, flock};

use super::format::RecordHeader;
use super::index::Place;
use super::segment::{Segment, Unusable, Writing, number_in};
use super::{Common, DiskCounters, DiskError, DiskEvent, DiskLimits};
use crate::Key;

/// The file in a disk's directory that its one process holds locked.
const LOCK_NAME: &str = "lock";
/// How many bits of a place's segment are its number; those above say which disk.
const NUMBER_BITS: u32 = 28;
/// Disks that places can tell apart.
pub(crate) const DISKS_MAX: usize = 16;

/// A directory of segments.
pub(crate) struct Disk {
    pub(crate) common: Arc<Common>,
    pub(crate) disk: u32,
    pub(crate) directory: PathBuf,
    pub(crate) limits: DiskLimits,
    segments: Mutex<BTreeMap<u32, Arc<Segment>>>,
    /// The number of the first segment that is not of an earlier process.
    pub(crate) begins: u32,
    /// Those whose files are open, the one opened longest ago first.
    opened: Mutex<VecDeque<Weak<Segment>>>,
    lock: File,
    failed: AtomicBool,
    read_errors: AtomicU32,
    pub(crate) counts: Counts,
}

/// What happened on a disk.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) segments_dropped: AtomicU64,
    pub(crate) scrubbed_bytes: AtomicU64,
}

/// Adds to a count.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// A slice on a disk whose bytes have been found right.
pub(crate) struct DiskSlice {
    segment: Weak<Segment>,
    start: u64,
    length: u32,
    pub(crate) place: Place,
    /// Requests since its bytes were looked at.
    pub(crate) requests: std::sync::atomic::AtomicU8,
    pub(crate) promoting: AtomicBool,
}

/// The right to send from a slice on a disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskLease {
    file: Arc<OpenFile>,
    start: u64,
    length: u32,
}

impl DiskSlice {
    /// `None` if it has gone, or would have to be opened.
    pub(crate) fn lease(&self) -> Option<DiskLease> {
        let file = self.segment.upgrade()?.file_if_open()?;
        Some(DiskLease { file, start: self.start, length: self.length })
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }
}

impl DiskLease {
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn extent(&self, range: std::ops::Range<u32>) -> Option<Extent> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        let offset = self.start + u64::from(range.start);
        Extent::new(Arc::clone(&self.file), offset, u64::from(range.end - range.start))
    }
}

/// Which slice of which object somebody wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) object: u64,
    pub(crate) slice: u32,
}

impl Disk {
    /// Opens the directory, which is made if it is missing, and lists what is in it. Nothing of it is read yet.
    pub(crate) fn open(
        common: &Arc<Common>,
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
            common: Arc::clone(common),
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

    pub(crate) fn is_in_service(&self) -> bool {
        !self.failed.load(Ordering::Acquire)
    }

    /// What a place calls a segment of this disk.
    pub(crate) fn code(&self, number: u32) -> u32 {
        self.disk << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
    }

    /// Segments of this disk, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.segments().values().cloned().collect()
    }

    /// The number of the next segment.
    pub(crate) fn next_number(&self) -> u32 {
        let last = self.segments().last_key_value().map_or(0, |(number, _)| number + 1);
        last.max(self.begins)
    }

    pub(crate) fn add(&self, segment: &Arc<Segment>) {
        self.segments().insert(segment.number, Arc::clone(segment));
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments().values().map(|segment| segment.bytes.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn counters(&self) -> DiskCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        DiskCounters {
            directory: self.directory.clone(),
            in_service: self.is_in_service(),
            bytes: self.bytes(),
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

    /// Takes the disk out of service until the next start. Who sends from it may finish.
    pub(crate) fn fail(&self, reason: &str) {
        if self.failed.swap(true, Ordering::AcqRel) {
            return;
        }
        (self.common.report)(DiskEvent::OutOfService { directory: &self.directory, reason });
        let gone = std::mem::take(&mut *self.segments());
        for segment in gone.values() {
            segment.close();
        }
        drop(gone);
        self.common.index.forget_segments(|code| code >> NUMBER_BITS == self.disk);
    }

    /// Whether its directory is still the one that was opened.
    pub(crate) fn is_there(&self) -> bool {
        let (held, named) = (self.lock.metadata(), std::fs::metadata(self.directory.join(LOCK_NAME)));
        matches!((held, named), (Ok(held), Ok(named)) if held.ino() == named.ino() && held.dev() == named.dev())
    }

    /// Deletes the oldest segment. False if there is none but the one that is written.
    pub(crate) fn drop_oldest(&self) -> io::Result<bool> {
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
                    self.common.index.remove(&entry.key, entry.slice, code, entry.place);
                }
            }
            Err(_) => self.common.index.forget_segments(|other| other == code),
        }
        count(&self.counts.segments_dropped, 1);
        oldest.delete()?;
        Ok(true)
    }

    /// A segment cannot be used at all.
    pub(crate) fn lose(&self, segment: &Segment) {
        let lost = self.segments().remove(&segment.number);
        let code = self.code(segment.number);
        self.common.index.forget_segments(|other| other == code);
        if let Some(lost) = lost {
            // If it cannot be deleted, the next start meets it again.
            drop(lost.delete());
        }
    }

    /// A segment to write to, with all its room. Older ones go for it.
    pub(crate) fn new_segment(&self) -> io::Result<Writing> {
        let room = self.limits.segment_bytes;
        while self.bytes().saturating_add(room) > self.limits.bytes && self.drop_oldest()? {}
        loop {
            let number = self.next_number();
            match Writing::begin(&self.directory, number, self.limits.slice_bytes, room) {
                Ok(writing) => {
                    self.add(&writing.segment);
                    return Ok(writing);
                }
                // Somebody else has filled the file system: then we are content with less.
                Err(error) if is_full(&error) => {
                    if !self.drop_oldest()? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What the record at a place says of its object. Blocks.
    pub(crate) fn describe(&self, key: &Key, place: &Place) -> Option<(RecordHeader, Vec<u8>)> {
        let found = self.open_at(place).and_then(|(segment, file)| segment.describe(&file, place.offset));
        match found {
            Ok((header, description)) if header.key == *key => {
                self.read_errors.store(0, Ordering::Relaxed);
                Some((header, description))
            }
            Ok(_) => None,
            Err(why) => {
                self.common.index.remove(key, place.slice, place.segment, place.offset);
                self.note_unusable(&why);
                None
            }
        }
    }

    /// Looks at the bytes of a slice, giving them to `take`. Blocks; afterwards they are in the page cache.
    pub(crate) fn read(
        &self,
        wanted: &Wanted,
        place: &Place,
        take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Option<DiskSlice> {
        match self.try_read(wanted, place, take) {
            Ok(slice) => {
                count(&self.counts.read, 1);
                self.read_errors.store(0, Ordering::Relaxed);
                Some(slice)
            }
            Err(why) => {
                self.common.index.bytes_are_bad(&wanted.key, place);
                self.note_unusable(&why);
                None
            }
        }
    }

    fn try_read(
        &self,
        wanted: &Wanted,
        place: &Place,
        take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<DiskSlice, Unusable> {
        let (segment, file) = self.open_at(place)?;
        let (header, _) = segment.describe(&file, place.offset)?;
        if (header.key, header.object, header.slice) != (wanted.key, wanted.object, wanted.slice) {
            return Err(Unusable::Damaged);
        }
        segment.verify(&file, &header, place.offset, take)?;
        Ok(DiskSlice {
            segment: Arc::downgrade(&segment),
            start: u64::from(place.offset) * super::format::UNIT_BYTES + header.bytes_offset(),
            length: header.length,
            place: *place,
            requests: std::sync::atomic::AtomicU8::new(0),
            promoting: AtomicBool::new(false),
        })
    }

    pub(crate) fn note_unusable(&self, why: &Unusable) {
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

    fn open_at(&self, place: &Place) -> Result<(Arc<Segment>, Arc<OpenFile>), Unusable> {
        let number = place.segment & ((1 << NUMBER_BITS) - 1);
        let segment = self.segments().get(&number).cloned().ok_or(Unusable::Damaged)?;
        match segment.file() {
            Ok((file, false)) => Ok((segment, file)),
            Ok((file, true)) => {
                self.close_others(&segment);
                Ok((segment, file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.lose(&segment);
                Err(Unusable::Damaged)
            }
            Err(error) => Err(Unusable::Io(error)),
        }
    }

    /// Keeps the number of open files within its limit.
    fn close_others(&self, newest: &Arc<Segment>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push_back(Arc::downgrade(newest));
        let too_many = opened.len().saturating_sub(self.limits.open_segments);
        let closing: Vec<_> = opened.drain(..too_many).collect();
        drop(opened);
        for segment in closing.iter().filter_map(Weak::upgrade) {
            segment.close();
        }
    }

    fn segments(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Segment>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which disk a place is on.
pub(crate) fn disk_of(place: &Place) -> usize {
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
