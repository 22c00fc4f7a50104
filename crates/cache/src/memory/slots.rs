//! The slots of a tier: which are free, which are kept, and in which order those are evicted.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{OnceLock, Weak};

use super::holder::Holder;
use super::layout::SlotLayout;
use super::predecessor::Predecessor;
use crate::s3_fifo::{Candidate, S3Fifo, Uses};

/// Slots whose counters of uses are allocated together.
const USES_CHUNK: usize = 4096;
/// Entries of the eviction order without a slot, before they are removed.
const STALE_ENTRIES_MAX: usize = 4096;

/// The counters of uses of all slots; allocated when the first slots of a chunk are used.
pub(super) struct SlotUses(Box<[OnceLock<Box<[Uses]>>]>);

impl SlotUses {
    pub(super) fn new(slots: u32) -> Self {
        Self((0..(slots as usize).div_ceil(USES_CHUNK)).map(|_| OnceLock::new()).collect())
    }

    /// Allocates the counter of a slot.
    pub(super) fn prepare(&self, slot: u32) {
        self.of(slot);
    }

    pub(super) fn of(&self, slot: u32) -> &Uses {
        let make = || (0..USES_CHUNK).map(|_| Uses::default()).collect();
        &self.0[slot as usize / USES_CHUNK].get_or_init(make)[slot as usize % USES_CHUNK]
    }
}

/// A kept slice.
pub(super) struct KeptSlice {
    pub(super) slot: u32,
    /// Tells the slice from earlier ones of its slot.
    pub(super) generation: u16,
    pub(super) slice: u32,
    pub(super) holder: Weak<dyn Holder>,
}

/// A slot that was ever used. There is one for each small object, so each byte counts.
#[derive(Default)]
struct UsedSlot {
    /// The holder of its slice while that is kept.
    holder: Option<Weak<dyn Holder>>,
    slice: u32,
    generation: u16,
    /// Pages that the tier counts for it, [`EVICTED`] and [`COPY`].
    pages: u16,
}

/// Set beside the pages of a slot whose slice was evicted while readers still hold it. The largest slice has 4,096 pages.
const EVICTED: u16 = 0x8000;
/// Set beside the pages of a slot that holds a copy.
const COPY: u16 = 0x4000;

const FLAGS: u16 = EVICTED | COPY;

/// Whose a slice is. Each class has an eviction order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Own,
    /// A copy of what another node keeps.
    Copy,
}

const _: () = assert!(size_of::<UsedSlot>() == 24);

/// Used slots that are allocated together: a vector would grow by doubling.
const USED_CHUNK: usize = 1024;

/// Slots that were ever used, by their place in their class.
#[derive(Default)]
struct UsedSlots {
    chunks: Vec<Vec<UsedSlot>>,
    count: usize,
}

impl UsedSlots {
    fn get(&self, place: usize) -> Option<&UsedSlot> {
        self.chunks.get(place / USED_CHUNK)?.get(place % USED_CHUNK)
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut UsedSlot> {
        self.chunks.get_mut(place / USED_CHUNK)?.get_mut(place % USED_CHUNK)
    }

    fn grow_to(&mut self, count: usize) {
        while self.count < count {
            if self.count.is_multiple_of(USED_CHUNK) {
                self.chunks.push(Vec::with_capacity(USED_CHUNK));
            }
            if let Some(last) = self.chunks.last_mut() {
                last.push(UsedSlot::default());
            }
            self.count += 1;
        }
    }
}

/// The slots of one class.
struct ClassSlots {
    numbers: Range<u32>,
    /// Slots that were used and are free again.
    free: Vec<u32>,
    used: UsedSlots,
}

/// The slots of a tier.
pub(super) struct Slots {
    classes: Vec<ClassSlots>,
    own: S3Fifo<(u32, u16), u64>,
    copies: S3Fifo<(u32, u16), u64>,
    /// Slots without a slice that still have their pages: the system could not take them back. Each is here once.
    unpunched: VecDeque<u32>,
    /// Slots of a tier that a successor has whose readers have ended here.
    pub(super) forgotten: Vec<u32>,
    pub(super) predecessor: Predecessor,
    pub(super) kept: u64,
    /// Pages of slices that were evicted while readers still hold them.
    pub(super) evicted_pages: u64,
    /// Pages of copies, also of those.
    pub(super) copy_pages: u64,
}

impl Slots {
    pub(super) fn new(layout: &SlotLayout) -> Self {
        let class = |numbers| ClassSlots { numbers, free: Vec::new(), used: UsedSlots::default() };
        let classes = layout.classes().map(class).collect();
        Self {
            classes,
            own: S3Fifo::new(),
            copies: S3Fifo::new(),
            unpunched: VecDeque::new(),
            forgotten: Vec::new(),
            predecessor: Predecessor::Gone,
            kept: 0,
            evicted_pages: 0,
            copy_pages: 0,
        }
    }

    /// Takes a free slot of a class, or of a larger one.
    pub(super) fn take(&mut self, class: usize) -> Option<u32> {
        self.classes[class..].iter_mut().find_map(ClassSlots::take)
    }

