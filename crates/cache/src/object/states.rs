//! What is known of the slices of an object.

use std::sync::Arc;

use crate::disk::DiskSlice;
use crate::memory::Slot;
use crate::slice::Filling;

/// Where a slice is.
#[derive(Clone, Default)]
pub(super) enum State {
    #[default]
    Missing,
    Filling(Arc<Filling>),
    Here(Arc<Slot>),
    /// On a disk, and its bytes have been found right.
    OnDisk(Arc<DiskSlice>),
}

/// What is known of an object's slices. Most objects have one.
pub(super) enum Slices {
    One(State),
    Many(Vec<State>),
}

impl Default for Slices {
    fn default() -> Self {
        Self::One(State::Missing)
    }
}

impl Slices {
    pub(super) fn all(&self) -> &[State] {
        match self {
            Self::One(state) => std::slice::from_ref(state),
            Self::Many(states) => states,
        }
    }

    pub(super) fn all_mut(&mut self) -> &mut [State] {
        match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
        }
    }

    pub(super) fn get(&self, slice: u32) -> Option<&State> {
        self.all().get(slice as usize)
    }

    pub(super) fn set(&mut self, slice: u32, state: State) {
        let place = slice as usize;
        if place >= self.all().len() {
            let mut states = match std::mem::take(self) {
                Self::One(first) => vec![first],
                Self::Many(states) => states,
            };
            states.resize_with(place + 1, State::default);
            *self = Self::Many(states);
        }
        self.all_mut()[place] = state;
    }
}
