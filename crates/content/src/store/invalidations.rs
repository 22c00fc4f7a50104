//! Targets that requests of clients have changed (RFC 9111 §4.4).
//!
//! A change concerns all stored responses of a target, whatever they vary by, and responses that are being fetched. Not all
//! of their keys are known: a response for one user has a key of its own. So the newest changes are remembered with their
//! time, and an object that was asked for before a change is compared with them on its next lookup, as with purges.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

/// More shards than workers, so that two workers seldom meet.
const SHARDS: usize = 16;

/// The targets that were changed last, bounded in number.
#[derive(Debug, Default)]
pub(crate) struct Invalidations {
    hasher: RandomState,
    newest: Newest,
    /// Held while a change is added, so that changes are noted in order of their times.
    adding: Mutex<()>,
    shards: [Mutex<Changed>; SHARDS],
}

/// The newest change. It has a cache line of its own: each hit reads it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Newest {
    /// Its time, as purges count time.
    at: AtomicU64,
    /// Whether a newer one is being added.
    is_adding: AtomicBool,
}

/// Targets by their hash. Two targets with the same hash are fetched again together.
#[derive(Debug, Default)]
struct Changed {
    /// When each was changed last.
    at: HashMap<u64, u64>,
    /// Hashes in order of that time, with the time at which they were added here.
    order: VecDeque<(u64, u64)>,
}

impl Changed {
    fn note(&mut self, target: u64, at: u64) {
        if self.at.insert(target, at).is_none() {
            self.order.push_back((target, at));
        }
        while self.order.len() > limits::CHANGED_TARGETS / SHARDS
            && let Some((oldest, added)) = self.order.pop_front()
        {
            match self.at.get(&oldest) {
                // Changed again since.
                Some(&at) if at != added => self.order.push_back((oldest, at)),
                _ => {
                    self.at.remove(&oldest);
                }
            }
        }
    }
}

impl Invalidations {
    /// The time of the newest change: what is asked for from now on was not changed since.
    pub(crate) fn latest(&self) -> u64 {
        self.newest.at.load(Ordering::SeqCst)
    }

    /// Whether a change is being added, which [`Self::is_changed`] may not know yet. If not, the changes that it does not
    /// know are later than all purges and changes that the caller saw before.
    pub(crate) fn is_adding(&self) -> bool {
        self.newest.is_adding.load(Ordering::SeqCst)
    }

    /// Notes that a target of the site `site` was changed at the time that `at` returns, later than any request, purge and
    /// change so far. It is called when no other thread adds a change.
    pub(crate) fn add(&self, site: &str, target: &str, at: impl FnOnce() -> u64) {
        let hash = self.hash(site, target);
        let adding = self.adding.lock().unpoisoned();
        self.newest.is_adding.store(true, Ordering::SeqCst);
        let at = at();
        self.shard(hash).note(hash, at);
        // Afterwards, so that a lookup that sees this time also finds the target.
        self.newest.at.fetch_max(at, Ordering::SeqCst);
        self.newest.is_adding.store(false, Ordering::SeqCst);
        drop(adding);
    }

    /// Whether a target was changed after `since`.
    pub(crate) fn is_changed(&self, site: &str, target: &str, since: u64) -> bool {
        if since >= self.latest() {
            return false;
        }
        let hash = self.hash(site, target);
        self.shard(hash).at.get(&hash).is_some_and(|at| *at > since)
    }

    fn hash(&self, site: &str, target: &str) -> u64 {
        self.hasher.hash_one((site, target))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Changed> {
        self.shards[usize::from(hash.to_le_bytes()[0]) % SHARDS].lock().unpoisoned()
    }
}

#[cfg(test)]
impl Invalidations {
    /// Holds all locks, to show that a hit does not take them.
    pub(crate) fn hold(&self) -> [impl Drop; SHARDS] {
        self.shards.each_ref().map(|shard| shard.lock().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_target_is_changed_for_those_that_asked_before() {
        let changed = Invalidations::default();
        assert!(!changed.is_changed("site", "/x", 0));
        changed.add("site", "/x", || 10);
        for (site, target, since, expected) in [
            ("site", "/x", 9, true),
            ("site", "/x", 10, false),
            ("site", "/x", 11, false),
            ("site", "/y", 9, false),
            ("other", "/x", 9, false),
            ("sit", "e/x", 9, false),
        ] {
            assert_eq!(changed.is_changed(site, target, since), expected, "{site} {target} {since}");
        }
        changed.add("site", "/y", || 20);
        changed.add("site", "/x", || 30);
        assert!(changed.is_changed("site", "/x", 29) && changed.is_changed("site", "/y", 19));
        assert!(!changed.is_changed("site", "/y", 20));
        assert_eq!(changed.latest(), 30);
    }

    #[test]
    fn a_change_is_noted_before_a_later_one_is_seen() {
        let changed = Invalidations::default();
        thread::scope(|scope| {
            changed.add("site", "/x", || {
                scope.spawn(|| changed.add("site", "/y", || 20));
                // Long enough for the other thread to add its change, if it does not wait.
                thread::sleep(Duration::from_millis(50));
                assert!(changed.is_adding());
                assert_eq!(changed.latest(), 0);
                10
            });
        });
        assert_eq!((changed.latest(), changed.is_adding()), (20, false));
        assert!(changed.is_changed("site", "/x", 9) && changed.is_changed("site", "/y", 19));
    }

    #[test]
    fn changes_are_bounded_and_the_oldest_goes() {
        let changed = Invalidations::default();
        let target = |number: u64| format!("/{number}");
        let most = limits::CHANGED_TARGETS as u64;
        for number in 1..=4 * most {
            changed.add("site", &target(number), || number);
            // Changed again and again: it stays.
            changed.add("site", "/often", || number);
        }
        let kept = (1..=4 * most).filter(|number| changed.is_changed("site", &target(*number), 0)).count();
        assert!(kept < limits::CHANGED_TARGETS && kept > limits::CHANGED_TARGETS - 2 * SHARDS, "{kept}");
        assert!(changed.is_changed("site", "/often", 4 * most - 1));
        assert!(changed.is_changed("site", &target(4 * most), 4 * most - 1));
        assert!(!changed.is_changed("site", &target(1), 0));
        for shard in &changed.shards {
            let shard = shard.lock().unwrap();
            assert_eq!(shard.at.len(), shard.order.len());
        }
    }
}
