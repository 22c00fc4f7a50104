//! Objects that change faster than they can be fetched in parts: they are asked for whole for a while.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_cache::Key;
use penstock_config::limits;

/// The keys of such objects, oldest first, and until when each is asked for whole.
#[derive(Debug, Default)]
pub(super) struct Unsteady(Mutex<VecDeque<(Key, Instant)>>);

const HELD: Duration = Duration::from_secs(limits::UNSTEADY_SECONDS);

impl Unsteady {
    /// An object has changed between two of its slices. `age` is how long ago the older one was described: one that
    /// had been there for long has simply been replaced.
    pub(super) fn changed(&self, key: &Key, age: Duration, now: Instant) {
        if age >= HELD {
            return;
        }
        let mut keys = self.keys(now);
        if keys.len() >= limits::UNSTEADY_OBJECTS {
            keys.pop_front();
        }
        keys.push_back((*key, now + HELD));
    }

    /// Whether it has to be asked for whole.
    pub(super) fn has(&self, key: &Key, now: Instant) -> bool {
        self.keys(now).iter().any(|(known, _)| known == key)
    }

    fn keys(&self, now: Instant) -> MutexGuard<'_, VecDeque<(Key, Instant)>> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while keys.front().is_some_and(|(_, until)| *until <= now) {
            keys.pop_front();
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_soon_after_it_was_described_is_asked_for_whole_for_a_while() {
        let (unsteady, now) = (Unsteady::default(), Instant::now());
        unsteady.changed(&[1; 16], Duration::from_secs(1), now);
        unsteady.changed(&[2; 16], 2 * HELD, now);
        assert!(unsteady.has(&[1; 16], now));
        assert!(!unsteady.has(&[2; 16], now), "it was replaced, as things are");
        assert!(!unsteady.has(&[1; 16], now + HELD));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let (unsteady, now) = (Unsteady::default(), Instant::now());
        for number in 0..=limits::UNSTEADY_OBJECTS {
            let mut key = Key::default();
            key[..8].copy_from_slice(&number.to_le_bytes());
            unsteady.changed(&key, Duration::ZERO, now);
        }
        assert!(!unsteady.has(&Key::default(), now));
        assert_eq!(unsteady.keys(now).len(), limits::UNSTEADY_OBJECTS);
    }
}
