//! The tier itself: its files and its slots.

mod hand_over;
mod health;
mod space;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, Weak};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_metrics::TierCounters;
use penstock_sys::lock::Unpoisoned;

use super::files::{TierDirectory, allocated_bytes, space_of};
use super::holder::Holder;
use super::layout::SlotLayout;
use super::limits::{PAGE_BYTES, TierLimits};
use super::queue_file::QueueFile;
use super::record::{self, RECORD_BYTES, RecordKey, SlotRecord};
use super::slice_file::{SliceFile, WriteError};
use super::slots::{Class, KeptSlice, SlotUses, Slots};
pub(super) use hand_over::Owner;

/// Of the space of a file system, the part that is left free: records and directories need some too.
const SPACE_RESERVED_SHARE: u64 = 64;
/// The epoch of a tier that was just opened.
const FIRST_EPOCH: u8 = 1;

/// A tier of slices on tmpfs.
pub struct MemoryTier {
    limits: TierLimits,
    layout: SlotLayout,
    /// The directory of the files; `None` for a tier without one.
    directory: Option<TierDirectory>,
    /// The file of slices of each epoch.
    files: Box<[OnceLock<SliceFile>]>,
    records: File,
    record_key: RecordKey,
    queue: Option<QueueFile>,
    next_object: AtomicU64,
    /// Whose the files are. Locked while a record is written or cleared and while a slot is taken or given back, before
    /// [`Self::slots`].
    owner: RwLock<Owner>,
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
    copies_percent: AtomicU64,
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
    /// Where they are; `None` for a tier without a directory.
    pub(super) directory: Option<TierDirectory>,
    pub(super) slices: SliceFile,
    pub(super) records: File,
    pub(super) record_key: RecordKey,
    /// Names the popular slices for the next process.
    pub(super) queue: Option<QueueFile>,
}

impl MemoryTier {
    pub(super) fn new(limits: TierLimits, bytes_max: u64, files: TierFiles, now: SystemTime) -> Self {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let layout = SlotLayout::new(limits);
        Self {
            limits,
            directory: files.directory,
            files: first_file(files.slices),
            records: files.records,
            record_key: files.record_key,
            queue: files.queue,
            next_object: AtomicU64::new(u64::try_from(now.as_nanos()).unwrap_or(0)),
            owner: RwLock::new(Owner::This),
            in_service: AtomicBool::new(true),
            epoch: AtomicU8::new(FIRST_EPOCH),
            recovery: Mutex::new(()),
            uses: SlotUses::new(layout.slots()),
            dropping: OnceLock::new(),
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(bytes_max),
            copies_percent: AtomicU64::new(100),
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
        let copied_bytes = slots.copy_pages * PAGE_BYTES;
        drop(slots);
        TierCounters {
            bytes: load(&self.bytes),
            slices,
            evicted_bytes,
            copied_bytes,
            evictions: load(&self.counts.evictions),
            refusals: load(&self.counts.refusals),
            bytes_max: self.bytes_max(),
            damaged: load(&self.counts.damaged),
            reopened: load(&self.counts.reopened),
            scrubbed_bytes: load(&self.counts.scrubbed_bytes),
            in_service: self.is_in_service(),
            waiting: false,
        }
    }

    /// Leaves everything in the files for the next process: this one is about to end.
    pub fn preserve(&self) {
        let mut owner = self.owner.write().unpoisoned();
        if *owner == Owner::This {
            *owner = Owner::Next;
            if let Some(queue) = &self.queue {
                queue.write(&self.slots().popular());
            }
        }
    }

    /// Makes restored slices of these slots popular: they are evicted after the others.
    pub(super) fn set_popular(&self, numbers: &[u32]) {
        self.slots().set_popular(numbers);
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
    pub(crate) fn skip_objects_to(&self, object: u64) {
        self.next_object.fetch_max(object + 1, Ordering::Relaxed);
    }

    /// Keeps a slice until it is evicted. `ghost` names it also after that. Returns whether it was evicted before, as far
    /// as is remembered.
    pub(super) fn keep_slot(
        &self,
        number: u32,
        holder: Weak<dyn Holder>,
        slice: u32,
        ghost: u64,
        class: Class,
    ) -> bool {
        self.slots().keep(number, holder, slice, ghost, class)
    }

    /// Limits copies of what other nodes keep to a part of the tier, in percent, as soon as others need the space.
    pub fn limit_copies(&self, percent: u64) {
        self.copies_percent.store(percent, Ordering::Relaxed);
    }

    /// Pages that copies may have while others need space.
    fn copy_pages_max(&self) -> u64 {
        self.bytes_max() / PAGE_BYTES * self.copies_percent.load(Ordering::Relaxed) / 100
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

    /// Whose the files are, for as long as the guard lives.
    pub(super) fn owner(&self) -> RwLockReadGuard<'_, Owner> {
        self.owner.read().unpoisoned()
    }

    /// Forgets a slot that a successor has: its reader has ended.
    pub(super) fn forget_slot(&self, number: u32) {
        let mut slots = self.slots();
        drop(slots.remove(number));
        let pages = slots.forget(number);
        self.bytes.fetch_sub(u64::from(pages) * PAGE_BYTES, Ordering::Relaxed);
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
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

    /// Writes bytes of a slice of this epoch. A full file system costs other slices.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(super) fn write(&self, epoch: u8, bytes: &[u8], at: u64) -> Result<(), WriteError> {
        let file = self.file_of(epoch).ok_or(WriteError::Lost)?;
        let attempt = || match file.write(bytes, at) {
            Err(WriteError::Full) => None,
            result => Some(result),
        };
        let result = self.evict_until(bytes.len() as u64, attempt).unwrap_or(Err(WriteError::Full));
        if matches!(result, Err(WriteError::Lost)) {
            self.recover();
        }
        result
    }

    /// Like [`Self::write`] in the current epoch, but evicts nothing: the caller holds the lock of an object.
    pub(super) fn write_if_space(&self, bytes: &[u8], at: u64) -> Result<(), WriteError> {
        self.current_file().ok_or(WriteError::Lost)?.write(bytes, at)
    }

    /// Reads bytes of the current epoch, which the caller compares with their checksum.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.current_file().ok_or(io::ErrorKind::NotFound)?.read(bytes, at)
    }

    /// The first kept slice from a slot on.
    pub(super) fn next_kept(&self, from: u32) -> Option<KeptSlice> {
        self.slots().next_kept(from)
    }

    pub(super) fn limits(&self) -> TierLimits {
        self.limits
    }

    /// Writes a record of a tier that belongs to this process. One that cannot be written is missing at the next start, and
    /// no more.
    pub(super) fn write_record(&self, slot: u32, record: &SlotRecord) {
        let record = record.encode(slot, self.record_key);
        drop(self.records.write_all_at(&record, record::place(slot)));
    }

    pub(super) fn clear_record(&self, slot: u32) {
        drop(self.records.write_all_at(&[0; RECORD_BYTES], record::place(slot)));
    }

    /// The directory of its files, if it has one.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TierDirectory::path)
    }

    /// Bytes that slices may take now.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unpoisoned()
    }
}

impl fmt::Debug for MemoryTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTier").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The file of the first epoch, with places for those of later ones.
fn first_file(file: SliceFile) -> Box<[OnceLock<SliceFile>]> {
    let files: Box<[_]> = (0..=u8::MAX).map(|_| OnceLock::new()).collect();
    drop(files[usize::from(FIRST_EPOCH)].set(file));
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
