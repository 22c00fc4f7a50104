//! The tier itself: its files, the space that it may use, and its slots.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_sys::file::OpenFile;
use rustix::fs::{FallocateFlags, fallocate};

use super::demand::Demand;
use super::files::{allocated_bytes, space_of};
use super::holder::{ExpectedBytes, Holder};
use super::layout::SlotLayout;
use super::limits::{PAGE_BYTES, TierCounters, TierLimits};
use super::record::{self, RECORD_BYTES, RecordKey, SlotRecord};
use super::slots::{Entry, SlotUses, Slots};

/// Slices evicted for one that needs space, before that is refused, beside one for each page that it needs.
const EVICTIONS_MAX: u64 = 64;
/// Of the tier, the part that slices may take which were evicted while readers still hold them. With more nothing else is
/// evicted: it would be lost to readers who take their bytes, for others who do not.
const EVICTED_SHARE: u64 = 2;
/// With this part of the tier readers have to hurry.
const EVICTED_SHARE_SHORT: u64 = 4;
/// Of the space of a file system, the part that is left free: records and directories need some too.
const SPACE_RESERVED_SHARE: u64 = 64;
/// The epoch of a tier that was just opened.
const FIRST_EPOCH: u8 = 1;
/// Slots whose pages could not be given back that are tried again with each slot that is released.
const PUNCHED_AGAIN: usize = 8;
/// Bytes read at a time to compare a checksum.
const STEP_BYTES: usize = 256 * 1024;

/// A tier of slices on tmpfs.
pub struct MemoryTier {
    limits: TierLimits,
    layout: SlotLayout,
    /// The file that extents refer to, as it was opened in each epoch.
    files: Box<[OnceLock<Arc<OpenFile>>]>,
    writing: File,
    records: File,
    record_key: RecordKey,
    next_object: AtomicU64,
    /// Whether the process is about to end, so that nothing is given back any more.
    preserved: AtomicBool,
    /// Whether the file of slices can be used.
    in_service: AtomicBool,
    /// Slices of another epoch may have lost their bytes: they are compared with their checksum before use. Restored ones
    /// have 0.
    epoch: AtomicU8,
    recovery: Mutex<()>,
    uses: SlotUses,
    /// The thread that drops slices; made when it is first needed, `None` if it could not be started.
    dropping: OnceLock<Option<Sender<Box<dyn Send>>>>,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    counts: Counts,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Counts {
    evictions: AtomicU64,
    refusals: AtomicU64,
    damaged: AtomicU64,
    reopened: AtomicU64,
    scrubbed_bytes: AtomicU64,
}

/// The files of a tier.
pub(super) struct TierFiles {
    pub(super) reading: OpenFile,
    pub(super) writing: File,
    pub(super) records: File,
    pub(super) record_key: RecordKey,
}

impl MemoryTier {
    pub(super) fn new(limits: TierLimits, bytes_max: u64, files: TierFiles, now: SystemTime) -> Self {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let layout = SlotLayout::new(limits);
        Self {
            limits,
            files: first_file(files.reading),
            writing: files.writing,
            records: files.records,
            record_key: files.record_key,
            next_object: AtomicU64::new(u64::try_from(now.as_nanos()).unwrap_or(0)),
            preserved: AtomicBool::new(false),
            in_service: AtomicBool::new(true),
            epoch: AtomicU8::new(FIRST_EPOCH),
            recovery: Mutex::new(()),
            uses: SlotUses::new(layout.slots()),
            dropping: OnceLock::new(),
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(bytes_max),
            counts: Counts::default(),
            slots: Mutex::new(Slots::new(&layout)),
            layout,
        }
    }

    /// Bytes of one slice.
    pub fn slice_bytes(&self) -> u32 {
        self.limits.slice_bytes
    }

    /// How many whole slices fit.
    pub fn slices_max(&self) -> u64 {
        self.bytes_max() / u64::from(self.limits.slice_bytes)
    }

    /// Whether one more slice evicts another.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) + u64::from(self.limits.slice_bytes) > self.bytes_max()
    }