    /// Takes these slots, which rise; the tier is new.
    pub(super) fn claim(&mut self, numbers: &[u32]) {
        for class in &mut self.classes {
            let mine = numbers.iter().filter(|number| class.numbers.contains(number)).copied();
            let mut next = class.numbers.start;
            for number in mine {
                class.free.extend(next..number);
                next = number + 1;
            }
            class.used.grow_to((next - class.numbers.start) as usize);
            // The lowest last, so that it is taken first and the used slots lie together.
            class.free.reverse();
        }
    }

    /// Makes a slot free.
    pub(super) fn put_back(&mut self, number: u32) {
        self.set_flags(number, EVICTED | COPY, 0);
        if let Some(class) = self.class_mut(number) {
            class.free.push(number);
        }
    }

    /// Remembers a slot that still has its pages.
    pub(super) fn put_unpunched(&mut self, number: u32) {
        self.set_flags(number, EVICTED, 0);
        self.unpunched.push_back(number);
    }

    /// Takes out the slot that has waited longest for its pages to be given back.
    pub(super) fn next_unpunched(&mut self) -> Option<u32> {
        self.unpunched.pop_front()
    }

    /// How many slots wait for their pages to be given back.
    pub(super) fn unpunched_count(&self) -> usize {
        self.unpunched.len()
    }

    /// Counts no pages for a slot that a successor has; returns those before.
    pub(super) fn forget(&mut self, number: u32) -> u16 {
        self.forgotten.push(number);
        self.change_pages(number, |_| 0)
    }

    /// The slots that take pages, in rising order, each with the number of its pages.
    pub(super) fn busy(&self) -> Vec<(u32, u16)> {
        let of_class = |class: &ClassSlots| {
            let slots =
                class.numbers.clone().zip(class.used.chunks.iter().flatten().map(|slot| slot.pages & !FLAGS));
            slots.filter(|(_, pages)| *pages > 0).collect::<Vec<_>>()
        };
        self.classes.iter().flat_map(of_class).collect()
    }

    /// The slots that take none, in ranges of one class each.
    pub(super) fn free_ranges(&self) -> Vec<Range<u32>> {
        let busy = self.busy();
        let mut ranges = Vec::new();
        for class in &self.classes {
            let mut from = class.numbers.start;
            let taken =
                busy.iter().map(|(number, _)| *number).filter(|number| class.numbers.contains(number));
            for number in taken.chain([class.numbers.end]) {
                if number > from {
                    ranges.push(from..number);
                }
                from = number + 1;
            }
        }
        ranges
    }

    /// Sets the pages that are counted for a slot; returns those before.
    pub(super) fn set_pages(&mut self, number: u32, pages: u16) -> u16 {
        self.change_pages(number, |slot| pages | slot & FLAGS)
    }

    /// Whether the slice of a slot was evicted while readers still hold it.
    pub(super) fn is_evicted(&self, number: u32) -> bool {
        self.used(number).is_some_and(|slot| slot.pages & EVICTED != 0)
    }

    /// Sets those of `flags` that are in `on`, and removes the others.
    fn set_flags(&mut self, number: u32, flags: u16, on: u16) {
        self.change_pages(number, |slot| slot & !flags | on);
    }

    fn change_pages(&mut self, number: u32, change: impl FnOnce(u16) -> u16) -> u16 {
        let Some(slot) = self.used_mut(number) else { return 0 };
        let (before, now) = (slot.pages, change(slot.pages));
        slot.pages = now;
        let counted = |pages: u16, flag| if pages & flag == 0 { 0 } else { u64::from(pages & !FLAGS) };
        self.evicted_pages = self.evicted_pages + counted(now, EVICTED) - counted(before, EVICTED);
        self.copy_pages = self.copy_pages + counted(now, COPY) - counted(before, COPY);
        before & !FLAGS
    }

    /// Keeps a slice, or gives a kept one to another holder. Returns whether it was evicted before, as far as is
    /// remembered.
    pub(super) fn keep(
        &mut self,
        number: u32,
        holder: Weak<dyn Holder>,
        slice: u32,
        ghost: u64,
        class: Class,
    ) -> bool {
        let Some(used) = self.used_mut(number) else { return false };
        if used.holder.replace(holder).is_some() {
            return false;
        }
        used.slice = slice;
        used.generation = used.generation.wrapping_add(1);
        let generation = used.generation;
        self.kept += 1;
        let order = match class {
            Class::Own => &mut self.own,
            Class::Copy => &mut self.copies,
        };
        let was_evicted = order.insert((number, generation), ghost);
        self.set_flags(number, COPY, if class == Class::Copy { COPY } else { 0 });
        self.remove_stale();
        was_evicted
    }

    /// Makes `holder` the owner of a slice, if it is still kept.
    pub(super) fn set_holder(&mut self, number: u32, holder: Weak<dyn Holder>) {
        if let Some(kept) = self.used_mut(number).and_then(|slot| slot.holder.as_mut()) {
            *kept = holder;
        }
    }

