//! Where slices lie on disks, in few bytes each.
//!
//! An object has one *anchor*: the newest of its records, which also says what the object is. Its other slices have an
//! entry each. Both are found by 64 bits of the key and name no more than a place; who reads there sees the whole key
//! and is not deceived by another object with the same bits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Key;
use crate::keyed::Keyed;

/// Shards of the index: with more of them than workers, two seldom meet.
const SHARDS: usize = 256;
/// The slice of an anchor whose bytes are of no use any more; its description is.
pub(crate) const NO_SLICE: u32 = u32::MAX - 1;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The disk in the upper bits, the number of its segment in the lower.
    pub(crate) segment: u32,
    /// In units.
    pub(crate) offset: u32,
    pub(crate) slice: u32,
    /// Tells versions of an object apart, most of the time.
    tag: u32,
}

/// Which version a tag belongs to.
fn tag(object: u64) -> u32 {
    let (low, high) = (object & u64::from(u32::MAX), object >> 32);
    u32::try_from(low ^ high).unwrap_or(0)
}

impl Place {
    pub(crate) fn new(segment: u32, offset: u32, slice: u32, object: u64) -> Self {
        Self { segment, offset, slice, tag: tag(object) }
    }

    fn is_at(&self, segment: u32, offset: u32) -> bool {
        self.segment == segment && self.offset == offset
    }
}

/// How an entry came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It has just been written: newer than all that is known.
    Written,
    /// It was found on a disk: older than all that is known.
    Found,
}

/// Which versions of an object are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    All,
    /// All but this one.
    But(u64),
    /// This one.
    Only(u64),
}

type Places = HashMap<u64, Place, Keyed>;

#[derive(Default)]
struct Shard {
    anchors: Places,
    others: Places,
    /// While disks are read: versions up to these are gone, wherever they turn up.
    gone: HashMap<u64, u64>,
}

/// All that lies on disks.
pub(crate) struct DiskIndex {
    shards: Box<[Mutex<Shard>]>,
    /// Disks that are still being read.
    pub(crate) reading: AtomicU64,
}

fn name(key: &Key) -> u64 {
    let (first, _) = key.split_first_chunk().expect("a key is longer than eight bytes");
    u64::from_ne_bytes(*first)
}

fn name_of_slice(key: &Key, slice: u32) -> u64 {
    name(key) ^ (u64::from(slice) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DiskIndex {
    pub(crate) fn new(reading: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, reading: AtomicU64::new(reading) }
    }

    /// The newest record of an object.
    pub(crate) fn anchor(&self, key: &Key) -> Option<Place> {
        self.shard(key).anchors.get(&name(key)).copied()
    }

    /// Where a slice of this version lies.
    pub(crate) fn find(&self, key: &Key, object: u64, slice: u32) -> Option<Place> {
        let shard = self.shard(key);
        let anchor = shard.anchors.get(&name(key)).filter(|anchor| anchor.tag == tag(object))?;
        if anchor.slice == slice {
            return Some(*anchor);
        }
        let place = shard.others.get(&name_of_slice(key, slice));
        place.filter(|place| place.tag == anchor.tag && place.slice == slice).copied()
    }

    pub(crate) fn insert(&self, key: &Key, object: u64, place: Place, arrival: Arrival) {
        let mut guard = self.shard(key);
        let shard = &mut *guard;
        if arrival == Arrival::Found && shard.gone.get(&name(key)).is_some_and(|gone| *gone >= object) {
            return;
        }
        let other = name_of_slice(key, place.slice);
        match (shard.anchors.get(&name(key)).copied(), arrival) {
            (Some(anchor), Arrival::Found) if anchor.tag != place.tag => {}
            (Some(anchor), Arrival::Found) if anchor.slice == place.slice => {}
            (Some(_), Arrival::Found) => {
                shard.others.entry(other).or_insert(place);
            }
            (anchor, _) => {
                shard.anchors.insert(name(key), place);
                shard.others.remove(&other);
                if let Some(old) = anchor
                    && old.tag == place.tag
                    && old.slice != place.slice
                    && old.slice != NO_SLICE
                {
                    shard.others.insert(name_of_slice(key, old.slice), old);
                }
            }
        }
    }

    /// The bytes at this place are of no use. What stands there about the object may be.
    pub(crate) fn bytes_are_bad(&self, key: &Key, place: &Place) {
        let mut shard = self.shard(key);
        match shard.anchors.get_mut(&name(key)) {
            Some(anchor) if anchor == place => anchor.slice = NO_SLICE,
            _ => drop(shard.others.remove(&name_of_slice(key, place.slice))),
        }
    }

    /// There is nothing at this place any more.
    pub(crate) fn remove(&self, key: &Key, slice: u32, segment: u32, offset: u32) {
        let mut shard = self.shard(key);
        if shard.anchors.get(&name(key)).is_some_and(|anchor| anchor.is_at(segment, offset)) {
            shard.anchors.remove(&name(key));
        }
        let other = name_of_slice(key, slice);
        if shard.others.get(&other).is_some_and(|place| place.is_at(segment, offset)) {
            shard.others.remove(&other);
        }
    }

    /// These versions are gone, and all up to `object` are where disks are still being read. Whether a disk has to be
    /// told.
    pub(crate) fn forget(&self, key: &Key, object: u64, versions: Versions) -> bool {
        let reading = self.reading.load(Ordering::Acquire) > 0;
        let mut shard = self.shard(key);
        if reading {
            let gone = shard.gone.entry(name(key)).or_default();
            *gone = object.max(*gone);
        }
        let anchor = shard.anchors.get(&name(key)).copied();
        let known = anchor.is_some_and(|anchor| match versions {
            Versions::All => true,
            Versions::But(kept) => tag(kept) != anchor.tag,
            Versions::Only(object) => tag(object) == anchor.tag,
        });
        if known {
            // Entries of other slices find no anchor; they go with their segments.
            shard.anchors.remove(&name(key));
        }
        known || reading
    }

    /// A disk has been read to its end; after the last one nothing old can turn up any more.
    pub(crate) fn has_been_read(&self) {
        if self.reading.fetch_sub(1, Ordering::AcqRel) == 1 {
            for shard in &self.shards {
                lock(shard).gone = HashMap::new();
            }
        }
    }

    /// Forgets everything on these segments.
    pub(crate) fn forget_segments(&self, gone: impl Fn(u32) -> bool) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.anchors.retain(|_, place| !gone(place.segment));
            shard.others.retain(|_, place| !gone(place.segment));
        }
    }

    /// Slices that are known.
    pub(crate) fn slices(&self) -> u64 {
        let count = |shard: &Shard| shard.anchors.len() + shard.others.len();
        self.shards.iter().map(|shard| count(&lock(shard)) as u64).sum()
    }

    /// Memory that it takes, near enough.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A table has eight buckets for seven entries, and a byte beside each bucket.
        let table = |places: &Places| places.capacity() / 7 * 8 * (size_of::<(u64, Place)>() + 1);
        let of = |shard: &Shard| (table(&shard.anchors) + table(&shard.others) + size_of::<Shard>()) as u64;
        self.shards.iter().map(|shard| of(&lock(shard))).sum()
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(key[15]) % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
