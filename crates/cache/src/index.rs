//! All objects by key, and who finds out about those that are not known.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::disk::Versions;
use crate::keyed::Keyed;
use crate::memory::{Dormant, MemoryTier, Restored};
use crate::object::Object;
use crate::{Describe, Key};

/// Shards of the index: with more of them than workers, two seldom meet.
const SHARDS: usize = 64;

/// What is known under a key.
pub enum LookUp<D: Describe> {
    /// This object.
    Known(Arc<Object<D>>),
    /// Nothing yet; somebody is finding out.
    Pending(Pending<D>),
    /// Nothing, and now the finder's to find out.
    Missing(ObjectFill<D>),
}

/// What came of finding out.
pub enum Resolved<D: Describe> {
    /// An object for everybody who waited.
    Shared(Arc<Object<D>>),
    /// An answer that may not be shared: each who waited has to ask alone.
    Alone,
}

impl<D: Describe> Clone for Resolved<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(object) => Self::Shared(Arc::clone(object)),
            Self::Alone => Self::Alone,
        }
    }
}

type Outcome<D> = Option<Resolved<D>>;

/// Waiting for somebody who finds out.
pub struct Pending<D: Describe> {
    outcome: watch::Receiver<Outcome<D>>,
    waiters: usize,
}

impl<D: Describe> Pending<D> {
    /// How many waited when this began to, itself included.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    fn on(sender: &watch::Sender<Outcome<D>>) -> Self {
        let outcome = sender.subscribe();
        Self { outcome, waiters: sender.receiver_count() }
    }

    /// What came of it; `None` if whoever tried gave up.
    pub async fn resolved(mut self) -> Option<Resolved<D>> {
        let outcome = self.outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}

/// An object under its own key.
struct Known<D: Describe> {
    object: Arc<Object<D>>,
    /// Of two of a shard the one with the smaller number is older.
    arrival: u32,
}

impl<D: Describe> Borrow<Key> for Known<D> {
    fn borrow(&self) -> &Key {
        self.object.key()
    }
}

impl<D: Describe> Hash for Known<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.object.key().hash(state);
    }
}

impl<D: Describe> PartialEq for Known<D> {
    fn eq(&self, other: &Self) -> bool {
        self.object.key() == other.object.key()
    }
}

impl<D: Describe> Eq for Known<D> {}

struct Shard<D: Describe> {
    known: HashSet<Known<D>, Keyed>,
    pending: HashMap<Key, Arc<watch::Sender<Outcome<D>>>>,
    arrivals: u32,
}

/// Of the objects of a full shard this share is forgotten at once: to find out which are oldest, all are looked at.
const SHARE_FORGOTTEN: usize = 64;

impl<D: Describe> Shard<D> {
    fn object(&self, key: &Key) -> Option<&Arc<Object<D>>> {
        self.known.get(key).map(|known| &known.object)
    }

    /// Takes in an object, and returns the one that had its key.
    fn insert(&mut self, object: &Arc<Object<D>>) -> Option<Arc<Object<D>>> {
        let replaced = self.known.take(object.key());
        self.arrivals = self.arrivals.wrapping_add(1);
        // What is renewed is as old as it was.
        let arrival = replaced.as_ref().map_or(self.arrivals, |replaced| replaced.arrival);
        self.known.insert(Known { object: Arc::clone(object), arrival });
        replaced.map(|replaced| replaced.object)
    }

    /// Forgets the oldest if there are more than `most`. They are to be dropped without the lock: that may give back
    /// memory.
    fn make_room(&mut self, most: usize) -> Vec<Arc<Object<D>>> {
        let mut gone = Vec::new();
        if self.known.len() > most {
            let age = |known: &Known<D>| self.arrivals.wrapping_sub(known.arrival);
            let mut ages: Vec<u32> = self.known.iter().map(age).collect();
            let leaving = self.known.len() - (most - most / SHARE_FORGOTTEN);
            let (_, oldest, _) = ages.select_nth_unstable_by(leaving - 1, |one, other| other.cmp(one));
            let (arrivals, oldest) = (self.arrivals, *oldest);
            self.known.retain(|known| {
                let stays = arrivals.wrapping_sub(known.arrival) < oldest;
                if !stays {
                    gone.push(Arc::clone(&known.object));
                }
                stays
            });
        }
        gone
    }
}

