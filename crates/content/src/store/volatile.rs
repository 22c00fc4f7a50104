//! Objects that change faster than they can be fetched in parts: for a while they are fetched whole.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use penstock_cache::Key;
use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

/// Keys of volatile objects, oldest first, and until when each is fetched whole.
#[derive(Debug, Default)]
pub(crate) struct VolatileObjects(Mutex<VecDeque<(Key, Instant)>>);

const PERIOD: Duration = Duration::from_secs(limits::VOLATILE_SECONDS);

impl VolatileObjects {
    /// Takes note of an object that changed between two of its slices. `age` is the age of the older version: an object
    /// older than the period is replaced as objects are, and not volatile.
    pub(crate) fn changed(&self, key: &Key, age: Duration, now: Instant) {
        if age >= PERIOD {
            return;
        }
        let mut keys = self.keys(now);
        if keys.len() >= limits::VOLATILE_OBJECTS {
            keys.pop_front();
        }
        keys.push_back((*key, now + PERIOD));
    }

    /// Whether the object has to be fetched whole.
    pub(crate) fn has(&self, key: &Key, now: Instant) -> bool {
        self.keys(now).iter().any(|(known, _)| known == key)
    }

    fn keys(&self, now: Instant) -> MutexGuard<'_, VecDeque<(Key, Instant)>> {
        let mut keys = self.0.lock().unpoisoned();
        while keys.front().is_some_and(|(_, until)| *until <= now) {
            keys.pop_front();
        }
        keys
    }
}

#[cfg(test)]
impl VolatileObjects {
    /// Holds the lock, to show that a hit does not take it.
    pub(crate) fn hold(&self) -> impl Drop {
        self.0.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_changes_soon_after_it_came_is_fetched_whole_for_a_while() {
        let (volatile, now) = (VolatileObjects::default(), Instant::now());
        volatile.changed(&[1; 16], Duration::from_secs(1), now);
        volatile.changed(&[2; 16], 2 * PERIOD, now);
        assert!(volatile.has(&[1; 16], now));
        assert!(!volatile.has(&[2; 16], now), "an old object was replaced");
        assert!(!volatile.has(&[1; 16], now + PERIOD));
    }

    #[test]
    fn volatile_objects_are_bounded_in_number() {
        let (volatile, now) = (VolatileObjects::default(), Instant::now());
        for number in 0..=limits::VOLATILE_OBJECTS {
            let mut key = Key::default();
            key[..8].copy_from_slice(&number.to_le_bytes());
            volatile.changed(&key, Duration::ZERO, now);
        }
        assert!(!volatile.has(&Key::default(), now));
        assert_eq!(volatile.keys(now).len(), limits::VOLATILE_OBJECTS);
    }
}
