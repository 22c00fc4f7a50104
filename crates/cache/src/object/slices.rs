//! The slices of an object: those in memory without a lock, all others behind the object's.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::disk::DiskSlice;
use crate::filling::Filling;
use crate::memory::Slot;

/// Slices of one chunk.
const CHUNK_SLICES: u32 = 16;

/// The complete slices in memory. Readers take no lock; writers hold the lock of the object.
///
/// Most objects have one slice. Those behind it lie in chunks, and only chunks with slices take memory: the number of
/// a slice comes from clients and from files of earlier processes, and must not decide how much is allocated.
#[derive(Default)]
pub(super) struct MemorySlices {
    first: ArcSwapOption<Slot>,
    chunks: ArcSwapOption<Vec<Chunk>>,
}

/// Consecutive slices; a clone shares them.
#[derive(Clone)]
struct Chunk {
    number: u32,
    slots: Arc<[ArcSwapOption<Slot>; CHUNK_SLICES as usize]>,
}

impl Chunk {
    fn new(number: u32) -> Self {
        Self { number, slots: Arc::default() }
    }

    fn slot(&self, slice: u32) -> &ArcSwapOption<Slot> {
        &self.slots[(slice % CHUNK_SLICES) as usize]
    }

    fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.load().is_none())
    }
}

fn find(chunks: &[Chunk], slice: u32) -> Result<usize, usize> {
    chunks.binary_search_by_key(&(slice / CHUNK_SLICES), |chunk| chunk.number)
}

impl MemorySlices {
    /// The slot of a slice. While a writer is at work, a slice may seem to be missing; its lock tells then.
    pub(super) fn get(&self, slice: u32) -> Option<Arc<Slot>> {
        if slice == 0 {
            return self.first.load_full();
        }
        let chunks = self.chunks.load();
        let chunks = chunks.as_deref()?;
        chunks[find(chunks, slice).ok()?].slot(slice).load_full()
    }

    /// Calls `look` with the slot of a slice, if it is there; cheaper than [`Self::get`].
    pub(super) fn look_at<T>(&self, slice: u32, look: impl FnOnce(&Arc<Slot>) -> T) -> Option<T> {
        if slice == 0 {
            return self.first.load().as_ref().map(look);
        }
        let chunks = self.chunks.load();
        let chunks = chunks.as_deref()?;
        chunks[find(chunks, slice).ok()?].slot(slice).load().as_ref().map(look)
    }

    /// Adds a slice; returns the one before it.
    pub(super) fn insert(&self, slice: u32, slot: Arc<Slot>) -> Option<Arc<Slot>> {
        if slice == 0 {
            return self.first.swap(Some(slot));
        }
        let chunks = self.chunks.load();
        let chunks = chunks.as_deref().map_or(&[][..], Vec::as_slice);
        match find(chunks, slice) {
            Ok(place) => chunks[place].slot(slice).swap(Some(slot)),
            Err(_) => {
                let chunk = Chunk::new(slice / CHUNK_SLICES);
                chunk.slot(slice).store(Some(slot));
                let mut more: Vec<_> = chunks.iter().filter(|chunk| !chunk.is_empty()).cloned().collect();
                let place = find(&more, slice).unwrap_or_else(|place| place);
                more.insert(place, chunk);
                self.chunks.store(Some(Arc::new(more)));
                None
            }
        }
    }

    /// Removes a slice.
    pub(super) fn remove(&self, slice: u32) -> Option<Arc<Slot>> {
        if slice == 0 {
            return self.first.swap(None);
        }
        let chunks = self.chunks.load();
        let chunks = chunks.as_deref()?;
        chunks[find(chunks, slice).ok()?].slot(slice).swap(None)
    }

    /// Whether there is no slice.
    pub(super) fn is_empty(&self) -> bool {
        let chunks = self.chunks.load();
        self.first.load().is_none() && chunks.iter().flat_map(|chunks| chunks.iter()).all(Chunk::is_empty)
    }

    /// Takes all slices out; the object is being dropped.
    pub(super) fn take_all(&self) -> Vec<Arc<Slot>> {
        let chunks = self.chunks.swap(None);
        let slots = chunks.iter().flat_map(|chunks| chunks.iter()).flat_map(|chunk| chunk.slots.iter());
        self.first.swap(None).into_iter().chain(slots.filter_map(|slot| slot.swap(None))).collect()
    }

    /// All slices.
    pub(super) fn all(&self) -> Vec<(u32, Arc<Slot>)> {
        let first = self.first.load_full().map(|slot| (0, slot));
        let chunks = self.chunks.load_full();
        let others = chunks.iter().flat_map(|chunks| chunks.iter()).flat_map(|chunk| {
            let slots = (0..CHUNK_SLICES).zip(chunk.slots.iter());
            let first = chunk.number * CHUNK_SLICES;
            slots.filter_map(move |(place, slot)| Some((first + place, slot.load_full()?)))
        });
        first.into_iter().chain(others).collect()
    }
}

/// A slice that is not complete in memory.
#[derive(Clone)]
pub(super) enum OtherSlice {
    /// A fill is under way.
    Filling(Arc<Filling>),
    /// It lies on a disk, and its checksum was right.
    OnDisk(Arc<DiskSlice>),
}

/// The slices that are not complete in memory. Most objects have none, so the table is made when it is needed.
#[derive(Default)]
#[expect(clippy::box_collection, reason = "an empty one takes eight bytes of each object and not 24")]
pub(super) struct OtherSlices(Option<Box<BTreeMap<u32, OtherSlice>>>);

impl OtherSlices {
    pub(super) fn get(&self, slice: u32) -> Option<&OtherSlice> {
        self.0.as_ref()?.get(&slice)
    }

    pub(super) fn insert(&mut self, slice: u32, other: OtherSlice) {
        self.0.get_or_insert_default().insert(slice, other);
    }

    pub(super) fn remove(&mut self, slice: u32) {
        if let Some(slices) = &mut self.0 {
            slices.remove(&slice);
            if slices.is_empty() {
                self.0 = None;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Slices on disks.
    pub(super) fn on_disk(&self) -> usize {
        let slices = self.0.iter().flat_map(|slices| slices.values());
        slices.filter(|slice| matches!(slice, OtherSlice::OnDisk(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::memory::{MemoryTier, TierLimits};

    #[test]
    fn all_slices_are_taken_out_whether_there_are_chunks_or_not() {
        let limits = TierLimits { bytes: 1 << 20, slice_bytes: 1 << 16, scrub_bytes_per_second: 0 };
        let tier = MemoryTier::without_directory(limits, SystemTime::now()).unwrap();
        for numbers in [&[0][..], &[20], &[0, 1, 20]] {
            let slices = MemorySlices::default();
            for number in numbers {
                slices.insert(*number, Slot::reserve(&tier, 100).unwrap());
            }
            assert_eq!(slices.take_all().len(), numbers.len());
            assert!(slices.is_empty(), "{numbers:?}");
        }
    }
}
