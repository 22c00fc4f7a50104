//! Which objects were asked for before, in bounded memory.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ring::Key;

/// Remembers for a while which objects were asked for. Two generations: when the younger one is full or old, it becomes
/// the older one, whose content is forgotten.
#[derive(Debug)]
pub struct Popularity {
    lasts: Duration,
    /// Objects of one generation.
    objects: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug)]
struct Generations {
    young: HashSet<Key>,
    old: HashSet<Key>,
    since: Instant,
}

impl Popularity {
    /// Remembers objects for `lasts` to twice as long, and at most `objects` of each generation.
    pub fn new(lasts: Duration, objects: usize, now: Instant) -> Self {
        let generations = Generations { young: HashSet::new(), old: HashSet::new(), since: now };
        Self { lasts, objects: objects.max(1), generations: Mutex::new(generations) }
    }

    /// Whether an object was noted.
    pub fn has(&self, key: &Key, now: Instant) -> bool {
        let generations = self.lock();
        let age = now.saturating_duration_since(generations.since);
        let is_old = age >= 2 * self.lasts;
        !is_old && (generations.young.contains(key) || age < self.lasts && generations.old.contains(key))
    }

    /// Notes that an object is asked for. Returns whether it was asked for before.
    pub fn note(&self, key: &Key, now: Instant) -> bool {
        let mut generations = self.lock();
        let generations = &mut *generations;
        let age = now.saturating_duration_since(generations.since);
        if age >= self.lasts || generations.young.len() >= self.objects {
            std::mem::swap(&mut generations.young, &mut generations.old);
            generations.young.clear();
            generations.since = now;
            if age >= 2 * self.lasts {
                generations.old.clear();
            }
        }
        let known = generations.old.contains(key);
        !generations.young.insert(*key) || known
    }

    /// The data is complete at every moment, so a panic of another holder does no harm.
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        let mut key = Key::default();
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn the_second_request_within_a_while_is_known() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let popularity = Popularity::new(Duration::from_secs(60), 100, start);
        assert!(!popularity.note(&key(1), at(0)));
        assert!(popularity.note(&key(1), at(1)));
        assert!(!popularity.note(&key(2), at(59)));
        assert!(popularity.note(&key(2), at(61)), "in the older generation");
        assert!(!popularity.note(&key(3), at(62)));
        assert!(!popularity.note(&key(3), at(400)), "forgotten");
        assert!(popularity.has(&key(3), at(519)) && !popularity.has(&key(3), at(520)));
        assert!(!popularity.has(&key(1), at(400)));
    }

    #[test]
    fn memory_is_bounded() {
        let now = Instant::now();
        let popularity = Popularity::new(Duration::from_secs(60), 100, now);
        for number in 0..10_000 {
            popularity.note(&key(number), now);
        }
        let generations = popularity.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 200);
    }
}
