//! All objects by key, and the claims of objects that are being fetched.

mod pending;
mod table;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_sys::lock::Unpoisoned;
use tokio::sync::watch;

use crate::budget::Budget;
use crate::disk::Versions;
use crate::key::{Key, KeyHashing};
use crate::memory::{Dormant, Restored};
use crate::metadata::Metadata;
use crate::object::Object;
use crate::tiers::Tiers;
use pending::ClaimOutcome;
pub use pending::{ClaimResult, Pending};
use table::Table;

/// Shards of the index: more than workers, so that two seldom wait for each other.
const SHARDS: u64 = 64;
/// The part of a full shard that is evicted at once: finding the oldest objects means looking at all.
const SHARE_EVICTED: u64 = 64;
/// The least share of the budget that the index leaves to itself when other tables take the rest: a quarter.
const SHARE_MIN: u64 = 4;
/// Memory of an object beside its own fields and the heap of its metadata: two allocations, its place in the index,
/// and its slot in the memory tier.
const OBJECT_OVERHEAD_BYTES: u64 = 152;

/// Memory of an object of an earlier process that was not requested yet, about.
const DORMANT_BYTES: u64 = 256;
/// Evictions between two searches for such objects whose slices were all evicted.
const EVICTIONS_BETWEEN_SWEEPS: u32 = 256;

/// An entry of the index, as [`Index::get_or_claim`] finds it.
pub enum IndexEntry<D: Metadata> {
    /// The object of the key.
    Known(Arc<Object<D>>),
    /// Another request has claimed the key.
    Pending(Pending<D>),
    /// The key was claimed for the caller, which has to find out what the object is.
    Claimed(ObjectClaim<D>),
}

/// All objects of a cache by key.
pub struct Index<D: Metadata> {
    shards: Box<[Shard<D>]>,
    budget: Arc<Budget>,
    /// Bytes that the objects of all shards weigh.
    bytes: AtomicU64,
    /// Objects of an earlier process that were not requested yet.
    dormant: Mutex<HashMap<Key, Arc<Dormant>, KeyHashing>>,
    evictions: AtomicU32,
}

struct Shard<D: Metadata> {
    table: Table<D>,
    state: Mutex<ShardState<D>>,
}

/// Gives the result of a claim to the requests that wait for it.
type ClaimSender<D> = Arc<watch::Sender<ClaimOutcome<D>>>;

struct ShardState<D: Metadata> {
    pending: HashMap<Key, ClaimSender<D>>,
    arrivals: u32,
    bytes: u64,
}

impl<D: Metadata> ShardState<D> {
    /// Whether the claim of this key is the one with this sender.
    fn is_claimed_by(&self, key: &Key, sender: &ClaimSender<D>) -> bool {
        self.pending.get(key).is_some_and(|pending| Arc::ptr_eq(pending, sender))
    }
}

