//! Filling a slice: one fill, which belongs to no reader, and any number of followers.

use std::sync::Arc;

use crate::filling::{FillError, FillPlace, Filling, Follower};
use crate::lease::Lease;
use crate::memory::Slot;
use crate::metadata::Metadata;
use crate::object::{FoundSlice, Object};

/// A slice, as [`Object::claim_slice`] finds it.
pub enum SliceClaim<D: Metadata> {
    /// It is complete.
    Ready(Lease),
    /// Another fill is under way.
    Filling(Follower),
    /// It is missing; the caller has to fill it.
    Missing(SliceFill<D>),
}

impl<D: Metadata> Object<D> {
    /// Finds a slice. On a miss, returns the fill of the slice: the caller has to bring the bytes.
    pub fn claim_slice(self: &Arc<Self>, slice: u32) -> SliceClaim<D> {
        match self.find_slice(slice) {
            FoundSlice::Ready(lease) => SliceClaim::Ready(lease),
            FoundSlice::Filling(follower) => SliceClaim::Filling(follower),
            FoundSlice::Claimed(filling) => SliceClaim::Missing(SliceFill {
                object: Arc::clone(self),
                slice,
                filling,
                unnotified: 0,
                ended: false,
            }),
        }
    }
}

/// The one fill of a slice. If it is dropped before [`Self::finish`], it has failed and the next reader may try.
pub struct SliceFill<D: Metadata> {
    object: Arc<Object<D>>,
    slice: u32,
    filling: Arc<Filling>,
    unnotified: usize,
    ended: bool,
}

impl<D: Metadata> SliceFill<D> {
    /// The number of the slice in its object.
    pub fn slice(&self) -> u32 {
        self.slice
    }

    /// The object of the slice.
    pub fn object(&self) -> &Arc<Object<D>> {
        &self.object
    }

    /// Follows this fill.
    pub fn follow(&self) -> Follower {
        self.filling.follow()
    }

    /// Takes the space for the bytes, which the first [`Self::append`] does otherwise.
    ///
    /// # Errors
    /// [`FillError::NoSpace`]; the fill may try again or be dropped.
    pub fn reserve(&self) -> Result<(), FillError> {
        self.slot().map(drop)
    }

    /// Appends as many bytes as belong to this slice, and wakes its readers. Returns the number of bytes.
    ///
    /// # Errors
    /// See [`FillError`]; the fill has to be dropped then.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, FillError> {
        let appended = self.append_unnotified(bytes)?;
        self.notify_readers();
        Ok(appended)
    }

    /// Like [`Self::append`], but wakes no reader; a reader that looks sees the bytes. [`Self::notify_readers`] or the
    /// end of the fill has to follow.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_unnotified(&mut self, bytes: &[u8]) -> Result<usize, FillError> {
        let slot = self.slot()?;
        let appended = slot.append(bytes)?;
        let bytes = slot.written();
        self.filling.progress.send_if_modified(|progress| {
            progress.bytes = bytes;
            false
        });
        self.unnotified += appended;
        Ok(appended)
    }

    /// Wakes the readers that wait for bytes appended since the last notification.
    pub fn notify_readers(&mut self) {
        if std::mem::take(&mut self.unnotified) > 0 {
            self.filling.progress.send_modify(|_| ());
        }
    }

    /// Bytes appended since the last notification.
    pub fn unnotified_bytes(&self) -> usize {
        self.unnotified
    }

    /// Readers that follow this fill.
    pub fn followers(&self) -> usize {
        self.filling.progress.receiver_count()
    }

    /// Whether the slice has all its bytes. Never true of the last slice of an object of unknown length.
    pub fn is_full(&self) -> bool {
        self.written() == self.object.slice_length(self.slice)
    }

    /// Bytes so far.
    pub fn written(&self) -> u32 {
        self.filling.place.get().map_or(0, |place| match place {
            FillPlace::Memory(slot) => slot.written(),
            FillPlace::Disk(slice) => slice.length(),
        })
    }

    /// Notes that another node keeps the slice: it counts as a copy, see [`MemoryTier::limit_copies`], and goes to no disk.
    ///
    /// [`MemoryTier::limit_copies`]: crate::MemoryTier::limit_copies
    pub fn mark_copy(&self) {
        if let Some(FillPlace::Memory(slot)) = self.filling.place.get() {
            slot.make_copy();
        }
    }

    /// Ends the fill: the slice is complete.
    pub fn finish(mut self) {
        self.ended = true;
        match self.filling.place.get() {
            Some(FillPlace::Memory(slot)) => {
                slot.settle();
                self.object.finish_fill(self.slice, slot);
            }
            Some(FillPlace::Disk(slice)) => self.object.finish_fill_from_disk(self.slice, slice),
            None => self.object.abandon_fill(self.slice),
        }
        self.filling.progress.send_modify(|progress| progress.complete = true);
    }

    /// Restores the slice from memory, where an earlier process left it, or from a disk; the fill is complete then.
    ///
    /// # Errors
    /// The fill itself, if no tier has the slice: the bytes have to come from elsewhere.
    pub async fn restore(mut self) -> Result<(), Self> {
        let tiers = Arc::clone(self.object.tiers());
        if let Some(slot) = self.filling.take_unverified()
            && tiers.scrubber().verify(&slot).await
            && self.set_place(FillPlace::Memory(Arc::clone(&slot)), slot.written())
        {
            self.ended = true;
            self.object.finish_verification(self.slice, &slot);
            self.filling.progress.send_modify(|progress| progress.complete = true);
            return Ok(());
        }
        let Some(disks) = tiers.disks() else { return Err(self) };
        let Some(slice) = disks.read(self.object.slice_name(self.slice)).await else { return Err(self) };
        let length = slice.length();
        if length != self.object.slice_length(self.slice)
            || !self.set_place(FillPlace::Disk(Arc::new(slice)), length)
        {
            return Err(self);
        }
        self.finish();
        Ok(())
    }

    /// Sets the place of the slice, with all its bytes. False if the fill has one already.
    fn set_place(&self, place: FillPlace, bytes: u32) -> bool {
        let is_set = self.filling.place.set(place).is_ok();
        if is_set {
            self.filling.progress.send_modify(|progress| progress.bytes = bytes);
        }
        is_set
    }

    fn slot(&self) -> Result<Arc<Slot>, FillError> {
        match self.filling.place.get() {
            Some(FillPlace::Memory(slot)) => return Ok(Arc::clone(slot)),
            // A slice on a disk is complete.
            Some(FillPlace::Disk(_)) => return Err(FillError::NoSpace),
            None => {}
        }
        let memory = self.object.tiers().memory();
        let slot = Slot::reserve(memory, self.object.slice_length(self.slice)).ok_or(FillError::NoSpace)?;
        // Only this one fill sets the place.
        drop(self.filling.place.set(FillPlace::Memory(Arc::clone(&slot))));
        Ok(slot)
    }
}

impl<D: Metadata> Drop for SliceFill<D> {
    fn drop(&mut self) {
        if !self.ended {
            self.object.abandon_fill(self.slice);
            self.filling.progress.send_modify(|progress| progress.failed = true);
        }
    }
}
