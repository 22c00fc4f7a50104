//! How slots lie in the file of slices: in classes of rising size, each a region of its own.
//!
//! A slot takes memory only for the pages that are written, so a class costs address space and a number for each slot.
//! Every class has as many slots as could be filled with the least that its slots hold: the tier is full by bytes before
//! it runs out of slots. Small objects lie close together, which keeps the kernel's page tables small.

use std::ops::Range;

use super::limits::{DESCRIPTION_BYTES_MAX, PAGE_BYTES, TierLimits};

/// Size of the slots for the smallest objects, with their metadata.
const SMALL_BYTES: u64 = PAGE_BYTES;
/// Size of the next larger ones, in a tier whose slices are more than twice as large.
const MEDIUM_BYTES: u64 = 64 * 1024;
/// Classes, at most.
const CLASSES: usize = 3;

/// Slots of one size.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// From one slot to the next.
    stride: u64,
    slots: u32,
    /// The number of its first slot.
    first: u32,
    /// Offset of that.
    start: u64,
}

/// The slots of a tier. Depends on the limits only, so that the next process finds the same.
#[derive(Debug)]
pub(super) struct SlotLayout {
    classes: Vec<Class>,
    /// The first slots of the second and third class.
    bounds: [u32; CLASSES - 1],
}

impl SlotLayout {
    pub(super) fn new(limits: TierLimits) -> Self {
        let slice_bytes = u64::from(limits.slice_bytes);
        let whole = slice_bytes + DESCRIPTION_BYTES_MAX as u64;
        let mut classes: Vec<Class> = Vec::with_capacity(CLASSES);
        let mut smaller = 0;
        for stride in [SMALL_BYTES, MEDIUM_BYTES, whole] {
            if stride == MEDIUM_BYTES && slice_bytes <= 2 * MEDIUM_BYTES {
                continue;
            }
            // What would fit into a smaller slot lies there.
            let slots = limits.bytes.div_ceil(smaller + PAGE_BYTES).max(limits.bytes / slice_bytes).max(1);
            let (first, start) = classes.last().map_or((0, 0), |last| {
                (last.first + last.slots, last.start + u64::from(last.slots) * last.stride)
            });
            let slots = u32::try_from(slots).unwrap_or(u32::MAX).min((u32::MAX - first) / 2);
            classes.push(Class { stride, slots, first, start });
            smaller = stride;
        }
        let bound = |class: usize| classes.get(class).map_or(u32::MAX, |class| class.first);
        Self { bounds: [bound(1), bound(2)], classes }
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> u32 {
        self.classes.last().map_or(0, |last| last.first + last.slots)
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.classes.last().map_or(0, |last| last.start + u64::from(last.slots) * last.stride)
    }

    /// The class of the smallest slots with so much space.
    pub(super) fn class_for(&self, bytes: u64) -> usize {
        self.classes.partition_point(|class| class.stride < bytes).min(self.classes.len() - 1)
    }

    /// Slots of each class, the smallest first.
    pub(super) fn classes(&self) -> impl Iterator<Item = Range<u32>> {
        self.classes.iter().map(|class| class.first..class.first + class.slots)
    }

    /// The class of a slot.
    pub(super) fn class_of(&self, slot: u32) -> usize {
        // On the way of each hit: two comparisons instead of a search.
        usize::from(slot >= self.bounds[0]) + usize::from(slot >= self.bounds[1])
    }

    /// First byte of a slot.
    pub(super) fn start(&self, slot: u32) -> u64 {
        let class = &self.classes[self.class_of(slot)];
        class.start + u64::from(slot - class.first) * class.stride
    }

    /// Bytes of a slot.
    pub(super) fn space(&self, slot: u32) -> u64 {
        self.classes[self.class_of(slot)].stride
    }

    /// The bytes of consecutive slots.
    pub(super) fn range(&self, slots: Range<u32>) -> Range<u64> {
        let end = if slots.end < self.slots() { self.start(slots.end) } else { self.file_bytes() };
        self.start(slots.start)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_neither_overlap_nor_leave_gaps() {
        for (bytes, slice_bytes) in [(4096, 4096), (16 << 20, 64 << 10), (256 << 20, 1 << 20)] {
            let layout = SlotLayout::new(TierLimits { bytes, slice_bytes, scrub_bytes_per_second: 0 });
            let mut end = 0;
            for slot in (0..layout.slots()).step_by(7).chain([layout.slots() - 1]) {
                assert_eq!(
                    layout.range(slot..slot + 1),
                    layout.start(slot)..layout.start(slot) + layout.space(slot)
                );
            }
            for class in layout.classes() {
                assert_eq!(layout.start(class.start), end);
                end = layout.range(class).end;
            }
            assert_eq!(end, layout.file_bytes());
        }
    }

    #[test]
    fn whatever_the_size_of_objects_the_bytes_are_full_before_the_slots() {
        let limits = TierLimits { bytes: 256 << 20, slice_bytes: 1 << 20, scrub_bytes_per_second: 0 };
        let layout = SlotLayout::new(limits);
        for bytes in [1, 1000, 4096, 4097, 10_000, 65_536, 65_537, 300_000, 1 << 20] {
            let class = layout.class_for(bytes);
            let slots = layout.classes().nth(class).unwrap();
            assert!(layout.space(slots.start) >= bytes);
            let each = bytes.next_multiple_of(PAGE_BYTES);
            assert!(u64::try_from(slots.len()).unwrap() * each >= limits.bytes, "objects of {bytes} bytes");
        }
    }
}
