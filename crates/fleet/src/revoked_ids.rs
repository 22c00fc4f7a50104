//! The revoked ids of tokens that this edge knows: a set that only grows until the records end.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use penstock_sys::digest::sha256;
use penstock_sys::lock::Unpoisoned;

/// The first bytes of SHA-256 of an id.
type Digest = [u8; 16];

/// Bytes of a record: the digest, then the end in seconds since 1970, the most significant byte first.
pub(crate) const RECORD_BYTES: usize = 24;

/// A revoked id. Records are in the order of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RevokedRecord {
    end: u64,
    digest: Digest,
}

impl RevokedRecord {
    /// The record of an id of any length, until `end` in seconds since 1970.
    pub(crate) fn new(id: &str, end: u64) -> Self {
        Self { end, digest: digest_of(id) }
    }

    pub(crate) fn encode(records: &[Self]) -> Vec<u8> {
        records.iter().flat_map(|record| [&record.digest[..], &record.end.to_be_bytes()].concat()).collect()
    }

    /// Reads [`Self::encode`]; `None` if it is damaged, or has more than so many records.
    pub(crate) fn decode(bytes: &[u8], records_max: usize) -> Option<Vec<Self>> {
        let chunks = bytes.chunks_exact(RECORD_BYTES);
        if !chunks.remainder().is_empty() || chunks.len() > records_max {
            return None;
        }
        let record = |chunk: &[u8]| {
            let (digest, end) = chunk.split_first_chunk()?;
            Some(Self { digest: *digest, end: u64::from_be_bytes(end.try_into().ok()?) })
        };
        chunks.map(record).collect()
    }
}

fn digest_of(id: &str) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&sha256(&[id.as_bytes()])[..16]);
    digest
}

/// The bounds of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevokedLimits {
    /// The most ids. Beyond that, those that end first are dropped.
    pub ids: usize,
    /// How long an id is kept beyond its end, for clocks that differ.
    pub kept: Duration,
}

/// The revoked ids that this edge knows. Shared by all workers, which only read: no change holds its lock for long.
#[derive(Debug)]
pub struct RevokedIds {
    limits: RevokedLimits,
    set: RwLock<RevokedSet>,
    /// Number of ids, so that no lock is taken while there is none.
    count: AtomicUsize,
    /// Those that the stream has not shown yet. Locked before the set.
    unwritten: Mutex<HashSet<Digest>>,
    dropped: AtomicU64,
    /// How often an id was added.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct RevokedSet {
    ends: HashMap<Digest, u64>,
    by_end: BTreeSet<RevokedRecord>,
}

/// Records that are forgotten while workers wait.
const FORGOTTEN_AT_ONCE: usize = 1000;

impl RevokedIds {
    pub(crate) fn new(limits: RevokedLimits) -> Self {
        Self {
            limits,
            set: RwLock::default(),
            count: AtomicUsize::new(0),
            unwritten: Mutex::default(),
            dropped: AtomicU64::new(0),
            version: AtomicU64::new(0),
        }
    }

    /// Whether the tokens with this id are revoked. A token without an id cannot be.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.len() > 0 && !id.is_empty() && self.set.read().unpoisoned().ends.contains_key(&digest_of(id))
    }

    /// Number of ids.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Number of ids that were not kept, because the set was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// How often an id was added.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Adds records that the stream does not have yet.
    pub(crate) fn add(&self, records: &[RevokedRecord]) {
        self.insert(records, false);
    }

    /// Adds records that the stream has.
    pub(crate) fn add_written(&self, records: &[RevokedRecord]) {
        self.insert(records, true);
    }

    fn insert(&self, records: &[RevokedRecord], is_written: bool) {
        let mut unwritten = self.unwritten.lock().unpoisoned();
        let mut set = self.set.write().unpoisoned();
        let (mut added, mut dropped) = (0, 0);
        for record in records {
            let is_new = set.add(*record);
            added += u64::from(is_new);
            if is_new && !is_written {
                unwritten.insert(record.digest);
            }
            if is_written && set.ends.get(&record.digest) == Some(&record.end) {
                unwritten.remove(&record.digest);
            }
            if set.ends.len() > self.limits.ids
                && let Some(first) = set.remove_first()
            {
                unwritten.remove(&first.digest);
                dropped += 1;
            }
        }
        self.count.store(set.ends.len(), Relaxed);
        drop(set);
        self.version.fetch_add(added, Relaxed);
        if dropped > 0 && self.dropped.fetch_add(dropped, Relaxed) == 0 {
            tracing::warn!(
                "fleet: more than {} ids of tokens are revoked: those that end first are accepted again; write \
                 long lists to the file of tokens.revoked",
                self.limits.ids
            );
        }
    }

    /// Notes that the stream may have lost everything.
    pub(crate) fn note_lost(&self) {
        let mut unwritten = self.unwritten.lock().unpoisoned();
        *unwritten = self.set.read().unpoisoned().ends.keys().copied().collect();
    }

    /// Forgets the records that have ended.
    pub(crate) fn forget(&self, now: u64) {
        let kept = self.limits.kept.as_secs();
        let has_ended = |record: &RevokedRecord| record.end.saturating_add(kept) <= now;
        while self.set.read().unpoisoned().by_end.first().is_some_and(has_ended) {
            let mut unwritten = self.unwritten.lock().unpoisoned();
            let mut set = self.set.write().unpoisoned();
            for _ in 0..FORGOTTEN_AT_ONCE {
                if set.by_end.first().is_none_or(|first| !has_ended(first)) {
                    break;
                }
                if let Some(first) = set.remove_first() {
                    unwritten.remove(&first.digest);
                }
            }
            self.count.store(set.ends.len(), Relaxed);
        }
    }

    /// Number of ids that the stream has not shown yet.
    pub(crate) fn unwritten_len(&self) -> usize {
        self.unwritten.lock().unpoisoned().len()
    }

    /// The records that the stream has not shown yet.
    pub(crate) fn unwritten(&self) -> Vec<RevokedRecord> {
        let unwritten = self.unwritten.lock().unpoisoned();
        let set = self.set.read().unpoisoned();
        let record = |digest: &Digest| Some(RevokedRecord { digest: *digest, end: *set.ends.get(digest)? });
        unwritten.iter().filter_map(record).collect()
    }

    /// All records, those that end last first: what a smaller set keeps.
    pub(crate) fn all(&self) -> Vec<RevokedRecord> {
        self.set.read().unpoisoned().by_end.iter().rev().copied().collect()
    }
}

