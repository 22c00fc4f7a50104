//! The index of slices on disks, in few bytes each.
//!
//! An object has one *anchor*: the newest of its records, whose metadata counts. Its other slices have an entry each.
//! Both are found by 64 bits of the key and name no more than a place; the record there has the whole key, so another
//! object with the same bits is detected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_sys::lock::Unpoisoned;

use crate::budget::Budget;
use crate::key::{Key, KeyHashing, short_name};

/// Shards of the index: more than workers, so that two seldom wait for each other.
const SHARDS: usize = 256;
/// The slice of an anchor whose bytes are damaged but whose metadata is not.
pub(crate) const NO_SLICE: u32 = u32::MAX - 1;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// The disk in the upper bits, the number of its segment in the lower.
    pub(crate) segment: u32,
    /// In units.
    pub(crate) offset: u32,
    pub(crate) slice: u32,
    /// Part of the version's number, to tell versions apart.
    tag: u32,
}

/// The tag of a version.
fn tag(object: u64) -> u32 {
    let (low, high) = (object & u64::from(u32::MAX), object >> 32);
    u32::try_from(low ^ high).unwrap_or(0)
}

impl RecordPlace {
    pub(crate) fn new(segment: u32, offset: u32, slice: u32, object: u64) -> Self {
        Self { segment, offset, slice, tag: tag(object) }
    }

    fn is_in(&self, segment: u32, offset: u32) -> bool {
        self.segment == segment && self.offset == offset
    }
}

/// How an entry became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It has just been written: newer than all that is known.
    Written,
    /// It was found on a disk: older than all that is known.
    Found,
}

/// Versions of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    All,
    /// All but this one.
    But(u64),
    /// This one.
    Only(u64),
}

type Places = HashMap<u64, RecordPlace, KeyHashing>;

#[derive(Default)]
struct Shard {
    anchors: Places,
    others: Places,
    /// While disks are scanned: versions up to these were removed.
    gone: HashMap<u64, u64>,
}

impl Shard {
    fn insert(&mut self, key: &Key, object: u64, place: RecordPlace, arrival: Arrival) {
        if arrival == Arrival::Found && self.gone.get(&short_name(key)).is_some_and(|gone| *gone >= object) {
            return;
        }
        let other = name_of_slice(key, place.slice);
        match (self.anchors.get(&short_name(key)).copied(), arrival) {
            (Some(anchor), Arrival::Found) if anchor.tag != place.tag => {}
            (Some(anchor), Arrival::Found) if anchor.slice == place.slice => {}
            (Some(_), Arrival::Found) => {
                self.others.entry(other).or_insert(place);
            }
            (anchor, _) => {
                self.anchors.insert(short_name(key), place);
                self.others.remove(&other);
                if let Some(old) = anchor
                    && old.tag == place.tag
                    && old.slice != place.slice
                    && old.slice != NO_SLICE
                {
                    self.others.insert(name_of_slice(key, old.slice), old);
                }
            }
        }
    }

    /// Adds an entry only in the place of another; an anchor of another version is removed.
    fn replace(&mut self, key: &Key, object: u64, place: RecordPlace, arrival: Arrival) {
        let Some(anchor) = self.anchors.get(&short_name(key)).copied() else { return };
        if arrival == Arrival::Written && anchor.tag != place.tag {
            self.anchors.insert(short_name(key), place);
        } else if anchor.slice == place.slice || self.others.contains_key(&name_of_slice(key, place.slice)) {
            self.insert(key, object, place, arrival);
        }
    }

    /// Whether another object and another slice fit without growing.
    fn has_space(&self) -> bool {
        self.anchors.len() < self.anchors.capacity() && self.others.len() < self.others.capacity()
    }

    /// Memory of the tables, about.
    fn table_bytes(&self) -> u64 {
        // A table has eight buckets for seven entries, and a byte beside each bucket.
        let table = |places: &Places| places.capacity() / 7 * 8 * (size_of::<(u64, RecordPlace)>() + 1);
        (table(&self.anchors) + table(&self.others)) as u64
    }
}

/// The part of the budget that the index may take: three quarters.
const SHARE_MAX: (u64, u64) = (3, 4);

/// The index of all disks.
pub(crate) struct DiskIndex {
    shards: Box<[Mutex<Shard>]>,
    budget: Arc<Budget>,
    /// Memory of all tables.
    bytes: AtomicU64,
    /// Disks that are still being scanned.
    pub(crate) scanning: AtomicU64,
}

