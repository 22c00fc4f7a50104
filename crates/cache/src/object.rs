//! One version of one object: what it is, how long it is, and which of its slices are there.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::Key;
use crate::memory::{Holder, MemoryTier, Slot};
use crate::slice::{Filling, Follower, Lease, SliceFill};

/// One version of an object. A changed object is another one, so bytes of two versions never meet.
pub struct Object<D: Send + Sync + 'static> {
    description: D,
    length: OnceLock<u64>,
    tier: Arc<MemoryTier>,
    ghost: u64,
    slices: Mutex<Vec<State>>,
    this: Weak<Self>,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Missing,
    Filling(Arc<Filling>),
    Here(Arc<Slot>),
}

/// What a reader finds where a slice belongs.
pub enum Part<D: Send + Sync + 'static> {
    /// The slice is there.
    Here(Lease),
    /// Somebody fills it.
    Coming(Follower),
    /// It is not there, and now the finder's to fill.
    Missing(SliceFill<D>),
}

impl<D: Send + Sync + 'static> Object<D> {
    /// An object without any slice yet. `length` is `None` until its end is known.
    pub fn new(key: &Key, description: D, length: Option<u64>, tier: Arc<MemoryTier>) -> Arc<Self> {
        let (ghost, _) = key.split_first_chunk().expect("a key is longer than eight bytes");
        Arc::new_cyclic(|this| Self {
            description,
            length: length.map_or_else(OnceLock::new, OnceLock::from),
            tier,
            ghost: u64::from_ne_bytes(*ghost),
            slices: Mutex::new(Vec::new()),
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
        let before = u64::from(slice) * u64::from(bytes);
        match self.length() {
            Some(length) => u32::try_from(length.saturating_sub(before)).unwrap_or(u32::MAX).min(bytes),
            None => bytes,
        }
    }

    /// What is at the place of a slice. Where nothing is, the caller is now the one who fills it.
    pub fn slice(&self, slice: u32) -> Part<D> {
        let mut slices = self.slices();
        match slices.get(slice as usize) {
            Some(State::Here(slot)) => return Part::Here(Lease::new(slot)),
            Some(State::Filling(filling)) => return Part::Coming(filling.follow()),
            Some(State::Missing) | None => {}
        }
        let filling = Filling::new();
        set(&mut slices, slice, State::Filling(Arc::clone(&filling)));
        drop(slices);
        let this = self.this.upgrade().expect("somebody calls this, so it lives");
        Part::Missing(SliceFill::new(this, slice, filling))
    }

    /// Slices that are there.
    pub fn slices_here(&self) -> usize {
        self.slices().iter().filter(|state| matches!(state, State::Here(_))).count()
    }

    pub(crate) fn tier(&self) -> &Arc<MemoryTier> {
        &self.tier
    }

    pub(crate) fn filled(&self, slice: u32, slot: &Arc<Slot>) {
        set(&mut self.slices(), slice, State::Here(Arc::clone(slot)));
        let holder: Weak<dyn Holder> = self.this.clone();
        self.tier.keep(slot, holder, slice, self.ghost.wrapping_add(u64::from(slice)));
    }

    pub(crate) fn not_filled(&self, slice: u32) {
        set(&mut self.slices(), slice, State::Missing);
    }

    fn slices(&self) -> MutexGuard<'_, Vec<State>> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Send + Sync + 'static> Holder for Object<D> {
    fn let_go(&self, slice: u32) {
        let gone = self.slices().get_mut(slice as usize).map(std::mem::take);
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
