//! The place of one slice in the tier's file, and of the metadata of its object behind it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use penstock_sys::file::Extent;

use super::demand::Demand;
use super::holder::{ExpectedBytes, Holder};
use super::limits::DESCRIPTION_BYTES_MAX;
use super::record::SlotRecord;
use super::slice_file::WriteError;
use super::slots::Class;
use super::tier::{MemoryTier, Owner};
use crate::key::{Key, short_name};
use crate::not_copied::NotCopied;

/// The place of one slice. Its bytes do not change while it is held.
pub(crate) struct Slot {
    tier: Arc<MemoryTier>,
    number: u32,
    written: AtomicU32,
    checksum: AtomicU32,
    /// The tier's epoch when the bytes were written or last compared with their checksum.
    epoch: AtomicU8,
    /// Requests so far, up to [`REQUESTS_MAX`].
    requests: AtomicU8,
    /// [`RECORDED`], [`ON_DISK`], [`COPY`] and [`SKIPPED`].
    flags: AtomicU8,
}

/// The next process finds a record of it.
const RECORDED: u8 = 1;
/// A disk has the slice too, or is about to.
const ON_DISK: u8 = 2;
/// Another node keeps the slice.
const COPY: u8 = 4;
/// The disks had no time for the slice when it had earned its place there.
const SKIPPED: u8 = 8;

/// Requests that are counted. After so many the slice is looked up on the disks once more: a popular slice is never read
/// from there, and the segment that it was written to becomes the oldest one day.
const REQUESTS_MAX: u8 = 200;
/// Bytes read at a time.
const STEP_BYTES: usize = 256 * 1024;
/// Expected length of the metadata of an object whose slot is chosen before that is known.
const DESCRIPTION_BYTES: u64 = 768;

/// The record of a slot, and the metadata of its object.
pub(crate) struct Note<'n> {
    pub(crate) record: SlotRecord,
    pub(crate) metadata: &'n [u8],
}

impl Slot {
    /// A slot for `bytes` of one slice; others are evicted for it. `None` if even that does not help.
    pub(crate) fn reserve(tier: &Arc<MemoryTier>, bytes: u32) -> Option<Arc<Self>> {
        let number = tier.take_slot(bytes, description_offset(bytes) + DESCRIPTION_BYTES)?;
        Some(Arc::new(Self::new(tier, number)))
    }

    fn new(tier: &Arc<MemoryTier>, number: u32) -> Self {
        Self {
            tier: Arc::clone(tier),
            number,
            written: AtomicU32::new(0),
            checksum: AtomicU32::new(0),
            epoch: AtomicU8::new(tier.epoch()),
            requests: AtomicU8::new(0),
            flags: AtomicU8::new(0),
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets or removes a flag; returns whether it was set.
    fn set(&self, flag: u8, on: bool) -> bool {
        let before = match on {
            true => self.flags.fetch_or(flag, Ordering::Relaxed),
            false => self.flags.fetch_and(!flag, Ordering::Relaxed),
        };
        before & flag != 0
    }

    /// Whether a disk has the slice too, or is about to.
    pub(crate) fn has_disk_copy(&self) -> bool {
        self.has(ON_DISK)
    }

    /// Sets [`Self::has_disk_copy`]; returns what it was.
    pub(crate) fn mark_on_disk(&self, on: bool) -> bool {
        self.set(ON_DISK, on)
    }

    /// Notes that the disks had no time for the slice; true for the first time.
    pub(crate) fn skip_disk(&self) -> bool {
        !self.set(SKIPPED, true)
    }

    /// Whether another node keeps the slice.
    pub(crate) fn is_copy(&self) -> bool {
        self.has(COPY)
    }

    /// Notes that another node keeps the slice.
    pub(crate) fn make_copy(&self) {
        self.set(COPY, true);
    }

    /// A slot as an earlier process left it. Its bytes are compared with their checksum before they are used.
    pub(super) fn restored(tier: &Arc<MemoryTier>, number: u32, record: &SlotRecord) -> Arc<Self> {
        tier.set_bytes(number, description_offset(record.length) + u64::from(record.metadata));
        let slot = Self::new(tier, number);
        slot.written.store(record.length, Ordering::Relaxed);
        slot.checksum.store(record.checksum, Ordering::Relaxed);
        slot.epoch.store(0, Ordering::Relaxed);
        slot.set(RECORDED, true);
        slot.set(COPY, record.is_copy);
        // It was requested in the process before.
        slot.requests.store(1, Ordering::Relaxed);
        Arc::new(slot)
    }

    /// Appends as many bytes as fit. Only the one fill of the slice calls this.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let epoch = self.trusted_epoch().ok_or(WriteError::Lost)?;
        let written = self.written.load(Ordering::Relaxed);
        let slice_end = u64::from(self.tier.slice_bytes()).min(self.tier.space(self.number));
        let space = usize::try_from(slice_end.saturating_sub(written.into())).unwrap_or(0);
        let bytes = &bytes[..bytes.len().min(space)];
        self.tier.write(epoch, bytes, self.start() + u64::from(written))?;
        // Computed now, while the bytes are in the processor's cache.
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum.load(Ordering::Relaxed));
        hasher.update(bytes);
        self.checksum.store(hasher.finalize(), Ordering::Relaxed);
        let total = written + u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.written.store(total, Ordering::Release);
        Ok(bytes.len())
    }

