//! All objects by key, and who finds out about those that are not known.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::disk::Versions;
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

struct Entry<D: Describe> {
    known: Option<Arc<Object<D>>>,
    pending: Option<Arc<watch::Sender<Outcome<D>>>>,
}

struct Shard<D: Describe> {
    entries: HashMap<Key, Entry<D>>,
    /// In the order they came, so that the oldest goes when there are too many. May name keys that are gone.
    order: VecDeque<Key>,
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
        let shard = |_| Mutex::new(Shard { entries: HashMap::new(), order: VecDeque::new() });
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
        if let Some(entry) = shard.entries.get(key) {
            if let Some(object) = &entry.known {
                return LookUp::Known(Arc::clone(object));
            }
            if let Some(pending) = &entry.pending {
                return LookUp::Pending(Pending::on(pending));
            }
        }
        LookUp::Missing(self.begin(&mut shard, key))
    }

    /// Like [`Self::look_up`] for a caller who knows `stale` and wants something newer. What is known stays so for
    /// those who take it as it is.
    pub fn renew(self: &Arc<Self>, key: &Key, stale: &Arc<Object<D>>) -> LookUp<D> {
        let mut shard = self.shard(key);
        if let Some(entry) = shard.entries.get(key) {
            match (&entry.known, &entry.pending) {
                (Some(known), _) if !Arc::ptr_eq(known, stale) => return LookUp::Known(Arc::clone(known)),
                (_, Some(pending)) => return LookUp::Pending(Pending::on(pending)),
                (_, None) => {}
            }
        }
        LookUp::Missing(self.begin(&mut shard, key))
    }

    /// What is known under `key`, without becoming the one who finds out.
    pub fn known(&self, key: &Key) -> Option<Arc<Object<D>>> {
        self.shard(key).entries.get(key)?.known.clone()
    }

    /// Takes in an object that was found out about in another way, if nothing is known under `key` or `is_newer` says
    /// so of what is. Whoever is finding out goes on. It is for this process only.
    pub fn put(
        self: &Arc<Self>,
        key: &Key,
        object: &Arc<Object<D>>,
        is_newer: impl FnOnce(&Object<D>) -> bool,
    ) {
        let mut shard = self.shard(key);
        let replaced = match shard.entries.get_mut(key) {
            Some(entry) if entry.known.as_ref().is_some_and(|known| !is_newer(known)) => return,
            Some(entry) => entry.known.replace(Arc::clone(object)),
            None => {
                shard.entries.insert(*key, Entry { known: Some(Arc::clone(object)), pending: None });
                shard.order.push_back(*key);
                self.make_room(&mut shard);
                None
            }
        };
        drop(shard);
        if let Some(replaced) = replaced {
            replaced.give_up();
        }
    }

    /// Forgets what is known under `key`, in memory and on disks, also for the next process. Who reads it may finish.
    pub fn forget(&self, key: &Key, tier: &MemoryTier) -> bool {
        let on_disk = tier.disks().is_some_and(|disks| disks.forget(key, tier.next_object(), Versions::All));
        let dormant = self.dormant().remove(key);
        let forgotten = self.shard(key).entries.get_mut(key).and_then(|entry| entry.known.take());
        if let Some(dormant) = &dormant {
            dormant.strike_out();
        }
        if let Some(object) = &forgotten {
            object.give_up();
        }
        dormant.is_some() || forgotten.is_some() || on_disk
    }

    /// Forgets this very version, if it is still the one that is known.
    pub fn forget_version(&self, key: &Key, version: &Arc<Object<D>>) {
        let forgotten = self.shard(key).entries.get_mut(key).and_then(|entry| {
            let is_this = |known: &mut Arc<Object<D>>| Arc::ptr_eq(known, version);
            entry.known.take_if(is_this)
        });
        if let Some(object) = forgotten {
            object.give_up();
        }
    }

    /// Looks at every object that is known. Nobody is held up for longer than it takes to list a part of them.
    pub fn each(&self, mut look: impl FnMut(&Key, &Arc<Object<D>>)) {
        for shard in &self.shards {
            let known = |(key, entry): (&Key, &Entry<D>)| Some((*key, Arc::clone(entry.known.as_ref()?)));
            let objects: Vec<_> = lock(shard).entries.iter().filter_map(known).collect();
            objects.iter().for_each(|(key, object)| look(key, object));
        }
    }

    /// How many objects are known.
    pub fn objects(&self) -> usize {
        let known = |entry: &Entry<D>| usize::from(entry.known.is_some());
        self.shards.iter().map(|shard| lock(shard).entries.values().map(known).sum::<usize>()).sum()
    }

    fn begin(self: &Arc<Self>, shard: &mut Shard<D>, key: &Key) -> ObjectFill<D> {
        let sender = Arc::new(watch::Sender::new(None));
        match shard.entries.get_mut(key) {
            Some(entry) => entry.pending = Some(Arc::clone(&sender)),
            None => {
                shard.entries.insert(*key, Entry { known: None, pending: Some(Arc::clone(&sender)) });
                shard.order.push_back(*key);
            }
        }
        self.make_room(shard);
        ObjectFill { index: Arc::clone(self), key: *key, sender: Some(sender) }
    }

    fn make_room(&self, shard: &mut Shard<D>) {
        for _ in 0..shard.order.len() {
            if shard.entries.len() <= self.objects_max {
                return;
            }
            let Some(oldest) = shard.order.pop_front() else { return };
            match shard.entries.get(&oldest) {
                // Somebody is at it; its turn comes again.
                Some(entry) if entry.pending.is_some() => shard.order.push_back(oldest),
                Some(_) => drop(shard.entries.remove(&oldest)),
                None => {}
            }
        }
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
        let mut shard = self.shard(key);
        let Some(entry) = shard.entries.get_mut(key) else { return };
        entry.pending = None;
        if let Some(object) = known {
            let replaced = entry.known.replace(Arc::clone(&object));
            drop(shard);
            if let Some(replaced) = replaced.filter(|replaced| !Arc::ptr_eq(replaced, &object)) {
                replaced.give_up();
            }
        } else if entry.known.is_none() {
            shard.entries.remove(key);
            // Its key is almost always the newest: found at once from behind.
            if let Some(place) = shard.order.iter().rposition(|kept| kept == key) {
                shard.order.remove(place);
            }
        }
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