    /// Removes the entry of a slot.
    pub(super) fn remove(&mut self, number: u32) -> Option<KeptSlice> {
        let used = self.used_mut(number)?;
        let (holder, slice, generation) = (used.holder.take()?, used.slice, used.generation);
        self.kept -= 1;
        Some(KeptSlice { slot: number, generation, slice, holder })
    }

    /// Removes the entry of the next slice to evict, and returns its class if it is to be [remembered](Self::remember). Its
    /// pages count as evicted until the slot is given back. Copies go first while they have more than `copy_pages_max`.
    pub(super) fn evict(
        &mut self,
        uses: &SlotUses,
        copy_pages_max: u64,
    ) -> Option<(KeptSlice, Option<Class>)> {
        let Self { classes, own, copies, .. } = self;
        let mut look = |(number, generation)| {
            if is_kept(classes, number, generation) {
                Candidate::Kept(uses.of(number))
            } else {
                Candidate::Gone
            }
        };
        let order = if self.copy_pages > copy_pages_max {
            [Class::Copy, Class::Own]
        } else {
            [Class::Own, Class::Copy]
        };
        let (class, victim) = order.into_iter().find_map(|class| {
            let queue = if class == Class::Own { &mut *own } else { &mut *copies };
            Some((class, queue.evict(&mut look)?))
        })?;
        let (number, _) = victim.name;
        self.set_flags(number, EVICTED, EVICTED);
        Some((self.remove(number)?, victim.is_to_be_remembered.then_some(class)))
    }

    /// Remembers a slice that was evicted from a slot.
    pub(super) fn remember(&mut self, ghost: u64, class: Class) {
        match class {
            Class::Own => self.own.remember(ghost),
            Class::Copy => self.copies.remember(ghost),
        }
    }

    /// The slots of slices that were requested again, in the order of their eviction.
    pub(super) fn popular(&self) -> Vec<u32> {
        let kept = |(number, generation): &(u32, u16)| self.is_kept(*number, *generation);
        self.own.main().chain(self.copies.main()).filter(kept).map(|(number, _)| number).collect()
    }

    /// Makes the slices of these slots count as requested again, in this order.
    pub(super) fn set_popular(&mut self, numbers: &[u32]) {
        let generation = |number: &u32| Some((*number, self.used(*number)?.generation));
        let names: Vec<(u32, u16)> = numbers.iter().filter_map(generation).collect();
        self.own.promote(&names);
        self.copies.promote(&names);
    }

    /// Remembers at least `ghosts` evictions.
    pub(super) fn remember_at_least(&mut self, ghosts: usize) {
        self.own.remember_at_least(ghosts);
    }

    /// The first kept slice from a slot on.
    pub(super) fn next_kept(&self, from: u32) -> Option<KeptSlice> {
        self.classes.iter().find_map(|class| {
            let first = from.max(class.numbers.start);
            let used = class.numbers.start + u32::try_from(class.used.count).ok()?;
            (first..used).find_map(|number| {
                let slot = class.used.get((number - class.numbers.start) as usize)?;
                let holder = Weak::clone(slot.holder.as_ref()?);
                Some(KeptSlice { slot: number, generation: slot.generation, slice: slot.slice, holder })
            })
        })
    }

    /// Whether a slot still holds the slice of this generation.
    pub(super) fn is_kept(&self, number: u32, generation: u16) -> bool {
        is_kept(&self.classes, number, generation)
    }

    /// Slices that left in another way than by eviction stay in the order until they are its next.
    fn remove_stale(&mut self) {
        let kept = usize::try_from(self.kept).unwrap_or(usize::MAX);
        if self.own.len() + self.copies.len() > 2 * kept + STALE_ENTRIES_MAX {
            let classes = &self.classes;
            self.own.retain(|(number, generation)| is_kept(classes, number, generation));
            self.copies.retain(|(number, generation)| is_kept(classes, number, generation));
        }
    }

    fn used(&self, number: u32) -> Option<&UsedSlot> {
        let class = self.classes.iter().find(|class| class.numbers.contains(&number))?;
        class.used.get((number - class.numbers.start) as usize)
    }

    fn class_mut(&mut self, number: u32) -> Option<&mut ClassSlots> {
        self.classes.iter_mut().find(|class| class.numbers.contains(&number))
    }

    fn used_mut(&mut self, number: u32) -> Option<&mut UsedSlot> {
        let class = self.class_mut(number)?;
        class.used.get_mut((number - class.numbers.start) as usize)
    }
}

fn is_kept(classes: &[ClassSlots], number: u32, generation: u16) -> bool {
    let class = classes.iter().find(|class| class.numbers.contains(&number));
    let used = class.and_then(|class| class.used.get((number - class.numbers.start) as usize));
    used.is_some_and(|slot| slot.holder.is_some() && slot.generation == generation)
}

impl ClassSlots {
    fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let used = u32::try_from(self.used.count).ok()?;
        let number = self.numbers.start.checked_add(used).filter(|number| self.numbers.contains(number))?;
        self.used.grow_to(self.used.count + 1);
        Some(number)
    }
}