fn name_of_slice(key: &Key, slice: u32) -> u64 {
    short_name(key) ^ (u64::from(slice) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DiskIndex {
    pub(crate) fn new(scanning: u64, budget: Arc<Budget>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, budget, bytes: AtomicU64::new(0), scanning: AtomicU64::new(scanning) }
    }

    /// The newest record of an object.
    pub(crate) fn anchor(&self, key: &Key) -> Option<RecordPlace> {
        self.shard(key).anchors.get(&short_name(key)).copied()
    }

    /// The place of a slice of this version.
    pub(crate) fn find(&self, key: &Key, object: u64, slice: u32) -> Option<RecordPlace> {
        let shard = self.shard(key);
        let anchor = shard.anchors.get(&short_name(key)).filter(|anchor| anchor.tag == tag(object))?;
        if anchor.slice == slice {
            return Some(*anchor);
        }
        let place = shard.others.get(&name_of_slice(key, slice));
        place.filter(|place| place.tag == anchor.tag && place.slice == slice).copied()
    }

    /// Adds an entry. One for which a table would have to grow beyond the budget is left out: its slice is not found.
    pub(crate) fn insert(&self, key: &Key, object: u64, place: RecordPlace, arrival: Arrival) {
        let (parts, of) = SHARE_MAX;
        let may_grow = self.bytes.load(Ordering::Relaxed) < self.budget.limit() / of * parts;
        let mut guard = self.shard(key);
        let shard = &mut *guard;
        let before = shard.table_bytes();
        if may_grow || shard.has_space() {
            shard.insert(key, object, place, arrival);
        } else {
            // The entry of an older version would be wrong.
            shard.replace(key, object, place, arrival);
        }
        let grown = shard.table_bytes() - before;
        self.bytes.fetch_add(grown, Ordering::Relaxed);
        self.budget.charge(grown);
    }

    /// Marks the bytes at this place as damaged. The metadata there may be right.
    pub(crate) fn mark_bytes_bad(&self, key: &Key, place: &RecordPlace) {
        let mut shard = self.shard(key);
        match shard.anchors.get_mut(&short_name(key)) {
            Some(anchor) if anchor == place => anchor.slice = NO_SLICE,
            _ => drop(shard.others.remove(&name_of_slice(key, place.slice))),
        }
    }

    /// Removes the entry for this place.
    pub(crate) fn remove(&self, key: &Key, slice: u32, segment: u32, offset: u32) {
        let mut shard = self.shard(key);
        if shard.anchors.get(&short_name(key)).is_some_and(|anchor| anchor.is_in(segment, offset)) {
            shard.anchors.remove(&short_name(key));
        }
        let other = name_of_slice(key, slice);
        if shard.others.get(&other).is_some_and(|place| place.is_in(segment, offset)) {
            shard.others.remove(&other);
        }
    }

    /// Removes these versions and, on disks that are still being scanned, all up to `object`. Returns whether a disk needs
    /// a tombstone.
    pub(crate) fn forget(&self, key: &Key, object: u64, versions: Versions) -> bool {
        let reading = self.scanning.load(Ordering::Acquire) > 0;
        let mut shard = self.shard(key);
        if reading {
            let gone = shard.gone.entry(short_name(key)).or_default();
            *gone = object.max(*gone);
        }
        let anchor = shard.anchors.get(&short_name(key)).copied();
        let known = anchor.is_some_and(|anchor| match versions {
            Versions::All => true,
            Versions::But(kept) => tag(kept) != anchor.tag,
            Versions::Only(object) => tag(object) == anchor.tag,
        });
        if known {
            // Entries of other slices have no anchor then; they are removed with their segments.
            shard.anchors.remove(&short_name(key));
        }
        known || reading
    }

    /// Ends the scan of a disk; after the last one no old entries are added any more.
    pub(crate) fn finish_scan(&self) {
        if self.scanning.fetch_sub(1, Ordering::AcqRel) == 1 {
            for shard in &self.shards {
                lock(shard).gone = HashMap::new();
            }
        }
    }

    /// Removes all entries of these segments.
    pub(crate) fn forget_segments(&self, gone: impl Fn(u32) -> bool) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.anchors.retain(|_, place| !gone(place.segment));
            shard.others.retain(|_, place| !gone(place.segment));
        }
    }

    /// Entries of slices.
    pub(crate) fn slices(&self) -> u64 {
        let count = |shard: &Shard| shard.anchors.len() + shard.others.len();
        self.shards.iter().map(|shard| count(&lock(shard)) as u64).sum()
    }

    /// Memory that it takes, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + (SHARDS * size_of::<Shard>()) as u64
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(key[15]) % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unpoisoned()
}

#[cfg(test)]
mod tests;
