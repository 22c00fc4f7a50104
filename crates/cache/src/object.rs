//! One version of one object: what it is, how long it is, and which of its slices are there.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::memory::{Holder, Left, MemoryTier, Note, Slot, SlotRecord, ghost, slice_length};
use crate::slice::{Filling, Follower, Lease, SliceFill};
use crate::{Describe, Key};

/// One version of an object. A changed object is another one, so bytes of two versions never meet.
pub struct Object<D: Describe> {
    key: Key,
    /// Greater than that of every earlier version.
    id: u64,
    description: D,
    length: OnceLock<u64>,
    tier: Arc<MemoryTier>,
    inner: Mutex<Inner>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Inner {
    slices: Vec<State>,
    /// Whether others may have it, and the next process is to know of it.
    kept: bool,
    /// Times that its description has been written down.
    revision: u32,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Missing,
    Filling(Arc<Filling>),
    Here(Arc<Slot>),
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
            set(&mut inner.slices, record.slice, State::Here(Arc::clone(slot)));
            inner.revision = inner.revision.max(record.revision);
        }
        let object = Self::make(*key, id, description, length, tier, inner);
        for Left { slot, .. } in left {
            let holder: Weak<dyn Holder> = object.this.clone();
            object.tier.hand_over(slot, holder);
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
        Arc::new_cyclic(|this| Self {
            key,
            id,
            description,
            length: length.map_or_else(OnceLock::new, OnceLock::from),
            tier,
            inner: Mutex::new(inner),
            this: this.clone(),
        })
    }

    /// What it is.
    pub fn description(&self) -> &D {
        &self.description
    }

    /// Its length in bytes; `None` while its end is not known.
    pub fn length(&self) -> Option<u64> {
        self.length.get().copied()
    }

    /// The end has been found. Only the first call counts.
    pub fn set_length(&self, length: u64) {
        self.length.get_or_init(|| length);
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
    pub fn slice(&self, slice: u32) -> Part<D> {
        let mut inner = self.inner();
        match inner.slices.get(slice as usize) {
            Some(State::Here(slot)) => return Part::Here(Lease::new(slot)),
            Some(State::Filling(filling)) => return Part::Coming(filling.follow()),
            Some(State::Missing) | None => {}
        }
        let filling = Filling::new();
        set(&mut inner.slices, slice, State::Filling(Arc::clone(&filling)));
        drop(inner);
        let this = self.this.upgrade().expect("somebody calls this, so it lives");
        Part::Missing(SliceFill::new(this, slice, filling))
    }

    /// Slices that are there.
    pub fn slices_here(&self) -> usize {
        self.inner().slices.iter().filter(|state| matches!(state, State::Here(_))).count()
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

    /// Nobody is to find it any more, not in the next process either. Who reads it may finish.
    pub(crate) fn give_up(&self) {
        let mut inner = self.inner();
        inner.kept = false;
        for (_, slot) in inner.here() {
            slot.strike_out();
        }
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

    pub(crate) fn filled(&self, slice: u32, slot: &Arc<Slot>) {
        let mut inner = self.inner();
        set(&mut inner.slices, slice, State::Here(Arc::clone(slot)));
        if inner.kept {
            self.note(&mut inner, slice, slot);
        }
        drop(inner);
        let holder: Weak<dyn Holder> = self.this.clone();
        self.tier.keep(slot, holder, slice, ghost(&self.key, slice));
    }

    pub(crate) fn not_filled(&self, slice: u32) {
        set(&mut self.inner().slices, slice, State::Missing);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn here(&self) -> impl Iterator<Item = (u32, Arc<Slot>)> + use<'_> {
        (0..).zip(&self.slices).filter_map(|(slice, state)| match state {
            State::Here(slot) => Some((slice, Arc::clone(slot))),
            State::Missing | State::Filling(_) => None,
        })
    }
}

impl<D: Describe> Holder for Object<D> {
    fn let_go(&self, slice: u32) {
        let gone = self.inner().slices.get_mut(slice as usize).map(std::mem::take);
        // Dropped here, without our lock: it may be the last holder, and giving back pages takes a moment.
        drop(gone);
    }
}

fn set(slices: &mut Vec<State>, slice: u32, state: State) {
    let place = slice as usize;
    if slices.len() <= place {
        slices.resize_with(place + 1, State::default);
    }
    slices[place] = state;
}
