//! The keys that occur most often, in constant memory (Misra, Gries 1982; evictions in batches, Anderson et al. 2017; a filter of
//! cells, Homem, Carvalho 2010).
//!
//! A table has a fixed number of entries. When it is full, the entries with the smallest weights leave together, and the largest of
//! these weights is the table's floor. Keys without an entry are counted together in cells, which know no texts: a key has occurred
//! at most as often as its cell says. It gets an entry when its cell rises above the floor, and what the cell had is its error.
//!
//! At least [`limits::TOP_KEYS`] entries weigh no less than a new floor. Each raise of the floor takes its height from what every one of
//! these weighs beyond the old floor, and only what is counted adds to that. So the floor is at most the total divided by
//! [`limits::TOP_KEYS`], and a key with more than this share of the total always has an entry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::limits;
use crate::players::Audience;

/// What a table ranks its keys by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranking {
    Requests,
    Bytes,
}

/// What the entries of a table count beside requests and bytes.
pub(crate) trait EntryCounts: Clone + Debug + Default {
    fn count(&mut self, bytes: u64, audience: &Audience<'_>);

    /// Adds what another worker has counted.
    fn add(&mut self, other: &Self);

    /// Adds it to the entry in `/status.json`.
    fn show(&self, entry: &mut Map<String, Json>);
}

/// Nothing else.
impl EntryCounts for () {
    fn count(&mut self, _: u64, _: &Audience<'_>) {}

    fn add(&mut self, (): &Self) {}

    fn show(&self, _: &mut Map<String, Json>) {}
}

/// One table of a worker.
#[derive(Debug)]
pub(crate) struct TopTable<C> {
    ranking: Ranking,
    entries: Vec<TopEntry<C>>,
    /// Places in `entries`, by the hash of the key.
    places: HashMap<u64, usize, BuildHasherDefault<Hashed>>,
    /// No cell has more.
    floor: u64,
    /// What the keys without an entry have at most, by hash. Empty until one is evicted.
    cells: Vec<u64>,
    /// The weights of the entries while some are evicted.
    weights: Vec<u64>,
}

#[derive(Clone, Debug)]
struct TopEntry<C> {
    key: Arc<str>,
    hash: u64,
    requests: u64,
    bytes: u64,
    /// At most so much of the ranked number was counted before the key had an entry.
    error: u64,
    more: C,
}

/// A key with its counts since it has had an entry. The ranked one is at most `error` too small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopKey<C> {
    pub(crate) key: Arc<str>,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) error: u64,
    pub(crate) more: C,
}

/// Hands on what is a hash already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<C: EntryCounts> TopEntry<C> {
    fn count(&mut self, bytes: u64, audience: &Audience<'_>) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.more.count(bytes, audience);
    }
}