impl RevokedSet {
    /// Adds a record; false if the same id ends as late already.
    fn add(&mut self, record: RevokedRecord) -> bool {
        let before = self.ends.get(&record.digest).copied();
        if before.is_some_and(|end| end >= record.end) {
            return false;
        }
        if let Some(end) = before {
            self.by_end.remove(&RevokedRecord { end, ..record });
        }
        self.ends.insert(record.digest, record.end);
        self.by_end.insert(record)
    }

    fn remove_first(&mut self) -> Option<RevokedRecord> {
        let first = self.by_end.pop_first()?;
        self.ends.remove(&first.digest);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(most: usize) -> RevokedIds {
        RevokedIds::new(RevokedLimits { ids: most, kept: Duration::from_secs(600) })
    }

    fn record(id: &str, end: u64) -> RevokedRecord {
        RevokedRecord::new(id, end)
    }

    #[test]
    fn records_survive_encoding_and_damaged_or_long_lists_are_none() {
        let records = [record("a", 7), record("b", u64::MAX)];
        let bytes = RevokedRecord::encode(&records);
        assert_eq!(bytes.len(), 2 * RECORD_BYTES);
        assert_eq!(RevokedRecord::decode(&bytes, 2), Some(records.to_vec()));
        assert_eq!(RevokedRecord::decode(&bytes, 1), None);
        assert_eq!(RevokedRecord::decode(&bytes[1..], 2), None);
        assert_eq!(RevokedRecord::decode(b"", 1), Some(Vec::new()));
    }

    #[test]
    fn an_id_is_revoked_until_its_last_end_and_the_time_that_it_is_kept() {
        let known = ids(10);
        known.add(&[record("a", 1000), record("b", 2000)]);
        // Neither an earlier end nor one that the stream has changes that.
        known.add_written(&[record("b", 500)]);
        for (now, a, b) in
            [(1599, true, true), (1600, false, true), (2599, false, true), (2600, false, false)]
        {
            known.forget(now);
            assert_eq!((known.contains("a"), known.contains("b")), (a, b), "{now}");
        }
        known.add(&[record("", 9000)]);
        assert!(!known.contains(""), "it names no token");
    }

    #[test]
    fn a_full_set_drops_the_ids_that_end_first_and_counts_them() {
        let known = ids(3);
        known.add(&[record("c", 30), record("a", 10), record("b", 20)]);
        assert_eq!((known.len(), known.dropped()), (3, 0));
        known.add(&[record("d", 40)]);
        known.add(&[record("e", 5)]);
        assert_eq!((known.len(), known.dropped()), (3, 2));
        let found = ["a", "b", "c", "d", "e"].map(|id| known.contains(id));
        assert_eq!(found, [false, true, true, true, false]);
        assert_eq!(known.all(), [record("d", 40), record("c", 30), record("b", 20)]);
        assert_eq!(known.unwritten_len(), 3);
    }

    #[test]
    fn what_the_stream_lacks_is_known_after_it_was_lost() {
        let known = ids(10);
        known.add(&[record("a", 10), record("b", 20)]);
        known.add_written(&[record("a", 10), record("b", 15), record("c", 30)]);
        assert_eq!(known.unwritten(), [record("b", 20)], "the stream has an earlier end");
        let version = known.version();
        known.note_lost();
        assert_eq!((known.unwritten_len(), known.version()), (3, version));
        known.add_written(&[record("a", 11), record("b", 20)]);
        assert_eq!(known.unwritten(), [record("c", 30)]);
        assert!(known.version() > version, "an end is later");
    }
}
