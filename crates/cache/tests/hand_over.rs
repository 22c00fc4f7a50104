//! A memory tier passes to a successor that runs beside its process.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::purge::PurgeLimits;
use penstock_cache::{
    Budget, BusySlots, GivenTier, Index, IndexEntry, Lease, Metadata, Object, OpenError, OpenedTiers, Report,
    SliceClaim, TierError, TierLimits, TierOptions, Tiers,
};

const SLICE: u32 = 64 * 1024;
const LIMITS: TierLimits =
    TierLimits { bytes: 16 * SLICE as u64, slice_bytes: SLICE, scrub_bytes_per_second: 0 };

struct Nothing;

impl Metadata for Nothing {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }
}

struct Cache {
    tiers: Arc<Tiers>,
    index: Arc<Index<Nothing>>,
}

fn open(directory: &Path, limits: TierLimits, given: Option<GivenTier>) -> Result<Cache, OpenError> {
    let budget = Arc::new(Budget::new(16 << 20));
    let options = TierOptions {
        memory: directory,
        memory_limits: limits,
        disks: &[],
        budget: &budget,
        purge_limits: PurgeLimits { purges: 10, bytes: 10_000 },
        purges: None,
    };
    let report: Report = Arc::new(|_| {});
    let now = SystemTime::now();
    let opened = match given {
        Some(given) => Tiers::open_given(&options, given, report, now),
        None => Tiers::open(&options, report, now),
    };
    let OpenedTiers { tiers, restored, .. } = opened?;
    Ok(Cache { tiers, index: Index::new(Arc::clone(&budget), restored) })
}

impl Cache {
    /// Stores an object of one slice; false if the tier has no space.
    fn store(&self, key: u8) -> bool {
        let object = Object::new(&[key; 16], Nothing, Some(SLICE.into()), Arc::clone(&self.tiers));
        let IndexEntry::Claimed(claim) = self.index.get_or_claim(&[key; 16]) else { panic!("it is there") };
        claim.keep(&object);
        let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("it is new") };
        let is_stored = fill.append(&of(key)).is_ok();
        if is_stored {
            fill.finish();
        }
        is_stored
    }

    fn object(&self, key: u8) -> Option<Arc<Object<Nothing>>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let known = self.index.get(&[key; 16]);
        known.or_else(|| runtime.block_on(self.index.restore(&[key; 16], &self.tiers, |_| Some(Nothing))))
    }

    /// A reader of an object that is there.
    fn lease(&self, key: u8) -> Option<Lease> {
        let SliceClaim::Ready(lease) = self.object(key)?.claim_slice(0) else { return None };
        Some(lease)
    }

    fn stored(&self, keys: impl Iterator<Item = u8>) -> usize {
        keys.filter(|key| self.store(*key)).count()
    }
}

fn bytes(lease: &Lease) -> Vec<u8> {
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    bytes
}

fn of(key: u8) -> Vec<u8> {
    vec![key; SLICE as usize]
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn a_successor_neither_evicts_while_its_predecessor_serves_nor_reuses_what_that_still_reads() {
    let directory = directory();
    let first = open(directory.path(), LIMITS, None).unwrap();
    assert_eq!(first.stored(1..16), 15, "it is full");
    let reader = first.lease(1).unwrap();
    let given = first.tiers.give_away().unwrap();
    assert_eq!(given.busy.len(), 15);
    assert!(first.tiers.give_away().is_none(), "there is one tier");
    assert!(!first.store(100), "nothing is filled any more");
    assert_eq!(bytes(&first.lease(2).unwrap()), of(2), "and everything is found");

    let second = open(directory.path(), LIMITS, Some(given)).unwrap();
    assert_eq!(bytes(&second.lease(3).unwrap()), of(3));
    assert!(!second.store(101), "what it would evict may get a reader");
    first.index.clear();
    let busy = first.tiers.busy_slots();
    assert_eq!(busy.len(), 1);
    second.tiers.set_predecessor(Some(&busy));
    // More than the tier holds, several times.
    assert_eq!(second.stored(110..170), 60);
    assert_eq!(bytes(&reader), of(1));
    drop(reader);
    assert!(first.tiers.busy_slots().is_empty());
    first.tiers.preserve();
    drop(first);
    second.tiers.set_predecessor(None);
    assert!(!second.tiers.memory().has_predecessor());
    assert_eq!(second.stored(170..230), 60);
    assert_eq!(bytes(&second.lease(229).unwrap()), of(229));
    assert_eq!(second.tiers.counters().bytes, 15 * u64::from(SLICE) + 15 * 4096);
}

#[test]
fn a_tier_is_used_again_when_the_successor_has_ended() {
    let directory = directory();
    let first = open(directory.path(), LIMITS, None).unwrap();
    assert_eq!(first.stored(1..6), 5);
    let given = first.tiers.give_away().unwrap();
    let second = open(directory.path(), LIMITS, Some(given)).unwrap();
    // As if it were killed then: what it has written lies in slots that are free for the first.
    assert_eq!(second.stored(50..55), 5);
    second.tiers.preserve();
    drop(second);
    let dropped = first.lease(5).unwrap();
    first.index.forget(&[5; 16], &first.tiers);
    drop(dropped);
    first.tiers.take_back();
    assert_eq!(first.stored(60..100), 40);
    assert_eq!(bytes(&first.lease(99).unwrap()), of(99));
    first.tiers.preserve();
    drop(first);
    // Neither the records of the second nor what was forgotten comes back.
    let third = open(directory.path(), LIMITS, None).unwrap();
    assert!((50..55).chain([5]).all(|key| third.object(key).is_none()));
    assert_eq!(bytes(&third.lease(99).unwrap()), of(99));
}

#[test]
fn a_tier_of_another_size_is_not_taken_and_not_emptied() {
    let directory = directory();
    let first = open(directory.path(), LIMITS, None).unwrap();
    first.store(1);
    let reader = first.lease(1).unwrap();
    let given = first.tiers.give_away().unwrap();
    let other = TierLimits { bytes: 2 * LIMITS.bytes, ..LIMITS };
    let refused = open(directory.path(), other, Some(given)).err();
    assert!(matches!(refused, Some(OpenError::Memory(TierError::Draining(_)))), "{refused:?}");
    assert_eq!(bytes(&reader), of(1));
    first.tiers.take_back();
    assert!(first.store(2));
}

#[test]
fn a_list_of_slots_is_read_as_it_was_written() {
    let directory = directory();
    let first = open(directory.path(), LIMITS, None).unwrap();
    first.stored(1..6);
    let list = first.tiers.busy_slots();
    let encoded = list.encode();
    assert_eq!(BusySlots::decode(&encoded), Some(list));
    assert_eq!(BusySlots::decode(&encoded[1..]), None);
    assert_eq!(BusySlots::decode(&[&encoded[6..12], &encoded[..6]].concat()), None, "in rising order only");
    assert_eq!(BusySlots::decode(&[]), Some(BusySlots::default()));
}
