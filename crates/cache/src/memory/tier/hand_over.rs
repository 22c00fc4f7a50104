//! A tier passes to a successor that runs beside this process, without an empty moment and without wrong bytes.
//!
//! The process that gives its tier away writes nothing to its files from then on but what it is filling already. It goes on
//! reading, and says from time to time which slots it still needs ([`BusySlots`]). The successor finds the slices by their
//! records. It evicts nothing until the first list of a predecessor that has stopped finding slices, and neither writes to nor
//! punches slots that are on the last list, until that process has ended.

use penstock_sys::lock::Unpoisoned;

use super::MemoryTier;
use crate::memory::limits::PAGE_BYTES;
use crate::memory::predecessor::{BusySlots, GivenTier, Predecessor};
use crate::memory::record;
use crate::memory::slice_file::punch_data;

/// Whose the files of a tier are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Owner {
    /// This process uses them.
    This,
    /// A successor uses them, and this process reads.
    Successor,
    /// The next process will: this one is about to end, and gives nothing back.
    Next,
}

impl MemoryTier {
    /// Gives the tier to a successor. `None` if it has no directory, is out of service, or does not belong to this process.
    pub(crate) fn give_away(&self) -> Option<GivenTier> {
        // No record is written or cleared, and no slot is taken or given back, while this is held.
        let mut owner = self.owner.write().unpoisoned();
        if *owner != Owner::This
            || self.directory.is_none()
            || self.has_predecessor()
            || !self.is_in_service()
        {
            return None;
        }
        let slices = self.current_file().filter(|file| file.is_whole())?.file().try_clone().ok()?;
        *owner = Owner::Successor;
        let slots = self.slots();
        if let Some(queue) = &self.queue {
            queue.write(&slots.popular());
        }
        Some(GivenTier { slices, busy: BusySlots { slots: slots.busy() } })
    }

    /// Whether a successor has the tier.
    pub fn has_successor(&self) -> bool {
        *self.owner() == Owner::Successor
    }

    /// Whether the process that had the tier before still reads from it.
    pub fn has_predecessor(&self) -> bool {
        !matches!(self.slots().predecessor, Predecessor::Gone)
    }

    /// The slots that this process still needs, for the successor.
    pub(crate) fn busy_slots(&self) -> BusySlots {
        BusySlots { slots: self.slots().busy() }
    }

    /// Uses the tier again: the successor has ended before it served long.
    pub(crate) fn take_back(&self) {
        let mut owner = self.owner.write().unpoisoned();
        if *owner != Owner::Successor {
            return;
        }
        *owner = Owner::This;
        // The successor may have written to slots that are free here.
        let free = self.slots().free_ranges();
        for range in free {
            let of_records = record::place(range.start)..record::place(range.end);
            let _stays_until_used = punch_data(&self.records, &of_records);
            if let Some(file) = self.current_file() {
                let _stays_until_used = punch_data(file.file(), &self.layout.range(range));
            }
        }
        let forgotten = std::mem::take(&mut self.slots().forgotten);
        drop(owner);
        for number in forgotten {
            self.clear_record(number);
            self.release(number);
        }
    }

    /// Takes over the slots that the predecessor needs and that have no record: they stay as they are until it has ended.
    pub(in crate::memory) fn hold_for_predecessor(&self, busy: &BusySlots, restored: &[u32]) {
        let mut slots = self.slots();
        slots.predecessor = Predecessor::Serving(busy.numbers().collect());
        let last = self.layout.slots();
        for (number, pages) in busy.slots.iter().filter(|(number, _)| *number < last) {
            if restored.binary_search(number).is_err() {
                slots.set_pages(*number, *pages);
                slots.put_unpunched(*number);
                self.add_bytes(u64::from(*pages) * PAGE_BYTES);
            }
        }
    }

    /// What the predecessor still needs; `None` if it has ended.
    pub(crate) fn set_predecessor(&self, busy: Option<&BusySlots>) {
        let mut slots = self.slots();
        if matches!(slots.predecessor, Predecessor::Gone) {
            return;
        }
        slots.predecessor = match busy {
            Some(busy) => Predecessor::Ending(busy.numbers().collect()),
            None => Predecessor::Gone,
        };
        let waiting = slots.unpunched_count();
        drop(slots);
        for _ in 0..waiting {
            // Each is tried once; those that are still needed wait again.
            self.punch_again(1);
        }
    }
}
