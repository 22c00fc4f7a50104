//! The space of the tier: slots are taken and given back, and slices are evicted for others.

use std::sync::atomic::Ordering;

use super::{MemoryTier, Owner, available_bytes};
use crate::memory::demand::Demand;
use crate::memory::limits::PAGE_BYTES;
use crate::memory::predecessor::Predecessor;
use crate::memory::slots::{KeptSlice, Slots};

/// Slices evicted for one that needs space, before that is refused, beside one for each page that it needs.
const EVICTIONS_MAX: u64 = 64;
/// Of the tier, the part that slices may take which were evicted while readers still hold them. With more nothing else is
/// evicted: readers that take bytes would lose that memory to readers that do not.
const EVICTED_SHARE: u64 = 2;
/// With this part of the tier readers have to hurry.
const EVICTED_SHARE_SHORT: u64 = 4;
/// Slots whose pages could not be given back that are tried again with each slot that is released.
const PUNCHED_AGAIN: usize = 8;

impl MemoryTier {
    /// Takes a free slot with `space` bytes for a slice of `bytes`; evicts others for it. `None` if even that does not
    /// help.
    pub(in crate::memory) fn take_slot(&self, bytes: u32, space: u64) -> Option<u32> {
        let bytes = u64::from(bytes.min(self.limits.slice_bytes)).next_multiple_of(PAGE_BYTES);
        let class = self.layout.class_for(space);
        let taken = self.evict_until(bytes, || self.take_free(bytes, class));
        if taken.is_none() {
            self.counts.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn take_free(&self, bytes: u64, class: usize) -> Option<u32> {
        let owner = self.owner();
        let mut slots = self.slots();
        if *owner != Owner::This
            || !self.is_in_service()
            || self.bytes.load(Ordering::Relaxed) + bytes > self.bytes_max()
        {
            return None;
        }
        let number = slots.take(class)?;
        slots.set_pages(number, pages(bytes));
        // Here and not by the first hit, which allocates nothing.
        self.uses.prepare(number);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(number)
    }

    /// Evicts slices until `attempt` has a result, but not more than are worth `bytes`.
    pub(super) fn evict_until<T>(&self, bytes: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..EVICTIONS_MAX + bytes / PAGE_BYTES {
            let result = attempt();
            if result.is_some() || !self.evict() && !self.punch_again(1) {
                return result;
            }
        }
        None
    }

    /// Evicts the next slice. False if there is none, or if readers hold too many evicted ones.
    fn evict(&self) -> bool {
        let owner = self.owner();
        let mut slots = self.slots();
        // A predecessor that still finds slices keeps what is evicted.
        if *owner != Owner::This
            || matches!(slots.predecessor, Predecessor::Serving(_))
            || self.is_evicted_over(&slots, EVICTED_SHARE)
        {
            return false;
        }
        let victim = slots.evict(&self.uses, self.copy_pages_max());
        // Neither is held: dropping the slot takes both.
        drop(slots);
        drop(owner);
        let Some((KeptSlice { holder, slice, .. }, remembered)) = victim else { return false };
        self.counts.evictions.fetch_add(1, Ordering::Relaxed);
        // Without the lock: dropping the slot ends in `release`, which takes it.
        if let Some(holder) = holder.upgrade() {
            if let (Some(class), Some(ghost)) = (remembered, holder.ghost(slice)) {
                self.slots().remember(ghost, class);
            }
            holder.release_slice(slice);
        }
        true
    }

    fn is_evicted_over(&self, slots: &Slots, share: u64) -> bool {
        slots.evicted_pages * PAGE_BYTES > self.bytes_max() / share
    }

    /// Whether others need the memory of a slice that a reader holds.
    pub(in crate::memory) fn demand(&self, number: u32) -> Demand {
        let slots = self.slots();
        match slots.is_evicted(number) {
            false => Demand::None,
            true if self.is_evicted_over(&slots, EVICTED_SHARE_SHORT) => Demand::Urgent,
            true => Demand::Some,
        }
    }

    /// Gives a slot and its pages back. The slot's record was cleared.
    pub(in crate::memory) fn release(&self, number: u32) {
        // First, so that the scrub does not take the hole for damage.
        drop(self.slots().remove(number));
        if self.give_back(number) {
            self.punch_again(PUNCHED_AGAIN);
        }
    }

    /// Punches the hole again for up to `count` slots that still have their pages. Returns whether a slot became free.
    pub(in crate::memory) fn punch_again(&self, count: usize) -> bool {
        let mut freed = false;
        for _ in 0..count {
            let next = self.slots().next_unpunched();
            let Some(number) = next else { break };
            if !self.give_back(number) {
                break;
            }
            freed = true;
        }
        freed
    }

    /// Punches a hole for the pages of a slot and makes it free. A slot that keeps its pages is not written over: it waits
    /// for the next attempt, and its pages stay counted.
    fn give_back(&self, number: u32) -> bool {
        // Sockets may still hold some of the pages; those live on without the file.
        let range = self.layout.range(number..number + 1);
        let is_held = self.slots().predecessor.holds(number);
        // Without a file there are no pages.
        let is_punched = !is_held && self.current_file().is_none_or(|file| file.punch(&range).is_ok());
        let mut slots = self.slots();
        if is_punched {
            let pages = slots.set_pages(number, 0);
            slots.put_back(number);
            self.bytes.fetch_sub(u64::from(pages) * PAGE_BYTES, Ordering::Relaxed);
        } else {
            slots.put_unpunched(number);
        }
        is_punched
    }

    /// Counts `bytes` for a slot instead of what was counted before.
    pub(in crate::memory) fn set_bytes(&self, number: u32, bytes: u64) {
        let now = pages(bytes);
        let before = self.slots().set_pages(number, now);
        self.bytes.fetch_add(u64::from(now) * PAGE_BYTES, Ordering::Relaxed);
        self.bytes.fetch_sub(u64::from(before) * PAGE_BYTES, Ordering::Relaxed);
    }

    /// Adapts the space that the tier may use to its file system.
    pub(in crate::memory) fn adapt_to_space(&self) {
        let Some(slices) = self.current_file() else { return };
        if let Ok(available) = available_bytes(slices.file(), [slices.file(), &self.records]) {
            self.bytes_max.store(available.min(self.limits.bytes), Ordering::Relaxed);
        }
    }
}

/// Pages that so many bytes take.
fn pages(bytes: u64) -> u16 {
    // The largest slice has 4,096 of them.
    u16::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(u16::MAX)
}
