//! One version of one object: its metadata, its length, and its slices.

mod slice_copy;
mod slices;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use arc_swap::ArcSwapOption;
use penstock_sys::lock::Unpoisoned;

use crate::disk::{DiskSlice, SliceJob, SliceName, Versions, is_promoted};
use crate::filling::{Filling, Follower};
use crate::key::Key;
use crate::lease::Lease;
use crate::memory::{
    ExpectedBytes, Holder, Note, RestoredSlice, Slot, SlotRecord, WriteError, ghost, slice_length,
};
use crate::metadata::Metadata;
use crate::tiers::Tiers;
pub use slice_copy::SliceCopy;
use slices::{MemorySlices, OtherSlice, OtherSlices};

/// One version of an object. A changed object is another one, so bytes of two versions never mix.
pub struct Object<D: Metadata> {
    key: Key,
    /// Greater than that of every earlier version.
    id: u64,
    metadata: D,
    /// Or [`UNKNOWN`].
    length: AtomicU64,
    tiers: Arc<Tiers>,
    /// Read without a lock, written under that of `others`.
    in_memory: MemorySlices,
    /// The index's own fields.
    pub(crate) links: Links<D>,
    /// Whether requests may find the object and the next process restores it. Written under the lock of `others`.
    kept: AtomicBool,
    /// How often the metadata was recorded. Written under the lock of `others`.
    revision: AtomicU32,
    /// The slices that are not complete in memory. Its lock is that of all writers of the object.
    others: Mutex<OtherSlices>,
}

/// The data of an index for an object: its place in a bucket, its age, and its weight.
pub(crate) struct Links<D: Metadata> {
    pub(crate) next: ArcSwapOption<Object<D>>,
    pub(crate) arrival: AtomicU32,
    pub(crate) weight: AtomicU32,
}

/// An object with more slices is dropped on another thread.
const SLICES_DROPPED_AT_ONCE: usize = 16;

/// A slice of an earlier process that is not longer is compared with its checksum by the request that finds it, which
/// takes some ten microseconds.
const VERIFIED_AT_ONCE_BYTES: u32 = 64 * 1024;

/// The length of an object whose end is unknown.
const UNKNOWN: u64 = u64::MAX;

/// The place of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is complete in memory.
    Memory,
    /// A fill is under way.
    Filling,
    /// It is on a disk.
    Disk,
    /// It has to come from elsewhere.
    Missing,
}

/// A slice, as a reader finds it.
pub(crate) enum FoundSlice {
    Ready(Lease),
    Filling(Follower),
    /// It was missing; the caller has to fill it.
    Claimed(Arc<Filling>),
}

impl<D: Metadata> Object<D> {
    /// An object without any slice yet. `length` is `None` until its end is known.
    pub fn new(key: &Key, metadata: D, length: Option<u64>, tiers: Arc<Tiers>) -> Arc<Self> {
        let id = tiers.next_object();
        Self::make(*key, id, metadata, length, tiers)
    }

    /// An object of an earlier process, with those of its slices that are in memory.
    pub(crate) fn restored(
        key: &Key,
        id: u64,
        metadata: D,
        length: Option<u64>,
        tiers: Arc<Tiers>,
        slices: &[RestoredSlice],
    ) -> Arc<Self> {
        let object = Self::make(*key, id, metadata, length, tiers);
        object.kept.store(true, Ordering::Release);
        for RestoredSlice { record, slot } in slices {
            object.in_memory.insert(record.slice, Arc::clone(slot));
            object.revision.fetch_max(record.revision, Ordering::Relaxed);
        }
        for RestoredSlice { slot, .. } in slices {
            slot.hand_over(object.holder());
        }
        object
    }

    fn make(key: Key, id: u64, metadata: D, length: Option<u64>, tiers: Arc<Tiers>) -> Arc<Self> {
        Arc::new(Self {
            key,
            id,
            metadata,
            length: AtomicU64::new(length.unwrap_or(UNKNOWN)),
            tiers,
            in_memory: MemorySlices::default(),
            links: Links {
                next: ArcSwapOption::empty(),
                arrival: AtomicU32::new(0),
                weight: AtomicU32::new(0),
            },
            kept: AtomicBool::new(false),
            revision: AtomicU32::new(0),
            others: Mutex::default(),
        })
    }