impl<C: EntryCounts> TopTable<C> {
    pub(crate) fn new(ranking: Ranking) -> Self {
        Self {
            ranking,
            entries: Vec::new(),
            places: HashMap::default(),
            floor: 0,
            cells: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Counts a request of `bytes` bytes. `hash` is that of the key, and keyed, so that clients cannot make two alike; `key` makes
    /// the key, if it has no entry.
    pub(crate) fn count(
        &mut self,
        hash: u64,
        bytes: u64,
        audience: &Audience<'_>,
        key: impl FnOnce() -> Arc<str>,
    ) {
        if let Some(place) = self.places.get(&hash) {
            return self.entries[*place].count(bytes, audience);
        }
        let ranked = if self.ranking == Ranking::Requests { 1 } else { bytes };
        let mut error = 0;
        if let Some(cell) = self.cells.get_mut(cell_of(hash)) {
            let weight = cell.saturating_add(ranked);
            if weight <= self.floor {
                *cell = weight;
                return;
            }
            error = *cell;
        }
        if self.entries.len() >= limits::TOP_ENTRIES {
            self.evict();
        }
        let entries = self.entries.len();
        if entries == self.entries.capacity() {
            // A vector by itself would take twice as much in the end.
            self.entries.reserve_exact(entries.max(8).min(limits::TOP_ENTRIES - entries));
        }
        self.places.insert(hash, entries);
        let mut entry = TopEntry { key: key(), hash, requests: 0, bytes: 0, error, more: C::default() };
        entry.count(bytes, audience);
        self.entries.push(entry);
    }

    /// The bytes that it has of its own, without those of keys.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        // A map has a byte beside each bucket, and at most seven of eight buckets are used.
        let buckets = (self.places.capacity() * 8 / 7).next_power_of_two();
        self.entries.capacity() * size_of::<TopEntry<C>>()
            + buckets * (size_of::<(u64, usize)>() + 1)
            + (self.cells.capacity() + self.weights.capacity()) * size_of::<u64>()
    }

    /// Raises the floor so far that all entries but [`limits::TOP_KEYS`] may leave, and lets as many leave.
    fn evict(&mut self) {
        let ranking = self.ranking;
        let surplus = self.entries.len() - limits::TOP_KEYS;
        self.weights.clear();
        self.weights.extend(self.entries.iter().map(|entry| entry.weight(ranking)));
        let (_, floor, _) = self.weights.select_nth_unstable(surplus);
        // Some that weigh no more than the old one may have stayed.
        self.floor = self.floor.max(*floor);
        self.cells.resize(limits::TOP_CELLS, 0);
        let mut place = 0;
        while self.entries.len() > limits::TOP_KEYS && place < self.entries.len() {
            if self.entries[place].weight(ranking) > self.floor {
                place += 1;
                continue;
            }
            let evicted = self.entries.swap_remove(place);
            self.places.remove(&evicted.hash);
            let cell = &mut self.cells[cell_of(evicted.hash)];
            *cell = evicted.weight(ranking).max(*cell);
            if let Some(moved) = self.entries.get(place) {
                self.places.insert(moved.hash, place);
            }
        }
    }

    /// A copy for the reader. Taken while the worker waits, so it copies no text.
    pub(crate) fn snapshot(&self) -> TopSnapshot<C> {
        TopSnapshot { entries: self.entries.clone(), absent: self.floor }
    }
}

/// The place of the cell of a hash, by other bits than the place in a map.
fn cell_of(hash: u64) -> usize {
    (hash >> 32) as usize % limits::TOP_CELLS
}

impl<C> TopEntry<C> {
    fn counted(&self, ranking: Ranking) -> u64 {
        match ranking {
            Ranking::Requests => self.requests,
            Ranking::Bytes => self.bytes,
        }
    }

    fn weight(&self, ranking: Ranking) -> u64 {
        self.error.saturating_add(self.counted(ranking))
    }
}

/// The entries of one worker.
#[derive(Debug)]
pub(crate) struct TopSnapshot<C> {
    entries: Vec<TopEntry<C>>,
    /// At most so much was counted of a key that has no entry.
    absent: u64,
}

/// The `most` keys of several workers with the largest counts, the largest first.
pub(crate) fn merged<C: EntryCounts>(
    snapshots: &[TopSnapshot<C>],
    ranking: Ranking,
    most: usize,
) -> Vec<TopKey<C>> {
    let absent: u64 = snapshots.iter().map(|snapshot| snapshot.absent).sum();
    let mut sums: BTreeMap<&str, TopKey<C>> = BTreeMap::new();
    for snapshot in snapshots {
        for entry in &snapshot.entries {
            let empty = || TopKey {
                key: Arc::clone(&entry.key),
                requests: 0,
                bytes: 0,
                error: absent,
                more: C::default(),
            };
            let sum = sums.entry(&entry.key).or_insert_with(empty);
            sum.requests += entry.requests;
            sum.bytes = sum.bytes.saturating_add(entry.bytes);
            sum.more.add(&entry.more);
            // This worker has an entry for it.
            sum.error = sum.error.saturating_sub(snapshot.absent).saturating_add(entry.error);
        }
    }
    let mut keys: Vec<TopKey<C>> = sums.into_values().collect();
    keys.sort_by_key(|key| {
        Reverse(match ranking {
            Ranking::Requests => key.requests,
            Ranking::Bytes => key.bytes,
        })
    });
    keys.truncate(most);
    keys
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, RandomState};

    use super::*;
    use crate::labels::ClientKind;

    const UNKNOWN: Audience<'_> = Audience { kind: ClientKind::Other, said: None };

    struct Stream {
        table: TopTable<()>,
        hashes: RandomState,
        truth: HashMap<String, (u64, u64)>,
        state: u64,
    }

    impl Stream {
        fn new(ranking: Ranking) -> Self {
            let table = TopTable::new(ranking);
            Self { table, hashes: RandomState::new(), truth: HashMap::new(), state: 0x9e37_79b9_7f4a_7c15 }
        }

        fn count(&mut self, key: &str, bytes: u64) {
            let (requests, sum) = self.truth.entry(key.to_owned()).or_default();
            (*requests, *sum) = (*requests + 1, *sum + bytes);
            self.table.count(self.hashes.hash_one(key), bytes, &UNKNOWN, || Arc::from(key));
        }

