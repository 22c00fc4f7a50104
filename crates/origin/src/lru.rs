//! A bounded table by directory and path, which evicts the least recently used value.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use ::lru::LruCache;

/// Values by directory and path. Lookups borrow the path.
pub(crate) struct Lru<V> {
    capacity: usize,
    values: LruCache<PathKey, V>,
}

/// A value that left the table.
pub(crate) enum Gone<V> {
    /// Another value took its path.
    Replaced(V),
    /// The table was full.
    Evicted(V),
}

impl<V> Lru<V> {
    /// An empty table for at most `capacity` values, and at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        // A bounded cache of the library would allocate its whole table now.
        Self { capacity: capacity.max(1), values: LruCache::unbounded() }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value, which becomes the newest.
    pub(crate) fn get(&mut self, directory: u64, path: &str) -> Option<&mut V> {
        self.values.get_mut(&(directory, path) as &dyn KeyParts)
    }

    /// Stores a value as the newest and returns the one that left: that of the same path, or the oldest of a full table.
    pub(crate) fn insert(&mut self, directory: u64, path: &str, value: V) -> Option<Gone<V>> {
        let key = PathKey { directory, path: path.into() };
        if let Some(replaced) = self.values.put(key, value) {
            return Some(Gone::Replaced(replaced));
        }
        let full = self.values.len() > self.capacity;
        full.then(|| self.values.pop_lru()).flatten().map(|(_, evicted)| Gone::Evicted(evicted))
    }

    /// Takes out the oldest value if `is_due` says so.
    pub(crate) fn take_oldest_if(&mut self, is_due: impl FnOnce(&V) -> bool) -> Option<V> {
        let due = is_due(self.values.peek_lru()?.1);
        due.then(|| self.values.pop_lru()).flatten().map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, directory: u64, path: &str) -> Option<V> {
        self.values.pop(&(directory, path) as &dyn KeyParts)
    }
}

#[derive(PartialEq, Eq)]
struct PathKey {
    directory: u64,
    path: Box<str>,
}

/// A key by its parts, so that a lookup allocates nothing.
trait KeyParts {
    fn parts(&self) -> (u64, &str);
}

impl KeyParts for PathKey {
    fn parts(&self) -> (u64, &str) {
        (self.directory, &self.path)
    }
}

impl KeyParts for (u64, &str) {
    fn parts(&self) -> (u64, &str) {
        *self
    }
}

impl<'k> Borrow<dyn KeyParts + 'k> for PathKey {
    fn borrow(&self) -> &(dyn KeyParts + 'k) {
        self
    }
}

impl Hash for PathKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl Hash for dyn KeyParts + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn KeyParts + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn KeyParts + '_ {}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn value<V>(gone: Option<Gone<V>>) -> Option<V> {
        gone.map(|gone| match gone {
            Gone::Replaced(value) | Gone::Evicted(value) => value,
        })
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut lru = Lru::new(2);
        lru.insert(1, "a", 'a');
        lru.insert(1, "b", 'b');
        assert_eq!(lru.get(1, "a"), Some(&mut 'a'));
        assert!(matches!(lru.insert(1, "c", 'c'), Some(Gone::Evicted('b'))));
        assert!(matches!(lru.insert(1, "a", 'A'), Some(Gone::Replaced('a'))));
        assert_eq!(lru.len(), 2);
    }

    #[test]
    fn the_same_path_of_another_directory_is_another_entry() {
        let mut lru = Lru::new(4);
        lru.insert(1, "a", 1);
        lru.insert(2, "a", 2);
        assert_eq!(lru.remove(1, "a"), Some(1));
        assert_eq!(lru.get(1, "a"), None);
        assert_eq!(lru.get(2, "a"), Some(&mut 2));
        assert_eq!(lru.len(), 1);
    }

    #[test]
    fn it_agrees_with_a_plain_list_over_many_operations() {
        const CAPACITY: usize = 7;
        let mut lru = Lru::new(CAPACITY);
        let mut plain: VecDeque<(u64, String, u32)> = VecDeque::new(); // newest first
        let mut state = 1u32;
        for step in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (directory, path) = (u64::from(state >> 30), ((state >> 20) % 8).to_string());
            let at = plain.iter().position(|(d, p, _)| *d == directory && *p == path);
            let before = at.and_then(|at| plain.remove(at));
            match (state >> 10) % 3 {
                0 => {
                    assert_eq!(lru.get(directory, &path).copied(), before.as_ref().map(|b| b.2));
                    plain.extend(before.clone());
                    plain.rotate_right(usize::from(before.is_some()));
                }
                1 => {
                    let evicted =
                        if before.is_none() && plain.len() == CAPACITY { plain.pop_back() } else { None };
                    plain.push_front((directory, path.clone(), step));
                    assert_eq!(value(lru.insert(directory, &path, step)), before.or(evicted).map(|b| b.2));
                }
                _ => assert_eq!(lru.remove(directory, &path), before.map(|b| b.2)),
            }
            assert_eq!(lru.len(), plain.len());
        }
        assert!(!plain.is_empty());
    }
}