    fn holder(self: &Arc<Self>) -> Weak<dyn Holder> {
        Arc::<Self>::downgrade(self)
    }

    /// The object's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The caller's metadata.
    pub fn metadata(&self) -> &D {
        &self.metadata
    }

    /// Length in bytes; `None` while the end is unknown.
    pub fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Acquire)).filter(|length| *length != UNKNOWN)
    }

    /// Sets the length when the end was found. Only the first call counts.
    pub fn set_length(&self, length: u64) {
        let _was_known =
            self.length.compare_exchange(UNKNOWN, length, Ordering::AcqRel, Ordering::Acquire).is_err();
    }

    /// How many whole slices fit into the memory tier.
    pub fn tier_slices(&self) -> u64 {
        self.tiers.slices_max()
    }

    /// Whether one more slice evicts another from memory.
    pub fn is_tier_full(&self) -> bool {
        self.tiers.memory().is_full()
    }

    /// Bytes of every slice but the last.
    pub fn slice_bytes(&self) -> u32 {
        self.tiers.slice_bytes()
    }

    /// The slice with this byte, and the byte's offset in it.
    pub fn locate(&self, offset: u64) -> (u32, u32) {
        let bytes = u64::from(self.slice_bytes());
        let slice = u32::try_from(offset / bytes).unwrap_or(u32::MAX);
        (slice, u32::try_from(offset % bytes).unwrap_or(0))
    }

    /// Bytes of a slice, as far as the length is known.
    pub fn slice_length(&self, slice: u32) -> u32 {
        let bytes = self.slice_bytes();
        self.length().map_or(bytes, |length| slice_length(length, slice, bytes))
    }

    /// Finds a slice, or claims it if it is missing. A complete slice in memory is found without a lock.
    pub(crate) fn find_slice(&self, slice: u32) -> FoundSlice {
        if let Some(slot) = self.in_memory.get(slice).filter(|slot| slot.is_trusted()) {
            return FoundSlice::Ready(Lease::of_slot(slot));
        }
        let mut others = self.others();
        let mut doubtful = None;
        // It may have become complete before this had the lock.
        if let Some(slot) = self.in_memory.get(slice) {
            if slot.is_trusted() || slot.written() <= VERIFIED_AT_ONCE_BYTES && slot.verify() {
                return FoundSlice::Ready(Lease::of_slot(slot));
            }
            // A larger one is verified by the fill that is claimed here. A damaged one is too, and fails again.
            doubtful = self.in_memory.remove(slice);
        }
        match others.get(slice) {
            Some(OtherSlice::OnDisk(on_disk)) => {
                if let Some(lease) = Lease::of_disk(on_disk) {
                    return FoundSlice::Ready(lease);
                }
            }
            Some(OtherSlice::Filling(filling)) => return FoundSlice::Filling(filling.follow()),
            None => {}
        }
        let filling = Filling::new(doubtful.filter(|slot| slot.written() > VERIFIED_AT_ONCE_BYTES));
        others.insert(slice, OtherSlice::Filling(Arc::clone(&filling)));
        FoundSlice::Claimed(filling)
    }

    /// Counts a request for a slice that is complete or being filled; once for each slice and request. Popular slices are
    /// kept longer and move between the tiers. A complete slice in memory is counted without a lock.
    pub fn count_request(self: &Arc<Self>, slice: u32) {
        let counted = self.in_memory.look_at(slice, |slot| {
            slot.count_request();
            self.offer_to_disk(slice, slot);
        });
        if counted.is_some() {
            return;
        }
        let other = self.others().get(slice).cloned();
        match other {
            Some(OtherSlice::OnDisk(on_disk)) => self.maybe_promote(slice, &on_disk),
            Some(OtherSlice::Filling(filling)) => filling.count_request(),
            None => {}
        }
    }

    /// Like [`Self::count_request`] for a reader that has a lease on the slice: saves finding it again.
    pub fn count_leased_request(self: &Arc<Self>, slice: u32, lease: &Lease) {
        match lease.slot() {
            Some(slot) => {
                slot.count_request();
                self.offer_to_disk(slice, slot);
            }
            None => self.count_request(slice),
        }
    }

    /// The place of a slice, without claiming it. A request whose first slice is [`Presence::Missing`] is no hit, though
    /// its object is known.
    pub fn presence(&self, slice: u32) -> Presence {
        if self.in_memory.look_at(slice, |_| ()).is_some() {
            return Presence::Memory;
        }
        let others = self.others();
        match others.get(slice) {
            Some(OtherSlice::Filling(_)) => Presence::Filling,
            Some(OtherSlice::OnDisk(on_disk)) if on_disk.lease().is_some() => Presence::Disk,
            _ if self.in_memory.look_at(slice, |_| ()).is_some() => Presence::Memory,
            _ if self.tiers.disks().is_some_and(|disks| disks.has(&self.slice_name(slice))) => Presence::Disk,
            _ => Presence::Missing,
        }
    }

    /// Complete slices, in memory and on disks.
    pub fn stored_slices(&self) -> usize {
        let on_disk = self.others().on_disk();
        self.in_memory.all().len() + on_disk
    }

    /// Whether a slice is complete or being filled.
    pub(crate) fn has_slices(&self) -> bool {
        !self.others().is_empty() || !self.in_memory.is_empty()
    }

    pub(crate) fn tiers(&self) -> &Arc<Tiers> {
        &self.tiers
    }

    /// Lets requests and the next process find the object, and records its current metadata.
    pub(crate) fn keep(&self) {
        let _others = self.others();
        let newly = !self.kept.swap(true, Ordering::AcqRel);
        let in_memory = self.in_memory.all();
        // The newest metadata counts, so one record is enough.
        let count = if newly { in_memory.len() } else { 1 };
        for (slice, slot) in in_memory.into_iter().take(count) {
            self.record(slice, &slot);
        }
    }

    /// Removes earlier versions from the disks.
    pub(crate) fn supersede(&self) {
        if let Some(disks) = self.tiers.disks() {
            disks.forget(&self.key, self.id.saturating_sub(1), Versions::But(self.id));
        }
    }

    /// Makes the object impossible to find, also for the next process. Its readers may finish.
    pub(crate) fn withdraw(&self) {
        let others = self.others();
        self.kept.store(false, Ordering::Release);
        for (_, slot) in self.in_memory.all() {
            slot.clear_record();
        }
        drop(others);
        if let Some(disks) = self.tiers.disks() {
            disks.forget(&self.key, self.id, Versions::Only(self.id));
        }
    }

    /// Queues a slice to be written to a disk, if its requests have earned that.
    fn offer_to_disk(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        let Some(disks) = self.tiers.disks() else { return };
        let (Some(object_length), true) = (self.length(), self.is_kept()) else { return };
        // The node that keeps it has it on a disk, if any.
        if slot.is_copy()
            || !disks.admits((slot.requests(), slot.has_disk_copy()), slot.written(), || slot.skip_disk())
            || slot.mark_on_disk(true)
        {
            return;
        }
        let metadata = self.encoded();
        if metadata.is_empty() || disks.has(&self.slice_name(slice)) {
            return;
        }
        let (key, object, owner, slot_kept) = (self.key, self.id, self.holder(), Arc::clone(slot));
        let job = SliceJob { key, object, object_length, slice, metadata, slot: slot_kept, owner };
        if !disks.write(job) {
            slot.mark_on_disk(false);
        }
    }

    /// Queues a slice on a disk to be copied to memory, if its requests have earned that.
    fn maybe_promote(self: &Arc<Self>, slice: u32, on_disk: &Arc<DiskSlice>) {
        let requests = on_disk.requests.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if !is_promoted(requests) || on_disk.promoting.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(disks) = self.tiers.disks() else { return };
        // Without space in memory it stays on the disk.
        let Some(slot) = Slot::reserve(self.tiers.memory(), on_disk.length()) else {
            on_disk.try_promoting_again();
            return;
        };
        let (filled, this) = (Arc::clone(&slot), Arc::clone(self));
        let take = move |bytes: &[u8]| match filled.append(bytes)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(WriteError::Full),
        };
        let copied = Arc::clone(on_disk);
        let done = move |is_complete| match is_complete {
            true => this.finish_promotion(slice, &slot),
            false => copied.try_promoting_again(),
        };
        if !disks.promote(self.slice_name(slice), on_disk.place, take, done) {
            // The queue is too long.
            on_disk.try_promoting_again();
        }
    }

    fn finish_promotion(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        slot.settle();
        slot.mark_on_disk(true);
        // It was requested more than once.
        slot.count_request();
        let mut others = self.others();
        if !matches!(others.get(slice), Some(OtherSlice::OnDisk(_))) {
            // The slice has changed meanwhile, and this copy is not needed.
            return;
        }
        self.set_in_memory(&mut others, slice, slot);
        drop(others);
        slot.keep(self.holder(), slice, ghost(&self.key, slice));
    }

    fn set_in_memory(&self, others: &mut OtherSlices, slice: u32, slot: &Arc<Slot>) {
        others.remove(slice);
        let replaced = self.in_memory.insert(slice, Arc::clone(slot));
        debug_assert!(replaced.is_none(), "a slice has one fill");
        if self.is_kept() {
            self.record(slice, slot);
        }
    }

    pub(crate) fn slice_name(&self, slice: u32) -> SliceName {
        SliceName { key: self.key, object: self.id, slice }
    }

    fn encoded(&self) -> Vec<u8> {
        let mut metadata = Vec::with_capacity(1024);
        self.metadata.encode(&mut metadata);
        metadata
    }

    /// Records a slice with the current metadata. The caller holds the lock, so that the newest one has the highest
    /// revision.
    fn record(&self, slice: u32, slot: &Slot) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let record = SlotRecord {
            key: self.key,
            object: self.id,
            object_length: self.length(),
            slice,
            revision,
            is_copy: slot.is_copy(),
            ..SlotRecord::default()
        };
        slot.record(&Note { record, metadata: &self.encoded() });
    }

    /// Ends a fill whose slice is complete in memory.
    pub(crate) fn finish_fill(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        let slot = &slot.fitted(self.encoded().len());
        self.set_in_memory(&mut self.others(), slice, slot);
        if slot.keep(self.holder(), slice, ghost(&self.key, slice)) {
            // It was requested before its eviction, so this request was not the first.
            slot.count_request();
        }
        self.offer_to_disk(slice, slot);
    }

    /// Ends a fill that has verified a slice of an earlier process.
    pub(crate) fn finish_verification(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        let mut others = self.others();
        others.remove(slice);
        self.in_memory.insert(slice, Arc::clone(slot));
        drop(others);
        // It may have been evicted meanwhile.
        slot.keep(self.holder(), slice, ghost(&self.key, slice));
    }

    /// Ends a fill whose slice was found on a disk.
    pub(crate) fn finish_fill_from_disk(&self, slice: u32, on_disk: &Arc<DiskSlice>) {
        self.others().insert(slice, OtherSlice::OnDisk(Arc::clone(on_disk)));
    }

    /// Ends a fill without a result: the slice is missing again.
    pub(crate) fn abandon_fill(&self, slice: u32) {
        self.others().remove(slice);
    }

    fn others(&self) -> MutexGuard<'_, OtherSlices> {
        self.others.lock().unpoisoned()
    }
}

impl<D: Metadata> Drop for Object<D> {
    fn drop(&mut self) {
        let slots = self.in_memory.take_all();
        if slots.len() > SLICES_DROPPED_AT_ONCE {
            self.tiers.memory().drop_later(Box::new(slots));
        }
    }
}

impl<D: Metadata> Holder for Object<D> {
    fn release_slice(&self, slice: u32) {
        let others = self.others();
        let released = self.in_memory.remove(slice);
        drop(others);
        // Dropped without the lock: giving back pages takes a moment.
        drop(released);
    }

    fn ghost(&self, slice: u32) -> Option<u64> {
        Some(ghost(&self.key, slice))
    }

    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    fn expected(&self, slice: u32) -> Option<ExpectedBytes> {
        self.in_memory.get(slice).map(|slot| slot.expected())
    }
}
