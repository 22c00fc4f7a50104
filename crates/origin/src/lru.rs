//! A bounded table of what is known about paths, which forgets what was used least recently.

use std::collections::HashMap;
use std::rc::Rc;

/// End of the list.
const NONE: usize = usize::MAX;

/// Values by directory and path; every operation takes constant time.
///
/// The slots are dense: removing one moves the last into its place. They form a list from newest to oldest.
pub(crate) struct Lru<V> {
    capacity: usize,
    index: HashMap<u64, HashMap<Rc<str>, usize>>,
    slots: Vec<Slot<V>>,
    newest: usize,
    oldest: usize,
}

struct Slot<V> {
    directory: u64,
    path: Rc<str>,
    value: V,
    newer: usize,
    older: usize,
}

impl<V> Lru<V> {
    /// An empty table for at most `capacity` values, and at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            index: HashMap::new(),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The value, which becomes the newest.
    pub(crate) fn get(&mut self, directory: u64, path: &str) -> Option<&mut V> {
        let at = self.find(directory, path)?;
        if at != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(&mut self.slots[at].value)
    }

    /// Stores a value as the newest and returns the one that had to go: that of the same path, or else the
    /// oldest of a full table.
    pub(crate) fn insert(&mut self, directory: u64, path: &str, value: V) -> Option<Gone<V>> {
        let gone = if let Some(at) = self.find(directory, path) {
            Some(Gone::Replaced(self.remove_slot(at)))
        } else if self.slots.len() >= self.capacity {
            Some(Gone::Evicted(self.remove_slot(self.oldest)))
        } else {
            None
        };
        let path: Rc<str> = path.into();
        let at = self.slots.len();
        self.slots.push(Slot { directory, path: path.clone(), value, newer: NONE, older: NONE });
        self.index.entry(directory).or_default().insert(path, at);
        self.link_newest(at);
        gone
    }

    /// Takes out the oldest value if `is_due` says so.
    pub(crate) fn take_oldest_if(&mut self, is_due: impl FnOnce(&V) -> bool) -> Option<V> {
        let due = is_due(&self.slots.get(self.oldest)?.value);
        due.then(|| self.remove_slot(self.oldest))
    }

    pub(crate) fn remove(&mut self, directory: u64, path: &str) -> Option<V> {
        let at = self.find(directory, path)?;
        Some(self.remove_slot(at))
    }

    fn find(&self, directory: u64, path: &str) -> Option<usize> {
        self.index.get(&directory)?.get(path).copied()
    }

    fn remove_slot(&mut self, at: usize) -> V {
        self.unlink(at);
        let slot = self.slots.swap_remove(at);
        if let Some(paths) = self.index.get_mut(&slot.directory) {
            paths.remove(&slot.path);
            if paths.is_empty() {
                self.index.remove(&slot.directory);
            }
        }
        if at < self.slots.len() {
            self.moved_to(at);
        }
        slot.value
    }

    /// Makes everything that pointed to the last slot point to its new place.
    fn moved_to(&mut self, at: usize) {
        let Slot { directory, newer, older, .. } = self.slots[at];
        self.set_older_of(newer, at);
        self.set_newer_of(older, at);
        let place = self.index.get_mut(&directory).and_then(|paths| paths.get_mut(&self.slots[at].path));
        if let Some(place) = place {
            *place = at;
        }
    }

    fn unlink(&mut self, at: usize) {
        let Slot { newer, older, .. } = self.slots[at];
        self.set_older_of(newer, older);
        self.set_newer_of(older, newer);
    }

    fn link_newest(&mut self, at: usize) {
        let second = self.newest;
        self.slots[at].newer = NONE;
        self.slots[at].older = second;
        self.newest = at;
        self.set_newer_of(second, at);
    }

    /// Sets the link from `at` towards older slots; the one from before the newest is `self.newest`.
    fn set_older_of(&mut self, at: usize, to: usize) {
        if at == NONE {
            self.newest = to;
        } else {
            self.slots[at].older = to;
        }
    }

    /// Sets the link from `at` towards newer slots; the one from behind the oldest is `self.oldest`.
    fn set_newer_of(&mut self, at: usize, to: usize) {
        if at == NONE {
            self.oldest = to;
        } else {
            self.slots[at].newer = to;
        }
    }
}

/// A value that left the table.
pub(crate) enum Gone<V> {
    /// Another took its path.
    Replaced(V),
    /// The table was full.
    Evicted(V),
}

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
        assert_eq!(lru.index.len(), 1);
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
