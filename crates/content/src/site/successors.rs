//! Which segment follows which, by the playlists of one site.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use penstock_cache::Key;
use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

/// The segment behind each segment, bounded in number; the oldest entry makes space for a new one.
#[derive(Debug, Default)]
pub(crate) struct Successors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    next: HashMap<Key, Arc<str>>,
    /// Keys in order of arrival.
    order: VecDeque<Key>,
}

impl Successors {
    /// Takes in pairs of a segment's key and the target of the next segment.
    pub(crate) fn put(&self, pairs: impl Iterator<Item = (Key, Arc<str>)>) {
        let mut known = self.0.lock().unpoisoned();
        for (key, next) in pairs {
            if known.next.insert(key, next).is_none() {
                known.order.push_back(key);
            }
            if known.order.len() > limits::SUCCESSORS
                && let Some(oldest) = known.order.pop_front()
            {
                known.next.remove(&oldest);
            }
        }
    }

    /// The target of the segment behind the one with this key.
    pub(crate) fn of(&self, key: &Key) -> Option<Arc<str>> {
        self.0.lock().unpoisoned().next.get(key).cloned()
    }
}

#[cfg(test)]
impl Successors {
    /// Holds the lock, to show that a hit does not take it.
    pub(crate) fn hold(&self) -> impl Drop {
        self.0.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_are_bounded_and_the_oldest_goes() {
        let successors = Successors::default();
        let key = |number: usize| {
            let mut key = Key::default();
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        let next: Arc<str> = "/next".into();
        successors.put((0..limits::SUCCESSORS + 10).map(|number| (key(number), Arc::clone(&next))));
        assert_eq!(successors.of(&key(9)), None);
        assert_eq!(successors.of(&key(10)), Some(next));
        assert_eq!(successors.0.lock().unwrap().next.len(), limits::SUCCESSORS);
    }
}
