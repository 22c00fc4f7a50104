//! The writer thread of each disk.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use super::device::Disk;
use super::format::{RecordHeader, TOMBSTONE};
use super::index::{Arrival, RecordPlace, Versions};
use super::segment::Writing;
use super::shared::count;
use crate::key::Key;
use crate::memory::{Holder, Slot, remedy};
use crate::not_copied::NotCopied;

/// One thing to write.
pub(super) enum Job {
    /// A slice that is in memory.
    Slice(Box<SliceJob>),
    /// All versions of an object up to this one were removed.
    Tombstone(Key, u64),
}

/// A slice in memory to be copied to a disk.
pub(crate) struct SliceJob {
    pub(crate) key: Key,
    pub(crate) object: u64,
    pub(crate) object_length: u64,
    pub(crate) slice: u32,
    pub(crate) metadata: Vec<u8>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) owner: Weak<dyn Holder>,
}

impl SliceJob {
    /// Bytes that wait with it.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.slot.written()) + self.metadata.len() as u64
    }

    /// Whether requests may still find the object.
    fn is_wanted(&self) -> bool {
        self.owner.upgrade().is_some_and(|owner| owner.is_kept())
    }
}

/// Writes until the queue is closed.
pub(super) fn run(disk: &Disk, jobs: &Receiver<Job>) {
    let mut writer = Writer { disk, writing: None };
    for job in jobs {
        let written = match &job {
            _ if !disk.is_in_service() => Ok(()),
            Job::Slice(slice) => writer.slice(slice),
            Job::Tombstone(key, object) => writer.tombstone(key, *object),
        };
        if let Job::Slice(slice) = &job {
            disk.shared.in_flight.fetch_sub(slice.bytes(), Ordering::Relaxed);
        }
        if let Err(error) = written {
            count(&disk.counts.errors, 1);
            disk.fail(&format!("cannot write: {error}{}", remedy(&error)));
            writer.writing = None;
        }
    }
}

struct Writer<'d> {
    disk: &'d Disk,
    writing: Option<Writing>,
}

impl Writer<'_> {
    fn slice(&mut self, job: &SliceJob) -> io::Result<()> {
        if !job.is_wanted() {
            return Ok(());
        }
        let header = RecordHeader {
            key: job.key,
            object: job.object,
            object_length: job.object_length,
            slice: job.slice,
            length: job.slot.written(),
            checksum: job.slot.checksum(),
            metadata: u32::try_from(job.metadata.len()).unwrap_or(u32::MAX),
            description_checksum: crc32fast::hash(&job.metadata),
        };
        let writing = self.with_space(header.record_bytes())?;
        let placed = writing.append(&header, &job.metadata, |put| match job.slot.copy_to(put) {
            Ok(checksum) if checksum == header.checksum => Ok(()),
            Ok(_) | Err(NotCopied::Source(_)) => Err(NotCopied::Source(())),
            Err(NotCopied::Target(error)) => Err(NotCopied::Target(error)),
        });
        let offset = match placed {
            Ok(offset) => offset,
            // The bytes in memory have changed or cannot be read, which is no fault of the disk.
            Err(NotCopied::Source(())) => {
                job.slot.mark_on_disk(false);
                job.slot.distrust();
                return Ok(());
            }
            Err(NotCopied::Target(error)) => return Err(error),
        };
        let number = writing.segment.number;
        let (disk, index) = (self.disk, &self.disk.shared.index);
        let place = RecordPlace::new(disk.code(number), offset, job.slice, job.object);
        index.insert(&job.key, job.object, place, Arrival::Written);
        // The object may have been withdrawn meanwhile; then its entry is removed here.
        if !job.is_wanted() && index.forget(&job.key, job.object, Versions::Only(job.object)) {
            self.tombstone(&job.key, job.object)?;
        }
        count(&disk.counts.written, 1);
        count(&disk.counts.written_bytes, header.record_bytes());
        Ok(())
    }

    fn tombstone(&mut self, key: &Key, object: u64) -> io::Result<()> {
        let header = RecordHeader {
            key: *key,
            object,
            slice: TOMBSTONE,
            description_checksum: crc32fast::hash(&[]),
            ..RecordHeader::default()
        };
        let writing = self.with_space(header.record_bytes())?;
        match writing.append(&header, &[], |_| Ok::<_, NotCopied<Infallible, _>>(())) {
            Err(NotCopied::Target(error)) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    fn with_space(&mut self, record_bytes: u64) -> io::Result<&mut Writing> {
        if let Some(full) = self.writing.take_if(|writing| !writing.fits(record_bytes)) {
            full.finish()?;
        }
        match &mut self.writing {
            Some(writing) => Ok(writing),
            none => Ok(none.insert(self.disk.new_segment()?)),
        }
    }
}