/// All objects of a cache.
pub struct Index<D: Describe> {
    shards: Box<[Mutex<Shard<D>>]>,
    objects_max: usize,
    /// What an earlier process left and nobody has asked for yet.
    dormant: Mutex<HashMap<Key, Arc<Dormant>>>,
}

impl<D: Describe> Index<D> {
    /// An index of at most `objects_max` objects, give or take a few, and of what an earlier process left.
    pub fn new(objects_max: usize, restored: Restored) -> Arc<Self> {
        let shard = |_| Mutex::new(Shard { known: HashSet::default(), pending: HashMap::new(), arrivals: 0 });
        let objects_max = objects_max.div_ceil(SHARDS).max(1);
        Arc::new(Self {
            shards: (0..SHARDS).map(shard).collect(),
            objects_max,
            dormant: Mutex::new(restored.objects),
        })
    }

    /// The object that an earlier process left under `key`, in memory or on a disk, or that memory had no room for, if
    /// `read` understands its description. Only for whoever is to find out what `key` is; it is that one's to keep.
    pub async fn recall(
        &self,
        key: &Key,
        tier: &Arc<MemoryTier>,
        read: impl Fn(&[u8]) -> Option<D>,
    ) -> Option<Arc<Object<D>>> {
        // Not in the condition: nothing is locked while it is woken.
        let dormant = self.dormant().remove(key);
        if let Some(dormant) = dormant {
            let recalled = dormant.wake().and_then(|(description, left)| {
                let (id, length, tier) = (dormant.object, dormant.object_length, Arc::clone(tier));
                Some(Object::revived(key, id, read(&description)?, length, tier, &left))
            });
            if recalled.is_some() {
                return recalled;
            }
        }
        let disks = tier.disks()?;
        let (id, length, description) = disks.recall(key).await?;
        match read(&description) {
            Some(description) => {
                Some(Object::revived(key, id, description, Some(length), Arc::clone(tier), &[]))
            }
            None => {
                disks.is_unreadable(key);
                None
            }
        }
    }

    /// What is known under `key`. Where nothing is, the caller is now the one who finds out.
    pub fn look_up(self: &Arc<Self>, key: &Key) -> LookUp<D> {
        let mut shard = self.shard(key);
        if let Some(object) = shard.object(key) {
            return LookUp::Known(Arc::clone(object));
        }
        self.begin(&mut shard, key)
    }

    /// Like [`Self::look_up`] for a caller who knows `stale` and wants something newer. What is known stays so for
    /// those who take it as it is.
    pub fn renew(self: &Arc<Self>, key: &Key, stale: &Arc<Object<D>>) -> LookUp<D> {
        let mut shard = self.shard(key);
        match shard.object(key) {
            Some(known) if !Arc::ptr_eq(known, stale) => LookUp::Known(Arc::clone(known)),
            _ => self.begin(&mut shard, key),
        }
    }

    /// What is known under `key`, without becoming the one who finds out.
    pub fn known(&self, key: &Key) -> Option<Arc<Object<D>>> {
        self.shard(key).object(key).cloned()
    }

    /// Takes in an object that was found out about in another way, if nothing is known under its key or `is_newer` says
    /// so of what is. Whoever is finding out goes on. It is for this process only.
    pub fn put(&self, object: &Arc<Object<D>>, is_newer: impl FnOnce(&Object<D>) -> bool) {
        let shard = self.shard(object.key());
        if shard.object(object.key()).is_some_and(|known| !is_newer(known)) {
            return;
        }
        self.take_in(shard, object);
    }

    /// Knows an object from now on, and not any more what had its key.
    fn take_in(&self, mut shard: MutexGuard<'_, Shard<D>>, object: &Arc<Object<D>>) {
        let replaced = shard.insert(object);
        let gone = shard.make_room(self.objects_max);
        drop(shard);
        drop(gone);
        if let Some(replaced) = replaced.filter(|replaced| !Arc::ptr_eq(replaced, object)) {
            replaced.give_up();
        }
    }