impl<D: Metadata> Shard<D> {
    fn new(hashing: &KeyHashing) -> Self {
        let state = ShardState { pending: HashMap::new(), arrivals: 0, bytes: 0 };
        Self { table: Table::new(hashing.clone()), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, ShardState<D>> {
        self.state.lock().unpoisoned()
    }
}

impl<D: Metadata> Index<D> {
    /// An index with the objects of an earlier process. It evicts objects when `budget` is exceeded.
    pub fn new(budget: Arc<Budget>, restored: Restored) -> Arc<Self> {
        let hashing = KeyHashing::default();
        budget.charge(restored.objects.len() as u64 * DORMANT_BYTES);
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Shard::new(&hashing)).collect(),
            budget,
            bytes: AtomicU64::new(0),
            dormant: Mutex::new(restored.objects),
            evictions: AtomicU32::new(0),
        })
    }

    /// Restores an object of an earlier process, or from a disk; for the first request after its claim.
    ///
    /// `decode` gets the persisted metadata and must not trust it.
    pub async fn restore(
        &self,
        key: &Key,
        tiers: &Arc<Tiers>,
        decode: impl Fn(&[u8]) -> Option<D>,
    ) -> Option<Arc<Object<D>>> {
        let dormant = self.take_dormant(key);
        if let Some(dormant) = dormant {
            let restored = dormant.take().and_then(|(metadata, slices)| {
                let (id, length, tiers) = (dormant.object, dormant.object_length, Arc::clone(tiers));
                Some(Object::restored(key, id, decode(&metadata)?, length, tiers, &slices))
            });
            if restored.is_some() {
                return restored;
            }
        }
        let disks = tiers.disks()?;
        let (id, length, metadata) = disks.restore(key).await?;
        match decode(&metadata) {
            Some(metadata) => Some(Object::restored(key, id, metadata, Some(length), Arc::clone(tiers), &[])),
            None => {
                disks.remove_undecodable(key);
                None
            }
        }
    }

    /// The object of a key, without claiming it. A known object is found without a lock.
    pub fn get(&self, key: &Key) -> Option<Arc<Object<D>>> {
        let shard = self.shard(key);
        shard.table.get(key).or_else(|| {
            let _state = shard.lock();
            shard.table.get(key)
        })
    }

    /// The object of a key. On a miss, waits for the claim of another request or returns the claim of the key. A known
    /// object is found without a lock.
    pub fn get_or_claim(self: &Arc<Self>, key: &Key) -> IndexEntry<D> {
        let shard = self.shard(key);
        if let Some(object) = shard.table.get(key) {
            return IndexEntry::Known(object);
        }
        let mut state = shard.lock();
        match shard.table.get(key) {
            Some(object) => IndexEntry::Known(object),
            None => self.claim(&mut state, key),
        }
    }

    /// Like [`Self::get_or_claim`] for a caller that needs something newer than `stale`, which stays in the index
    /// meanwhile.
    pub fn get_newer_or_claim(self: &Arc<Self>, key: &Key, stale: &Arc<Object<D>>) -> IndexEntry<D> {
        let shard = self.shard(key);
        let mut state = shard.lock();
        match shard.table.get(key) {
            Some(known) if !Arc::ptr_eq(&known, stale) => IndexEntry::Known(known),
            _ => self.claim(&mut state, key),
        }
    }

    /// Adds an object without a claim, for this process only. An object with the same key is replaced if
    /// `is_replaceable` says so. A claim of the key goes on.
    pub fn insert_unclaimed(&self, object: &Arc<Object<D>>, is_replaceable: impl FnOnce(&Object<D>) -> bool) {
        let shard = self.shard(object.key());
        let state = shard.lock();
        if shard.table.get(object.key()).is_some_and(|known| !is_replaceable(&known)) {
            return;
        }
        self.insert(shard, state, object);
    }

    /// Adds an object without a claim of its key, for later requests and for the next process. An object with the same
    /// key is replaced if `is_replaceable` says so; otherwise the new one is withdrawn. A claim of the key goes on.
    pub fn insert_kept(&self, object: &Arc<Object<D>>, is_replaceable: impl FnOnce(&Object<D>) -> bool) {
        self.insert_persistent(object, |_, known| known.is_none_or(|known| is_replaceable(&known)));
    }

    /// Adds an object, also for the next process, and removes the versions that earlier processes and the disks have. If
    /// `may_insert` refuses that, by the state of its shard and the object that has its key, the object is withdrawn.
    fn insert_persistent(
        &self,
        object: &Arc<Object<D>>,
        may_insert: impl FnOnce(&ShardState<D>, Option<Arc<Object<D>>>) -> bool,
    ) {
        // Before another request can find and forget it.
        object.keep();
        let shard = self.shard(object.key());
        let state = shard.lock();
        if !may_insert(&state, shard.table.get(object.key())) {
            drop(state);
            object.withdraw();
            return;
        }
        self.insert(shard, state, object);
        object.supersede();
        if let Some(dormant) = self.take_dormant(object.key()) {
            dormant.clear_records();
        }
    }

    /// Adds an object and withdraws the one that had its key.
    fn insert(&self, shard: &Shard<D>, mut state: MutexGuard<'_, ShardState<D>>, object: &Arc<Object<D>>) {
        let replaced = shard.table.get(object.key());
        let is_same = replaced.as_ref().is_some_and(|replaced| Arc::ptr_eq(replaced, object));
        state.arrivals = state.arrivals.wrapping_add(1);
        // A renewed object is as old as it was.
        let arrival =
            replaced.as_ref().map_or(state.arrivals, |old| old.links.arrival.load(Ordering::Relaxed));
        if let Some(replaced) = &replaced {
            self.uncount(&mut state, replaced);
        }
        if !is_same {
            shard.table.remove(object.key());
        }
        object.links.arrival.store(arrival, Ordering::Relaxed);
        let weight = weight(object);
        object.links.weight.store(u32::try_from(weight).unwrap_or(u32::MAX), Ordering::Relaxed);
        if !is_same {
            shard.table.insert(object);
        }
        state.bytes += weight;
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        self.budget.charge(weight);
        let evicted = self.evict(shard, &mut state);
        drop(state);
        // Without the lock: dropping an object may give back memory.
        drop(evicted);
        if let Some(replaced) = replaced.filter(|_| !is_same) {
            replaced.withdraw();
        }
    }

    /// Removes an object from a shard.
    fn remove(
        &self,
        shard: &Shard<D>,
        state: &mut MutexGuard<'_, ShardState<D>>,
        key: &Key,
    ) -> Option<Arc<Object<D>>> {
        let removed = shard.table.remove(key)?;
        self.uncount(state, &removed);
        Some(removed)
    }

    fn uncount(&self, state: &mut MutexGuard<'_, ShardState<D>>, object: &Object<D>) {
        let weight = u64::from(object.links.weight.swap(0, Ordering::Relaxed));
        state.bytes -= weight;
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
        self.budget.release(weight);
    }

    /// Evicts objects if the shard weighs more than its share of the budget: stale ones without slices first, then the
    /// oldest.
    fn evict(&self, shard: &Shard<D>, state: &mut MutexGuard<'_, ShardState<D>>) -> Vec<Arc<Object<D>>> {
        let limit = self.budget.limit();
        let others = self.budget.used().saturating_sub(self.bytes.load(Ordering::Relaxed));
        let share = limit.saturating_sub(others).max(limit / SHARE_MIN) / SHARDS;
        if state.bytes <= share {
            return Vec::new();
        }
        if self.evictions.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVICTIONS_BETWEEN_SWEEPS) {
            self.sweep_dormant();
        }
        let mut candidates = Vec::with_capacity(shard.table.len());
        shard.table.for_each(|object| {
            let is_needed = object.has_slices() || !object.metadata().is_stale();
            let age = state.arrivals.wrapping_sub(object.links.arrival.load(Ordering::Relaxed));
            candidates.push((is_needed, u32::MAX - age, *object.key()));
        });
        candidates.sort_unstable();
        let mut evicted = Vec::new();
        for (_, _, key) in candidates {
            if state.bytes <= share - share / SHARE_EVICTED {
                break;
            }
            evicted.extend(self.remove(shard, state, &key));
        }
        evicted
    }

    /// Removes the object of a key from all tiers, also for the next process. Its readers may finish. The result of a
    /// claim of the key goes to the requests that wait for it and is not kept, since it may be older than this call.
    pub fn forget(&self, key: &Key, tiers: &Tiers) -> bool {
        let newest = tiers.next_object();
        let on_disk = tiers.disks().is_some_and(|disks| disks.forget(key, newest, Versions::All));
        let dormant = self.take_dormant(key);
        let shard = self.shard(key);
        let mut state = shard.lock();
        state.pending.remove(key);
        let removed = self.remove(shard, &mut state, key);
        drop(state);
        if let Some(dormant) = &dormant {
            dormant.clear_records();
        }
        if let Some(object) = &removed {
            object.withdraw();
        }
        dormant.is_some() || removed.is_some() || on_disk
    }

    /// Removes this version of an object from the index, if it is still there, and from all tiers.
    pub fn forget_version(&self, key: &Key, version: &Arc<Object<D>>) {
        let shard = self.shard(key);
        let mut state = shard.lock();
        if shard.table.get(key).is_some_and(|known| Arc::ptr_eq(&known, version)) {
            self.remove(shard, &mut state, key);
        }
        drop(state);
        // Also one that was restored and is not in the index yet.
        version.withdraw();
    }

    /// Calls `look` for each object. A shard is locked only while its objects are listed.
    pub fn for_each(&self, mut look: impl FnMut(&Arc<Object<D>>)) {
        for shard in &self.shards {
            let mut objects = Vec::with_capacity(shard.table.len());
            let state = shard.lock();
            shard.table.for_each(|object| objects.push(Arc::clone(object)));
            drop(state);
            objects.iter().for_each(&mut look);
        }
    }

    /// Removes all objects, also those of an earlier process, and leaves what the tiers have of them. Readers may finish.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut keys = Vec::with_capacity(shard.table.len());
            let mut state = shard.lock();
            shard.table.for_each(|object| keys.push(*object.key()));
            let removed: Vec<_> = keys.iter().filter_map(|key| self.remove(shard, &mut state, key)).collect();
            drop(state);
            drop(removed);
        }
        let dormant = std::mem::take(&mut *self.dormant());
        self.budget.release(dormant.len() as u64 * DORMANT_BYTES);
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.shards.iter().map(|shard| shard.table.len()).sum()
    }

    /// Memory that the index takes, about: its objects and its buckets.
    pub fn bytes(&self) -> u64 {
        let buckets: u64 = self.shards.iter().map(|shard| shard.table.bucket_bytes()).sum();
        self.bytes.load(Ordering::Relaxed) + buckets
    }

    /// Waits for the claim of another request, or claims the key.
    fn claim(self: &Arc<Self>, state: &mut ShardState<D>, key: &Key) -> IndexEntry<D> {
        if let Some(pending) = state.pending.get(key) {
            return IndexEntry::Pending(Pending::on(pending));
        }
        let sender = Arc::new(watch::Sender::new(None));
        state.pending.insert(*key, Arc::clone(&sender));
        IndexEntry::Claimed(ObjectClaim { index: Arc::clone(self), key: *key, sender: Some(sender) })
    }

    /// Ends a claim that [`Self::forget`] has not ended already; only then `kept` is added.
    fn end_claim(&self, key: &Key, sender: &ClaimSender<D>, kept: Option<&Arc<Object<D>>>) {
        let is_claimed = |state: &ShardState<D>| state.is_claimed_by(key, sender);
        if let Some(object) = kept {
            debug_assert!(object.key() == key, "a claim keeps the object of its key");
            self.insert_persistent(object, |state, _| is_claimed(state));
        }
        // Afterwards, so that a request finds either the claim or the object.
        let mut state = self.shard(key).lock();
        if is_claimed(&state) {
            state.pending.remove(key);
        }
    }

    fn take_dormant(&self, key: &Key) -> Option<Arc<Dormant>> {
        let dormant = self.dormant().remove(key)?;
        self.budget.release(DORMANT_BYTES);
        Some(dormant)
    }

    /// Removes objects of an earlier process whose slices were all evicted.
    fn sweep_dormant(&self) {
        let mut dormant = self.dormant();
        let before = dormant.len();
        dormant.retain(|_, dormant| !dormant.is_empty());
        self.budget.release((before - dormant.len()) as u64 * DORMANT_BYTES);
    }

    fn dormant(&self) -> MutexGuard<'_, HashMap<Key, Arc<Dormant>, KeyHashing>> {
        self.dormant.lock().unpoisoned()
    }

    fn shard(&self, key: &Key) -> &Shard<D> {
        &self.shards[usize::from(key[15]) % self.shards.len()]
    }
}