        /// Numbers that do not repeat soon (xorshift).
        fn next(&mut self) -> u64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.state
        }
    }

    #[test]
    fn each_count_is_at_most_its_error_too_small_and_heavy_keys_have_entries() {
        for ranking in [Ranking::Requests, Ranking::Bytes] {
            let mut stream = Stream::new(ranking);
            for _ in 0..200_000 {
                // Few keys come often, thousands come rarely.
                let number = stream.next();
                let key = if number.is_multiple_of(3) { number % 20 } else { number % 9_973 };
                let bytes = number % 1000 * u64::from(number.is_multiple_of(7));
                stream.count(&format!("/{key}"), bytes);
            }
            let of =
                |(requests, bytes): (u64, u64)| if ranking == Ranking::Requests { requests } else { bytes };
            let keys = merged(&[stream.table.snapshot()], ranking, usize::MAX);
            assert!((limits::TOP_KEYS..=limits::TOP_ENTRIES).contains(&keys.len()), "{}", keys.len());
            for key in &keys {
                let truth = of(stream.truth[&*key.key]);
                let counted = of((key.requests, key.bytes));
                assert!(counted <= truth && truth <= counted + key.error, "{key:?}: {truth}");
            }
            let total: u64 = stream.truth.values().copied().map(of).sum();
            let share = total / limits::TOP_KEYS as u64;
            for (key, truth) in stream.truth.iter().filter(|(_, truth)| of(**truth) > share) {
                assert!(keys.iter().any(|known| *known.key == **key), "{key} has {truth:?}, no entry");
            }
            assert!(keys.iter().all(|key| key.error <= share), "the error is bounded by the share");
            let floor = stream.table.floor;
            assert!(floor > 0, "some were evicted");
            let has_entry = |key: &str| keys.iter().any(|known| *known.key == *key);
            assert!(stream.truth.iter().all(|(key, truth)| of(*truth) <= floor || has_entry(key)));
        }
    }

    #[test]
    fn counts_of_several_workers_are_added_and_an_absent_key_adds_an_error() {
        let (mut one, mut other) = (Stream::new(Ranking::Requests), Stream::new(Ranking::Requests));
        for _ in 0..3 {
            one.count("/both", 10);
            other.count("/both", 1);
        }
        for number in 0..limits::TOP_ENTRIES {
            // Fills the table: "/both" stays, since the others come once.
            other.count(&format!("/{number}"), 0);
        }
        one.count("/one", 5);
        let keys = merged(&[one.table.snapshot(), other.table.snapshot()], Ranking::Requests, 2);
        assert_eq!((&*keys[0].key, keys[0].requests, keys[0].bytes, keys[0].error), ("/both", 6, 33, 0));
        let all = merged(&[one.table.snapshot(), other.table.snapshot()], Ranking::Requests, usize::MAX);
        let single = all.iter().find(|key| *key.key == *"/one").unwrap();
        assert_eq!((single.requests, single.error), (1, 1), "the other worker may have had it once");
    }

    #[test]
    fn equally_popular_keys_seldom_take_the_place_of_each_other() {
        for ranking in [Ranking::Requests, Ranking::Bytes] {
            let (mut stream, requests) = (Stream::new(ranking), 200_000);
            let mut made = 0;
            for _ in 0..requests {
                let (key, bytes) = (stream.next() % 2_000, stream.next() % 1_000);
                stream.table.count(stream.hashes.hash_one(key), bytes, &UNKNOWN, || {
                    made += 1;
                    Arc::from(key.to_string())
                });
            }
            assert!(made < requests / 10, "{made} entries for {requests} requests");
        }
    }

    #[test]
    fn a_table_of_ever_new_keys_keeps_its_size() {
        let mut stream = Stream::new(Ranking::Requests);
        for number in 0..20 * limits::TOP_KEYS {
            stream.count(&format!("/{number}"), 1);
        }
        let TopTable { entries, places, weights, cells, .. } = &stream.table;
        assert!((limits::TOP_KEYS..=limits::TOP_ENTRIES).contains(&entries.len()), "{}", entries.len());
        assert_eq!(entries.capacity().max(weights.capacity()), limits::TOP_ENTRIES);
        assert_eq!((places.len(), cells.len()), (entries.len(), limits::TOP_CELLS));
        for (place, entry) in entries.iter().enumerate() {
            assert_eq!(places[&entry.hash], place);
        }
    }
}
