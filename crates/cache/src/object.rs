//! One version of one object: what it is, how long it is, and which of its slices are there.

mod states;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::disk::{DiskSlice, SliceJob, Versions, Wanted, comes_to_memory};
use crate::memory::{Holder, Left, MemoryTier, Note, Slot, SlotRecord, ghost, slice_length};
use crate::slice::{Filling, Follower, Lease, SliceFill};
use crate::{Describe, Key};
use states::{Slices, State};

/// One version of an object. A changed object is another one, so bytes of two versions never meet.
pub struct Object<D: Describe> {
    key: Key,
    /// Greater than that of every earlier version.
    id: u64,
    description: D,
    /// Or [`UNKNOWN`].
    length: AtomicU64,
    tier: Arc<MemoryTier>,
    inner: Mutex<Inner>,
}

/// Slices of an object that whoever drops it drops too. What has more leaves them to another thread.
const SLICES_DROPPED_AT_ONCE: usize = 16;

/// The length of an object whose end has not been found.
const UNKNOWN: u64 = u64::MAX;

#[derive(Default)]
struct Inner {
    slices: Slices,
    /// Whether others may have it, and the next process is to know of it.
    kept: bool,
    /// Times that its description has been written down.
    revision: u32,
}

/// What a reader finds where a slice belongs.
pub enum Part<D: Describe> {
    /// The slice is there.
    Here(Lease),
    /// Somebody fills it.
    Coming(Follower),
    /// It is not there, and now the finder's to fill.
    Missing(SliceFill<D>),
}

impl<D: Describe> Object<D> {
    /// An object without any slice yet. `length` is `None` until its end is known.
    pub fn new(key: &Key, description: D, length: Option<u64>, tier: Arc<MemoryTier>) -> Arc<Self> {
        let id = tier.next_object();
        Self::make(*key, id, description, length, tier, Inner::default())
    }

    /// An object that an earlier process left, with what it left of it.
    pub(crate) fn revived(
        key: &Key,
        id: u64,
        description: D,
        length: Option<u64>,
        tier: Arc<MemoryTier>,
        left: &[Left],
    ) -> Arc<Self> {
        let mut inner = Inner { kept: true, ..Inner::default() };
        for Left { record, slot } in left {
            inner.slices.set(record.slice, State::Here(Arc::clone(slot)));
            inner.revision = inner.revision.max(record.revision);
        }
        let object = Self::make(*key, id, description, length, tier, inner);
        for Left { slot, .. } in left {
            object.tier.hand_over(slot, object.holder());
        }
        object
    }

    fn make(
        key: Key,
        id: u64,
        description: D,
        length: Option<u64>,
        tier: Arc<MemoryTier>,
        inner: Inner,
    ) -> Arc<Self> {
        let length = AtomicU64::new(length.unwrap_or(UNKNOWN));
        Arc::new(Self { key, id, description, length, tier, inner: Mutex::new(inner) })
    }

    fn holder(self: &Arc<Self>) -> Weak<dyn Holder> {
        Arc::<Self>::downgrade(self)
    }

    /// What it is found by.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What it is.
    pub fn description(&self) -> &D {
        &self.description
    }