    /// Counters since the tier was opened.
    pub fn counters(&self) -> TierCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let slots = self.slots();
        let (slices, evicted_bytes) = (slots.kept, slots.evicted_pages * PAGE_BYTES);
        drop(slots);
        TierCounters {
            bytes: load(&self.bytes),
            slices,
            evicted_bytes,
            evictions: load(&self.counts.evictions),
            refusals: load(&self.counts.refusals),
            bytes_max: self.bytes_max(),
            damaged: load(&self.counts.damaged),
            reopened: load(&self.counts.reopened),
            scrubbed_bytes: load(&self.counts.scrubbed_bytes),
            in_service: self.is_in_service(),
        }
    }

    /// Leaves everything in the files for the next process: this one is about to end.
    pub fn preserve(&self) {
        self.preserved.store(true, Ordering::Relaxed);
    }

    /// Remembers at least `slices` evictions: a slice that returns later has earned a place in the tier behind.
    pub(crate) fn remember_at_least(&self, slices: usize) {
        self.slots().remember_at_least(slices);
    }

    /// A number for a new object, greater than all before.
    pub(crate) fn next_object(&self) -> u64 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes later numbers greater than `object`.
    pub(super) fn skip_objects_to(&self, object: u64) {
        self.next_object.fetch_max(object + 1, Ordering::Relaxed);
    }

    /// Takes a free slot with `space` bytes for a slice of `bytes`; evicts others for it. `None` if even that does not
    /// help.
    pub(super) fn take_slot(&self, bytes: u32, space: u64) -> Option<u32> {
        let bytes = u64::from(bytes.min(self.limits.slice_bytes)).next_multiple_of(PAGE_BYTES);
        let class = self.layout.class_for(space);
        let taken = self.evict_until(bytes, || self.take_free(bytes, class));
        if taken.is_none() {
            self.counts.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn take_free(&self, bytes: u64, class: usize) -> Option<u32> {
        let mut slots = self.slots();
        if !self.is_in_service() || self.bytes.load(Ordering::Relaxed) + bytes > self.bytes_max() {
            return None;
        }
        let number = slots.take(class)?;
        slots.set_pages(number, pages(bytes));
        // Here and not by the first hit, which allocates nothing.
        self.uses.prepare(number);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(number)
    }

    /// Evicts slices until `attempt` has a result, but not more than are worth `bytes`.
    fn evict_until<T>(&self, bytes: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..EVICTIONS_MAX + bytes / PAGE_BYTES {
            let result = attempt();
            if result.is_some() || !self.evict() && !self.punch_again(1) {
                return result;
            }
        }
        None
    }

    /// Evicts the next slice. False if there is none, or if readers hold too many evicted ones.
    fn evict(&self) -> bool {
        let mut slots = self.slots();
        if self.is_evicted_over(&slots, EVICTED_SHARE) {
            return false;
        }
        let victim = slots.evict(&self.uses);
        drop(slots);
        let Some((Entry { holder, slice, .. }, is_to_be_remembered)) = victim else { return false };
        self.counts.evictions.fetch_add(1, Ordering::Relaxed);
        // Without the lock: dropping the slot ends in `release`, which takes it.
        if let Some(holder) = holder.upgrade() {
            if is_to_be_remembered && let Some(ghost) = holder.ghost(slice) {
                self.slots().remember(ghost);
            }
            holder.release_slice(slice);
        }
        true
    }

    fn is_evicted_over(&self, slots: &Slots, share: u64) -> bool {
        slots.evicted_pages * PAGE_BYTES > self.bytes_max() / share
    }

    /// Whether others need the memory of a slice that a reader holds.
    pub(super) fn demand(&self, number: u32) -> Demand {
        let slots = self.slots();
        match slots.is_evicted(number) {
            false => Demand::None,
            true if self.is_evicted_over(&slots, EVICTED_SHARE_SHORT) => Demand::Urgent,
            true => Demand::Some,
        }
    }

    /// Keeps a slice until it is evicted. `ghost` names it also after that. Returns whether it was evicted before, as far
    /// as is remembered.
    pub(super) fn keep_slot(&self, number: u32, holder: Weak<dyn Holder>, slice: u32, ghost: u64) -> bool {
        self.slots().keep(number, holder, slice, ghost)
    }

    /// Makes `holder` the owner of a kept slice.
    pub(super) fn set_holder(&self, number: u32, holder: Weak<dyn Holder>) {
        self.slots().set_holder(number, holder);
    }

    /// Takes these slots, in rising order, before any other.
    pub(super) fn claim_slots(&self, numbers: &[u32]) {
        self.slots().claim(numbers);
    }

    /// Counts a request for a slice.
    pub(super) fn count_use(&self, number: u32) {
        self.uses.of(number).add();
    }

    /// Drops `slices` on another thread: giving back the pages of a large object takes milliseconds.
    pub(crate) fn drop_later(&self, slices: Box<dyn Send>) {
        let sender = self.dropping.get_or_init(|| {
            let (sender, slices) = channel::<Box<dyn Send>>();
            // The thread ends with the tier, which has the only sender.
            let thread = thread::Builder::new().name("memory-drop".to_owned());
            thread.spawn(move || slices.into_iter().for_each(drop)).is_ok().then_some(sender)
        });
        if let Some(sender) = sender {
            // What cannot be sent comes back and is dropped here.
            drop(sender.send(slices));
        }
    }

    /// Gives a slot and its pages back. The slot's record was cleared.
    pub(super) fn release(&self, number: u32) {
        // First, so that the scrub does not take the hole for damage.
        drop(self.slots().remove(number));
        if self.give_back(number) {
            self.punch_again(PUNCHED_AGAIN);
        }
    }

    /// Punches the hole again for up to `count` slots that still have their pages. Returns whether a slot became free.
    pub(super) fn punch_again(&self, count: usize) -> bool {
        let mut freed = false;
        for _ in 0..count {
            let next = self.slots().next_unpunched();
            let Some(number) = next else { break };
            if !self.give_back(number) {
                break;
            }
            freed = true;
        }
        freed
    }

    /// Punches a hole for the pages of a slot and makes it free. A slot that keeps its pages is not written over: it waits
    /// for the next attempt, and its pages stay counted.
    fn give_back(&self, number: u32) -> bool {
        // Sockets may still hold some of the pages; those live on without the file.
        let is_punched = punch(&self.writing, &self.layout.range(number..number + 1)).is_ok();
        let mut slots = self.slots();
        if is_punched {
            let pages = slots.set_pages(number, 0);
            slots.put_back(number);
            self.bytes.fetch_sub(u64::from(pages) * PAGE_BYTES, Ordering::Relaxed);
        } else {
            slots.put_unpunched(number);
        }
        is_punched
    }

    pub(super) fn is_preserved(&self) -> bool {
        self.preserved.load(Ordering::Relaxed)
    }

    /// First byte of a slot.
    pub(super) fn start(&self, number: u32) -> u64 {
        self.layout.start(number)
    }

    /// Bytes of a slot.
    pub(super) fn space(&self, number: u32) -> u64 {
        self.layout.space(number)
    }

    /// Whether a slice that needs `space` bytes belongs into slots of another size.
    pub(super) fn is_misplaced(&self, number: u32, space: u64) -> bool {
        self.layout.class_of(number) != self.layout.class_for(space)
    }

    /// Counts `bytes` for a slot instead of what was counted before.
    pub(super) fn set_bytes(&self, number: u32, bytes: u64) {
        let now = pages(bytes);
        let before = self.slots().set_pages(number, now);
        self.bytes.fetch_add(u64::from(now) * PAGE_BYTES, Ordering::Relaxed);
        self.bytes.fetch_sub(u64::from(before) * PAGE_BYTES, Ordering::Relaxed);
    }

    /// The current epoch: slices of another one are compared with their checksum before use.
    pub(super) fn epoch(&self) -> u8 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The file that extents refer to; `None` if it was truncated. It is opened again then.
    pub(super) fn file(&self) -> Option<Arc<OpenFile>> {
        let file = self.current_file()?;
        if file.is_truncated() {
            self.recover();
            return None;
        }
        Some(Arc::clone(file))
    }

    fn current_file(&self) -> Option<&Arc<OpenFile>> {
        self.files.get(usize::from(self.epoch()))?.get()
    }

    /// Opens the file of slices again if it was truncated or failed. All slices are compared with their checksum before
    /// they are used again. After 254 times the tier stays out of service until the next start.
    pub(super) fn recover(&self) {
        let _one_at_a_time = self.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = self.layout.file_bytes();
        let is_whole = self.writing.metadata().is_ok_and(|now| now.len() == expected);
        let was_in_service = self.is_in_service();
        let is_truncated = self.current_file().is_none_or(|file| file.is_truncated());
        if is_whole && was_in_service && !is_truncated {
            return;
        }
        self.counts.reopened.fetch_add(u64::from(was_in_service), Ordering::Relaxed);
        let reopened = self
            .writing
            .set_len(expected)
            .and_then(|()| self.writing.try_clone())
            .and_then(|file| OpenFile::from_fd(file.into()));
        let epoch = self.epoch();
        // A failed attempt left an epoch without a file. In epoch 0 no slice is trusted.
        let next = if self.current_file().is_none() { epoch } else { epoch.checked_add(1).unwrap_or(0) };
        let is_usable =
            next > 0 && reopened.is_ok_and(|file| self.files[usize::from(next)].set(Arc::new(file)).is_ok());
        self.in_service.store(is_usable, Ordering::Relaxed);
        self.epoch.store(next, Ordering::SeqCst);
    }

    /// Whether the file of slices can be used.
    pub(super) fn is_in_service(&self) -> bool {
        self.in_service.load(Ordering::Relaxed)
    }

    /// Adapts the space that the tier may use to its file system.
    pub(super) fn adapt_to_space(&self) {
        if let Ok(available) = available_bytes(&self.writing, [&self.writing, &self.records]) {
            self.bytes_max.store(available.min(self.limits.bytes), Ordering::Relaxed);
        }
    }

    /// Writes bytes of a slice. A full file system costs other slices.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let attempt = || match self.writing.write_all_at(bytes, at) {
            Err(error) if is_full(&error) => None,
            result => Some(result),
        };
        let result = self.evict_until(bytes.len() as u64, attempt);
        result.unwrap_or_else(|| Err(io::ErrorKind::StorageFull.into()))
    }

    /// Like [`Self::write`], but evicts nothing: the caller holds the lock of an object.
    pub(super) fn write_if_space(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.writing.write_all_at(bytes, at)
    }

    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.writing.read_exact_at(bytes, at)
    }

    /// Whether the bytes of a slot are as expected. Blocks for as long as reading memory takes.
    pub(super) fn is_as_expected(&self, number: u32, expected: ExpectedBytes) -> bool {
        let mut buffer = vec![0; STEP_BYTES.min(expected.length as usize)];
        let mut hasher = crc32fast::Hasher::new();
        let (mut left, mut at) = (expected.length as usize, self.start(number));
        while left > 0 {
            let piece = buffer.len().min(left);
            if self.read(&mut buffer[..piece], at).is_err() {
                return false;
            }
            hasher.update(&buffer[..piece]);
            left -= piece;
            at += piece as u64;
        }
        hasher.finalize() == expected.checksum
    }

    /// Counts a slice whose bytes have changed.
    pub(super) fn count_damaged(&self) {
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// The first kept slice from a slot on.
    pub(super) fn next_kept(&self, from: u32) -> Option<Entry> {
        self.slots().next_kept(from)
    }

    /// Compares a slice with its checksum; gives it up if it has changed. Returns its length.
    pub(super) fn scrub(&self, kept: &Entry) -> u64 {
        let Some(holder) = kept.holder.upgrade() else { return 0 };
        let Some(expected) = holder.expected(kept.slice) else { return 0 };
        let is_right = self.is_as_expected(kept.slot, expected);
        // It may have been released while it was read.
        if !is_right && self.slots().is_kept(kept.slot, kept.generation) {
            self.count_damaged();
            holder.release_slice(kept.slice);
        }
        self.counts.scrubbed_bytes.fetch_add(expected.length.into(), Ordering::Relaxed);
        expected.length.into()
    }

    pub(super) fn limits(&self) -> TierLimits {
        self.limits
    }

    /// Writes a record. One that cannot be written is missing at the next start, and no more.
    pub(super) fn write_record(&self, slot: u32, record: &SlotRecord) {
        let record = record.encode(slot, self.record_key);
        drop(self.records.write_all_at(&record, record::place(slot)));
    }

    pub(super) fn clear_record(&self, slot: u32) {
        drop(self.records.write_all_at(&[0; RECORD_BYTES], record::place(slot)));
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTier").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The file of the first epoch, with places for those of later ones.
fn first_file(file: OpenFile) -> Box<[OnceLock<Arc<OpenFile>>]> {
    let files: Box<[_]> = (0..=u8::MAX).map(|_| OnceLock::new()).collect();
    drop(files[usize::from(FIRST_EPOCH)].set(Arc::new(file)));
    files
}

/// Bytes of the file system of `on` that slices may take: what is free, and what these files of the tier have already.
pub(super) fn available_bytes<'f>(on: &File, own: impl IntoIterator<Item = &'f File>) -> io::Result<u64> {
    let space = space_of(on)?;
    let Some(total) = space.total else { return Ok(u64::MAX) };
    let mut available = space.free;
    for file in own {
        available += allocated_bytes(file)?;
    }
    Ok(available.saturating_sub(total / SPACE_RESERVED_SHARE))
}

/// Pages that so many bytes take.
fn pages(bytes: u64) -> u16 {
    // The largest slice has 4,096 of them.
    u16::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(u16::MAX)
}

/// Gives the pages of a range back to the system.
pub(super) fn punch(file: &File, range: &Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, range.start, range.end - range.start)?)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
