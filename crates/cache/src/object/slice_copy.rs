//! Copies of slices: a popular small object is sent from the memory of the process, without its tier.

use std::convert::Infallible;
use std::sync::{Arc, Weak};

use super::Object;
use crate::memory::Slot;
use crate::metadata::Metadata;

/// A copy of a slice that was in memory.
#[derive(Debug)]
pub struct SliceCopy {
    /// Where it was. The reference keeps the address from being that of another slot.
    slot: Weak<Slot>,
    bytes: Arc<[u8]>,
}

impl<D: Metadata> Object<D> {
    /// A copy of a slice; `None` unless all of it is in memory, and as its checksum says.
    pub fn copy_slice(&self, slice: u32) -> Option<SliceCopy> {
        let slot = self.in_memory.get(slice).filter(|slot| slot.is_trusted())?;
        let mut bytes = Vec::with_capacity(slot.written() as usize);
        let copied = slot.copy_to(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, Infallible>(())
        });
        let is_right = copied.is_ok_and(|checksum| checksum == slot.checksum());
        is_right.then(|| SliceCopy { slot: Arc::downgrade(&slot), bytes: bytes.into() })
    }

    /// The bytes of a copy, with a request counted for their slice; `None` if the slice is not where it was copied from,
    /// or is not trusted any more.
    pub fn request_copy(self: &Arc<Self>, slice: u32, copy: &SliceCopy) -> Option<Arc<[u8]>> {
        let bytes = self.in_memory.look_at(slice, |slot| {
            let is_same = Arc::as_ptr(slot) == copy.slot.as_ptr() && slot.is_trusted();
            is_same.then(|| {
                slot.count_request();
                self.offer_to_disk(slice, slot);
                Arc::clone(&copy.bytes)
            })
        });
        bytes.flatten()
    }
}