    /// Its length in bytes; `None` while its end is not known.
    pub fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Acquire)).filter(|length| *length != UNKNOWN)
    }

    /// The end has been found. Only the first call counts.
    pub fn set_length(&self, length: u64) {
        let _was_known =
            self.length.compare_exchange(UNKNOWN, length, Ordering::AcqRel, Ordering::Acquire).is_err();
    }

    /// How many whole slices its tier holds.
    pub fn tier_slices(&self) -> u64 {
        self.tier.slices_max()
    }

    /// Whether one more of its slices drives out another.
    pub fn is_tier_full(&self) -> bool {
        self.tier.is_full()
    }

    /// Bytes of every slice but the last.
    pub fn slice_bytes(&self) -> u32 {
        self.tier.slice_bytes()
    }

    /// The slice with this byte, and the byte's place in it.
    pub fn locate(&self, offset: u64) -> (u32, u32) {
        let bytes = u64::from(self.slice_bytes());
        let slice = u32::try_from(offset / bytes).unwrap_or(u32::MAX);
        (slice, u32::try_from(offset % bytes).unwrap_or(0))
    }

    /// Bytes that belong to a slice, as far as is known.
    pub fn slice_length(&self, slice: u32) -> u32 {
        let bytes = self.slice_bytes();
        self.length().map_or(bytes, |length| slice_length(length, slice, bytes))
    }

    /// What is at the place of a slice. Where nothing is, the caller is now the one who fills it.
    pub fn slice(self: &Arc<Self>, slice: u32) -> Part<D> {
        let mut inner = self.inner();
        match inner.slices.get(slice) {
            Some(State::Here(slot)) => return Part::Here(Lease::of_slot(slot)),
            Some(State::OnDisk(slice)) => {
                if let Some(lease) = Lease::of_disk(slice) {
                    return Part::Here(lease);
                }
            }
            Some(State::Filling(filling)) => return Part::Coming(filling.follow()),
            Some(State::Missing) | None => {}
        }
        let filling = Filling::new();
        inner.slices.set(slice, State::Filling(Arc::clone(&filling)));
        drop(inner);
        Part::Missing(SliceFill::new(Arc::clone(self), slice, filling))
    }

    /// A request wants this slice, which is there or coming. Whoever asks calls it once for each slice, so that what is
    /// asked for again is told from what is not: it is kept longer, and moves between the tiers.
    pub fn count_request(self: &Arc<Self>, slice: u32) {
        let inner = self.inner();
        match inner.slices.get(slice) {
            Some(State::Here(slot)) => {
                let slot = Arc::clone(slot);
                slot.count_request();
                self.offer_to_disk(&inner, slice, &slot);
            }
            Some(State::OnDisk(on_disk)) => {
                let on_disk = Arc::clone(on_disk);
                drop(inner);
                self.maybe_promote(slice, &on_disk);
            }
            Some(State::Filling(filling)) => filling.count_request(),
            Some(State::Missing) | None => {}
        }
    }

    /// Slices that are there.
    pub fn slices_here(&self) -> usize {
        self.inner()
            .slices
            .all()
            .iter()
            .filter(|state| matches!(state, State::Here(_) | State::OnDisk(_)))
            .count()
    }

    pub(crate) fn tier(&self) -> &Arc<MemoryTier> {
        &self.tier
    }

    /// Others may have it from now on, and the next process too; what is written down of it is brought up to date.
    pub(crate) fn keep(&self) {
        let mut inner = self.inner();
        let newly = !inner.kept;
        inner.kept = true;
        let here: Vec<_> = inner.here().collect();
        // The newest of several descriptions counts, so that one of them is enough.
        let count = if newly { here.len() } else { 1 };
        for (slice, slot) in here.into_iter().take(count) {
            self.note(&mut inner, slice, &slot);
        }
    }

    /// Earlier versions on disks are not to be found any more.
    pub(crate) fn supersede(&self) {
        if let Some(disks) = self.tier.disks() {
            disks.forget(&self.key, self.id.saturating_sub(1), Versions::But(self.id));
        }
    }

    /// Nobody is to find it any more, not in the next process either. Who reads it may finish.
    pub(crate) fn give_up(&self) {
        let mut inner = self.inner();
        inner.kept = false;
        for (_, slot) in inner.here() {
            slot.strike_out();
        }
        drop(inner);
        if let Some(disks) = self.tier.disks() {
            disks.forget(&self.key, self.id, Versions::Only(self.id));
        }
    }

    /// Has a slice written to a disk, if it is worth that.
    fn offer_to_disk(self: &Arc<Self>, inner: &Inner, slice: u32, slot: &Arc<Slot>) {
        let (Some(disks), Some(object_length), true) = (self.tier.disks(), self.length(), inner.kept) else {
            return;
        };
        let on_disk = slot.on_disk.load(Ordering::Relaxed);
        if !disks.admits(slot.requests(), on_disk, slot.written()) {
            return;
        }
        let mut description = Vec::with_capacity(1024);
        self.description.encode(&mut description);
        if description.is_empty() || disks.has(&self.wanted(slice)) {
            slot.on_disk.store(true, Ordering::Relaxed);
            return;
        }
        let (key, object, owner, slot_kept) = (self.key, self.id, self.holder(), Arc::clone(slot));
        let job = SliceJob { key, object, object_length, slice, description, slot: slot_kept, owner };
        slot.on_disk.store(disks.write(job), Ordering::Relaxed);
    }

    /// Brings a slice back to memory, if it is worth that.
    fn maybe_promote(self: &Arc<Self>, slice: u32, on_disk: &Arc<DiskSlice>) {
        let requests = on_disk.requests.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if !comes_to_memory(requests) || on_disk.promoting.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(disks) = self.tier.disks() else { return };
        // A tier that is full of what is being sent has none; it stays on the disk then.
        let Some(slot) = self.tier.reserve(on_disk.length()) else { return };
        let (filled, this) = (Arc::clone(&slot), Arc::clone(self));
        let take = move |bytes: &[u8]| match filled.append(bytes)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(std::io::ErrorKind::WriteZero.into()),
        };
        let done = move || this.promoted(slice, &slot);
        if !disks.promote(self.wanted(slice), on_disk.place, take, done) {
            // Too much to do; the next request tries again.
            on_disk.promoting.store(false, Ordering::Relaxed);
        }
    }

    fn promoted(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        slot.settle();
        slot.on_disk.store(true, Ordering::Relaxed);
        // It has been asked for more than once.
        slot.count_request();
        let mut inner = self.inner();
        if !matches!(inner.slices.get(slice), Some(State::OnDisk(_))) {
            // It has changed meanwhile, and this is one too many.
            return;
        }
        inner.slices.set(slice, State::Here(Arc::clone(slot)));
        if inner.kept {
            self.note(&mut inner, slice, slot);
        }
        drop(inner);
        self.tier.keep(slot, self.holder(), slice, ghost(&self.key, slice));
    }

    pub(crate) fn is_on_disk(&self, slice: u32, on_disk: &Arc<DiskSlice>) {
        self.inner().slices.set(slice, State::OnDisk(Arc::clone(on_disk)));
    }

    pub(crate) fn wanted(&self, slice: u32) -> Wanted {
        Wanted { key: self.key, object: self.id, slice }
    }

    fn note(&self, inner: &mut Inner, slice: u32, slot: &Slot) {
        inner.revision = inner.revision.wrapping_add(1);
        let mut description = Vec::with_capacity(1024);
        self.description.encode(&mut description);
        let record = SlotRecord {
            key: self.key,
            object: self.id,
            object_length: self.length(),
            slice,
            revision: inner.revision,
            ..SlotRecord::default()
        };
        slot.note(&Note { record, description: &description });
    }

    pub(crate) fn filled(self: &Arc<Self>, slice: u32, slot: &Arc<Slot>) {
        let mut inner = self.inner();
        inner.slices.set(slice, State::Here(Arc::clone(slot)));
        if inner.kept {
            self.note(&mut inner, slice, slot);
        }
        drop(inner);
        if self.tier.keep(slot, self.holder(), slice, ghost(&self.key, slice)) {
            // It was asked for before it had to go, so this is not the first time.
            slot.count_request();
        }
        self.offer_to_disk(&self.inner(), slice, slot);
    }

    pub(crate) fn not_filled(&self, slice: u32) {
        self.inner().slices.set(slice, State::Missing);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn here(&self) -> impl Iterator<Item = (u32, Arc<Slot>)> + use<'_> {
        (0..).zip(self.slices.all()).filter_map(|(slice, state)| match state {
            State::Here(slot) => Some((slice, Arc::clone(slot))),
            State::Missing | State::Filling(_) | State::OnDisk(_) => None,
        })
    }
}

impl<D: Describe> Drop for Object<D> {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if inner.slices.all().len() > SLICES_DROPPED_AT_ONCE {
            let slots = inner.here().map(|(_, slot)| slot).collect();
            inner.slices = Slices::default();
            self.tier.drop_later(slots);
        }
    }
}

impl<D: Describe> Holder for Object<D> {
    fn let_go(&self, slice: u32) {
        let mut inner = self.inner();
        let here =
            inner.slices.all_mut().get_mut(slice as usize).filter(|state| matches!(state, State::Here(_)));
        let gone = here.map(std::mem::take);
        drop(inner);
        // Dropped here, without our lock: it may be the last holder, and giving back pages takes a moment.
        drop(gone);
    }

    fn is_kept(&self) -> bool {
        self.inner().kept
    }
}