    /// Gives back what was reserved and not written.
    pub(crate) fn settle(&self) {
        self.tier.set_bytes(self.number, self.written().into());
    }

    /// This slot, or a copy in a slot of the size that the slice needs with metadata of so many bytes. An object
    /// whose length was unknown fills a whole slot, and there are far fewer of those than of small ones.
    pub(crate) fn fitted(self: &Arc<Self>, metadata: usize) -> Arc<Self> {
        let space = description_offset(self.written()) + metadata as u64;
        if !self.tier.is_misplaced(self.number, space) {
            return Arc::clone(self);
        }
        self.copy_to_slot(space).unwrap_or_else(|| Arc::clone(self))
    }

    fn copy_to_slot(&self, space: u64) -> Option<Arc<Self>> {
        let copy = Self::new(&self.tier, self.tier.take_slot(self.written(), space)?);
        let copied = self.copy_to(&mut |bytes| match copy.append(bytes)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(WriteError::Full),
        });
        let is_right = copied.is_ok_and(|checksum| checksum == self.checksum());
        copy.requests.store(self.requests(), Ordering::Relaxed);
        copy.set(COPY, self.is_copy());
        is_right.then(|| Arc::new(copy))
    }

    /// Records the slice for the next process. Without space for the metadata there is no record, and the slice ends
    /// with this process.
    pub(crate) fn record(&self, note: &Note<'_>) {
        let (length, metadata) = (self.written(), note.metadata);
        let at = description_offset(length);
        let needed = at + metadata.len() as u64;
        let owner = self.tier.owner();
        if *owner != Owner::This {
            return;
        }
        if metadata.len() > DESCRIPTION_BYTES_MAX || needed > self.tier.space(self.number) {
            // an earlier record would have older metadata.
            self.clear_own_record();
            return;
        }
        self.tier.set_bytes(self.number, needed);
        let record = SlotRecord {
            length,
            checksum: self.checksum(),
            metadata: u32::try_from(metadata.len()).unwrap_or(u32::MAX),
            description_checksum: crc32fast::hash(metadata),
            ..note.record
        };
        // The record last: it must not refer to metadata that is missing.
        if self.tier.write_if_space(metadata, self.start() + at).is_ok() {
            self.set(RECORDED, true);
            self.tier.write_record(self.number, &record);
        }
    }

    /// Removes the record: the next process must not find the slice.
    pub(crate) fn clear_record(&self) {
        if *self.tier.owner() == Owner::This {
            self.clear_own_record();
        }
    }

    /// The same, while the tier is known to belong to this process.
    fn clear_own_record(&self) {
        if self.set(RECORDED, false) {
            self.tier.clear_record(self.number);
        }
    }

    /// The metadata that an earlier process persisted; `None` if it is damaged.
    pub(crate) fn metadata(&self, record: &SlotRecord) -> Option<Vec<u8>> {
        let length = (record.metadata as usize).min(DESCRIPTION_BYTES_MAX);
        let mut bytes = vec![0; length];
        self.tier.read(&mut bytes, self.start() + description_offset(record.length)).ok()?;
        (crc32fast::hash(&bytes) == record.description_checksum).then_some(bytes)
    }

    pub(crate) fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Checksum of the written bytes.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum.load(Ordering::Relaxed)
    }

    /// The expected bytes.
    pub(crate) fn expected(&self) -> ExpectedBytes {
        ExpectedBytes { length: self.written(), checksum: self.checksum() }
    }

    /// Whether the bytes are as they were written, as far as is known.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted_epoch().is_some()
    }

    /// The epoch in whose file the bytes are as they were written, as far as is known.
    fn trusted_epoch(&self) -> Option<u8> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        (epoch != 0 && epoch == self.tier.epoch()).then_some(epoch)
    }

    /// Has the bytes compared with their checksum before they are used again: sending them has failed.
    pub(crate) fn distrust(&self) {
        self.epoch.store(0, Ordering::Relaxed);
        self.tier.recover();
    }

    /// Compares the bytes with their checksum, and trusts them if they are right. Counts them if they are not.
    pub(crate) fn verify(&self) -> bool {
        if !self.tier.is_in_service() {
            return false;
        }
        let epoch = self.tier.epoch();
        let is_right = self.tier.is_as_expected(epoch, self.number, self.expected());
        if is_right {
            self.epoch.store(epoch, Ordering::Relaxed);
        } else {
            self.tier.count_damaged();
        }
        is_right
    }

    /// The place of these bytes of the slice; `None` if they are not written, or may have been lost.
    pub(crate) fn extent(&self, range: Range<u32>) -> Option<Extent> {
        if range.start > range.end || range.end > self.written() {
            return None;
        }
        // The file of that epoch: one that has replaced it meanwhile does not have the bytes.
        let file = self.tier.file(self.trusted_epoch()?)?;
        let offset = self.start() + u64::from(range.start);
        Extent::new(file, offset, u64::from(range.end - range.start))
    }

    /// How much others need the memory of the slice.
    pub(crate) fn demand(&self) -> Demand {
        self.tier.demand(self.number)
    }

    /// Counts a request. The first is the one that the slice was fetched for, and no sign of popularity.
    pub(crate) fn count_request(&self) {
        let before = self.requests.load(Ordering::Relaxed);
        if before > 0 {
            self.tier.count_use(self.number);
        }
        let mut now = before.saturating_add(1);
        if now > REQUESTS_MAX {
            self.mark_on_disk(false);
            now = 2;
        }
        // Two at the same time may count as one.
        self.requests.store(now, Ordering::Relaxed);
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u8 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Passes all bytes to `put`, piece by piece, and returns their checksum.
    ///
    /// # Errors
    /// The error of the memory tier, or that of `put`.
    pub(crate) fn copy_to<T>(
        &self,
        put: &mut dyn FnMut(&[u8]) -> Result<(), T>,
    ) -> Result<u32, NotCopied<io::Error, T>> {
        let length = self.written() as usize;
        let mut buffer = vec![0; STEP_BYTES.min(length)];
        let mut hasher = crc32fast::Hasher::new();
        let mut done = 0;
        while done < length {
            let piece = buffer.len().min(length - done);
            let read = self.tier.read(&mut buffer[..piece], self.start() + done as u64);
            read.map_err(NotCopied::Source)?;
            hasher.update(&buffer[..piece]);
            put(&buffer[..piece]).map_err(NotCopied::Target)?;
            done += piece;
        }
        Ok(hasher.finalize())
    }

    /// Keeps the slice in its tier until it is evicted. Returns whether it was evicted before, as far as is remembered.
    pub(crate) fn keep(&self, holder: Weak<dyn Holder>, slice: u32, ghost: u64) -> bool {
        let class = if self.is_copy() { Class::Copy } else { Class::Own };
        self.tier.keep_slot(self.number, holder, slice, ghost, class)
    }

    /// Makes `holder` the owner of the slice.
    pub(crate) fn hand_over(&self, holder: Weak<dyn Holder>) {
        self.tier.set_holder(self.number, holder);
    }

    fn start(&self) -> u64 {
        self.tier.start(self.number)
    }
}

/// Offset of the metadata: behind the bytes, often in their last page.
pub(super) fn description_offset(length: u32) -> u64 {
    u64::from(length).next_multiple_of(8)
}

/// The name of a slice after its eviction.
pub(crate) fn ghost(key: &Key, slice: u32) -> u64 {
    short_name(key).wrapping_add(u64::from(slice))
}

impl Drop for Slot {
    fn drop(&mut self) {
        let owner = self.tier.owner();
        match *owner {
            Owner::This => {
                // Before the bytes go: a record never refers to bytes that are missing.
                self.clear_own_record();
                self.tier.release(self.number);
            }
            Owner::Successor => self.tier.forget_slot(self.number),
            Owner::Next => {}
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}
