//! One shard of the index: a hash table that is read without a lock.
//!
//! The objects of a bucket are linked through their own `next`. The table grows by one bucket at a time (linear hashing),
//! and buckets never move, so a reader needs no more than the pointers that it follows. Writers hold the lock of the
//! shard. A reader that meets a writer may miss an object that is there, never see one that is not; after a miss the
//! caller looks again with the lock.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};

use crate::key::{Key, KeyHashing};
use crate::metadata::Metadata;
use crate::object::Object;

/// Buckets of an empty table.
const BUCKETS_MIN: u32 = 16;
/// Levels of buckets: the first has [`BUCKETS_MIN`], each later one as many as all before it.
const LEVELS: usize = 24;
/// Objects that a reader passes in a bucket before it falls back to the lock.
const STEPS_MAX: usize = 64;

type Bucket<D> = ArcSwapOption<Object<D>>;

/// One shard of the index.
pub(super) struct Table<D: Metadata> {
    levels: [OnceLock<Box<[Bucket<D>]>>; LEVELS],
    /// Buckets in use.
    buckets: AtomicU32,
    objects: AtomicU32,
    hashing: KeyHashing,
}

impl<D: Metadata> Table<D> {
    pub(super) fn new(hashing: KeyHashing) -> Self {
        Self {
            levels: [const { OnceLock::new() }; LEVELS],
            buckets: AtomicU32::new(BUCKETS_MIN),
            objects: AtomicU32::new(0),
            hashing,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.load(Ordering::Relaxed) as usize
    }

    /// The object of a key. Without the lock, `None` may be wrong.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object<D>>> {
        let mut found = self.bucket_of(key).load();
        for _ in 0..STEPS_MAX {
            let object = found.as_ref()?;
            if object.key() == key {
                return Guard::into_inner(found);
            }
            let next = object.links.next.load();
            found = next;
        }
        None
    }

    /// Adds an object whose key is not in the table. Needs the lock.
    pub(super) fn insert(&self, object: &Arc<Object<D>>) {
        let objects = self.objects.fetch_add(1, Ordering::Relaxed) + 1;
        if objects > self.buckets.load(Ordering::Relaxed) {
            self.split();
        }
        push(self.bucket_of(object.key()), Arc::clone(object));
    }

    /// Removes the object of a key. Needs the lock.
    pub(super) fn remove(&self, key: &Key) -> Option<Arc<Object<D>>> {
        let mut before: Option<Arc<Object<D>>> = None;
        loop {
            let link = before.as_ref().map_or_else(|| self.bucket_of(key), |object| &object.links.next);
            let object = link.load_full()?;
            if object.key() == key {
                // A withdrawn object must not keep others alive, so its own link goes too.
                link.store(object.links.next.load_full());
                object.links.next.store(None);
                self.objects.fetch_sub(1, Ordering::Relaxed);
                return Some(object);
            }
            before = Some(object);
        }
    }

    /// Calls `look` for each object. Needs the lock.
    pub(super) fn for_each(&self, mut look: impl FnMut(&Arc<Object<D>>)) {
        for number in 0..self.buckets.load(Ordering::Relaxed) {
            let mut next = self.bucket(number).load_full();
            while let Some(object) = next {
                look(&object);
                next = object.links.next.load_full();
            }
        }
    }

    /// Memory of the buckets.
    pub(super) fn bucket_bytes(&self) -> u64 {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        levels.map(|level| size_of_val::<[Bucket<D>]>(level) as u64).sum()
    }

    /// Moves a part of one bucket to a new one.
    fn split(&self) {
        let new = self.buckets.load(Ordering::Relaxed);
        let size = prev_power_of_two(new);
        if level_of(new).0 >= LEVELS {
            return;
        }
        let (from, to) = (self.bucket(new - size), self.bucket(new));
        let mut rest = from.swap(None);
        while let Some(object) = rest {
            rest = object.links.next.swap(None);
            let moves = self.hash(object.key()) & (2 * size - 1) == new;
            push(if moves { to } else { from }, object);
        }
        self.buckets.store(new + 1, Ordering::Release);
    }

    fn hash(&self, key: &Key) -> u32 {
        u32::try_from(self.hashing.hash_one(key) & u64::from(u32::MAX)).unwrap_or(0)
    }

    fn bucket_of(&self, key: &Key) -> &Bucket<D> {
        let buckets = self.buckets.load(Ordering::Acquire);
        let (hash, size) = (self.hash(key), prev_power_of_two(buckets));
        let number = hash & (2 * size - 1);
        self.bucket(if number < buckets { number } else { number - size })
    }

    fn bucket(&self, number: u32) -> &Bucket<D> {
        let (level, place) = level_of(number);
        let size = if level == 0 { BUCKETS_MIN } else { BUCKETS_MIN << (level - 1) };
        let make = || (0..size).map(|_| Bucket::empty()).collect();
        &self.levels[level].get_or_init(make)[place]
    }
}

fn push<D: Metadata>(bucket: &Bucket<D>, object: Arc<Object<D>>) {
    object.links.next.store(bucket.load_full());
    bucket.store(Some(object));
}

/// The greatest power of two that is not greater than `number`, which is not 0.
fn prev_power_of_two(number: u32) -> u32 {
    1 << number.ilog2()
}

/// The level of a bucket, and its place there.
fn level_of(bucket: u32) -> (usize, usize) {
    if bucket < BUCKETS_MIN {
        return (0, bucket as usize);
    }
    let doublings = bucket.ilog2() - BUCKETS_MIN.ilog2();
    (doublings as usize + 1, (bucket - (BUCKETS_MIN << doublings)) as usize)
}

impl<D: Metadata> Drop for Table<D> {
    /// Unlinks the objects one by one: dropping a chain would recurse.
    fn drop(&mut self) {
        for bucket in self.levels.iter().filter_map(OnceLock::get).flat_map(|level| level.iter()) {
            let mut next = bucket.swap(None);
            while let Some(object) = next {
                next = object.links.next.swap(None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