    /// Forgets what is known under `key`, in memory and on disks, also for the next process. Who reads it may finish.
    pub fn forget(&self, key: &Key, tier: &MemoryTier) -> bool {
        let on_disk = tier.disks().is_some_and(|disks| disks.forget(key, tier.next_object(), Versions::All));
        let dormant = self.dormant().remove(key);
        let forgotten = self.shard(key).known.take(key);
        if let Some(dormant) = &dormant {
            dormant.strike_out();
        }
        if let Some(known) = &forgotten {
            known.object.give_up();
        }
        dormant.is_some() || forgotten.is_some() || on_disk
    }

    /// Forgets this very version, if it is still the one that is known.
    pub fn forget_version(&self, key: &Key, version: &Arc<Object<D>>) {
        let mut shard = self.shard(key);
        if !shard.object(key).is_some_and(|known| Arc::ptr_eq(known, version)) {
            return;
        }
        let forgotten = shard.known.take(key);
        drop(shard);
        if let Some(known) = forgotten {
            known.object.give_up();
        }
    }

    /// Looks at every object that is known. Nobody is held up for longer than it takes to list a part of them.
    pub fn each(&self, mut look: impl FnMut(&Arc<Object<D>>)) {
        for shard in &self.shards {
            let objects: Vec<_> = lock(shard).known.iter().map(|known| Arc::clone(&known.object)).collect();
            objects.iter().for_each(&mut look);
        }
    }

    /// How many objects are known.
    pub fn objects(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).known.len()).sum()
    }

    /// Waits for whoever finds out, or is the one.
    fn begin(self: &Arc<Self>, shard: &mut Shard<D>, key: &Key) -> LookUp<D> {
        if let Some(pending) = shard.pending.get(key) {
            return LookUp::Pending(Pending::on(pending));
        }
        let sender = Arc::new(watch::Sender::new(None));
        shard.pending.insert(*key, Arc::clone(&sender));
        LookUp::Missing(ObjectFill { index: Arc::clone(self), key: *key, sender: Some(sender) })
    }

    fn settle(&self, key: &Key, known: Option<Arc<Object<D>>>) {
        if let Some(object) = &known {
            object.keep();
            object.supersede();
            // It takes the place of what an earlier process left.
            let dormant = self.dormant().remove(key);
            if let Some(dormant) = dormant {
                dormant.strike_out();
            }
        }
        if let Some(object) = &known {
            self.take_in(self.shard(object.key()), object);
        }
        // Afterwards: whoever looks meanwhile finds one or the other.
        self.shard(key).pending.remove(key);
    }

    fn dormant(&self) -> MutexGuard<'_, HashMap<Key, Arc<Dormant>>> {
        self.dormant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard<D>> {
        lock(&self.shards[usize::from(key[15]) % SHARDS])
    }
}

fn lock<D: Describe>(shard: &Mutex<Shard<D>>) -> MutexGuard<'_, Shard<D>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one who finds out what an object is. Dropped without a result, others get to try.
pub struct ObjectFill<D: Describe> {
    index: Arc<Index<D>>,
    key: Key,
    sender: Option<Arc<watch::Sender<Outcome<D>>>>,
}

impl<D: Describe> ObjectFill<D> {
    /// The key it is about.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// This is the object: kept under its key, and for everybody who waits.
    pub fn keep(mut self, object: &Arc<Object<D>>) {
        self.end(Some(Arc::clone(object)), Some(Resolved::Shared(Arc::clone(object))));
    }

    /// This is the object for everybody who waits, and for nobody later.
    pub fn share(mut self, object: &Arc<Object<D>>) {
        self.end(None, Some(Resolved::Shared(Arc::clone(object))));
    }

    /// The answer may not be shared.
    pub fn alone(mut self) {
        self.end(None, Some(Resolved::Alone));
    }

    fn end(&mut self, known: Option<Arc<Object<D>>>, outcome: Outcome<D>) {
        let Some(sender) = self.sender.take() else { return };
        self.index.settle(&self.key, known);
        if outcome.is_some() {
            sender.send_replace(outcome);
        }
    }
}

impl<D: Describe> Drop for ObjectFill<D> {
    fn drop(&mut self) {
        self.end(None, None);
    }
}