fn weight<D: Metadata>(object: &Object<D>) -> u64 {
    size_of::<Object<D>>() as u64 + object.metadata().heap_bytes() as u64 + OBJECT_OVERHEAD_BYTES
}

/// Claim on a key: the holder fetches the object. If it is dropped without a result, the next request may claim the key.
pub struct ObjectClaim<D: Metadata> {
    index: Arc<Index<D>>,
    key: Key,
    sender: Option<ClaimSender<D>>,
}

impl<D: Metadata> ObjectClaim<D> {
    /// The claimed key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether [`Index::forget`] has not been called for the key since it was claimed.
    pub fn is_current(&self) -> bool {
        let state = self.index.shard(&self.key).lock();
        self.sender.as_ref().is_some_and(|sender| state.is_claimed_by(&self.key, sender))
    }

    /// Keeps the object under its key, unless [`Index::forget`] was called for the key meanwhile, and gives it to all that
    /// wait.
    pub fn keep(mut self, object: &Arc<Object<D>>) {
        self.end(Some(object), Some(ClaimResult::Shared(Arc::clone(object))));
    }

    /// Gives the object to all that wait, and keeps it from later requests.
    pub fn share(mut self, object: &Arc<Object<D>>) {
        self.end(None, Some(ClaimResult::Shared(Arc::clone(object))));
    }

    /// Tells all that wait that the response is for one client only.
    pub fn make_private(mut self) {
        self.end(None, Some(ClaimResult::Private));
    }

    fn end(&mut self, kept: Option<&Arc<Object<D>>>, outcome: ClaimOutcome<D>) {
        let Some(sender) = self.sender.take() else { return };
        self.index.end_claim(&self.key, &sender, kept);
        if outcome.is_some() {
            sender.send_replace(outcome);
        }
    }
}

impl<D: Metadata> Drop for ObjectClaim<D> {
    fn drop(&mut self) {
        self.end(None, None);
    }
}
