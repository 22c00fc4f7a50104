//! Restoring a memory tier after its process has ended: what must be restored, and what must not.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Metadata, Object, Restored, SliceClaim, TierError, TierLimits,
    Tiers,
};

const SLICE: u32 = 64 * 1024;
const LIMITS: TierLimits =
    TierLimits { bytes: 16 * SLICE as u64, slice_bytes: SLICE, scrub_bytes_per_second: 0 };

struct Text(String);

impl Metadata for Text {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

struct Cache {
    tiers: Arc<Tiers>,
    index: Arc<Index<Text>>,
    slices: u64,
    dropped: Option<&'static str>,
}

fn budget() -> Arc<Budget> {
    Arc::new(Budget::new(16 << 20))
}

fn open_as(directory: &Path, limits: TierLimits, life: u64) -> Cache {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + life);
    let (tier, restored) = MemoryTier::open(directory, limits, now).unwrap();
    let (slices, dropped) = (restored.slices, restored.dropped);
    Cache { tiers: Tiers::new(tier, None), index: Index::new(budget(), restored), slices, dropped }
}

fn open(directory: &Path, life: u64) -> Cache {
    open_as(directory, LIMITS, life)
}

impl Cache {
    fn new_object(&self, key: u8, text: &str, length: Option<u64>) -> Arc<Object<Text>> {
        Object::new(&[key; 16], Text(text.to_owned()), length, Arc::clone(&self.tiers))
    }

    fn keep(&self, key: u8, object: &Arc<Object<Text>>) {
        match self.index.get_or_claim(&[key; 16]) {
            IndexEntry::Claimed(claim) => claim.keep(object),
            IndexEntry::Known(known) => match self.index.get_newer_or_claim(&[key; 16], &known) {
                IndexEntry::Claimed(claim) => claim.keep(object),
                _ => panic!("another claim is pending"),
            },
            IndexEntry::Pending(_) => panic!("no claim is pending"),
        }
    }

    fn kept(&self, key: u8, text: &str, length: u64) -> Arc<Object<Text>> {
        let object = self.new_object(key, text, Some(length));
        self.keep(key, &object);
        object
    }

    fn restore(&self, key: u8) -> Option<Arc<Object<Text>>> {
        let read = |bytes: &[u8]| Some(Text(String::from_utf8(bytes.to_vec()).ok()?));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.index.restore(&[key; 16], &self.tiers, read))
    }

    /// As if the process were killed: nothing is said to the tier.
    fn kill(self) {
        self.tiers.preserve();
    }
}

fn fill(object: &Arc<Object<Text>>, slice: u32, byte: u8) {
    let SliceClaim::Missing(mut fill) = object.claim_slice(slice) else {
        panic!("slice {slice} is not missing")
    };
    fill.append(&vec![byte; object.slice_length(slice) as usize]).unwrap();
    fill.finish();
}

fn bytes(object: &Arc<Object<Text>>, slice: u32) -> Option<Vec<u8>> {
    let SliceClaim::Ready(lease) = object.claim_slice(slice) else { return None };
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    Some(bytes)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn a_second_process_learns_whether_the_first_drains() {
    let directory = directory();
    let second = || MemoryTier::open(directory.path(), LIMITS, SystemTime::now()).err();
    let first = open(directory.path(), 0);
    assert!(matches!(second(), Some(TierError::InUse(_))));
    Tiers::announce_end(directory.path()).unwrap();
    assert!(matches!(second(), Some(TierError::Draining(_))));
    first.kill();
    // The mark went with its process.
    let _third = open(directory.path(), 1);
    assert!(matches!(second(), Some(TierError::InUse(_))));
}

#[test]
fn popular_slices_stay_popular_after_a_restart_and_nothing_is_lost_without_that_knowledge() {
    let popular = 1..5;
    for damage in [None, Some("a hint that is none"), Some("")] {
        let directory = directory();
        let first = open(directory.path(), 0);
        let add = |cache: &Cache, key| {
            let object = cache.kept(key, "an object", u64::from(SLICE));
            fill(&object, 0, key);
            object.count_request(0);
            object
        };
        let objects: Vec<_> = popular.clone().map(|key| add(&first, key)).collect();
        for key in 10..60 {
            objects.iter().for_each(|object| object.count_request(0));
            add(&first, key);
        }
        drop(objects);
        first.kill();
        if let Some(damage) = damage {
            fs::write(directory.path().join("popular"), damage).unwrap();
        }
        let second = open(directory.path(), 1);
        assert_eq!(second.slices, 15, "all that fit with their metadata");
        for key in 100..112 {
            add(&second, key);
        }
        let left = popular.clone().filter(|key| second.restore(*key).is_some()).count();
        assert!(damage.is_some() || left == 4, "{left} of the popular objects are left");
    }
}

#[test]
fn a_kept_object_is_restored_with_its_metadata() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.kept(1, "a film", u64::from(SLICE) + 100);
    fill(&object, 0, 7);
    fill(&object, 1, 8);
    let bytes_before = first.tiers.counters().bytes;
    drop(object);
    first.kill();

    let second = open(directory.path(), 1);
    assert_eq!((second.slices, second.dropped), (2, None));
    assert_eq!(second.tiers.counters().bytes, bytes_before, "they take as much as before");
    let object = second.restore(1).unwrap();
    assert_eq!((object.metadata().0.as_str(), object.length()), ("a film", Some(u64::from(SLICE) + 100)));
    assert_eq!(bytes(&object, 0).unwrap(), vec![7; SLICE as usize]);
    assert_eq!(bytes(&object, 1).unwrap(), vec![8; 100]);
    assert!(second.restore(1).is_none(), "it is given out once");
    drop(object);
    let counters = second.tiers.counters();
    assert_eq!((counters.slices, counters.bytes), (0, 0), "it had no holder in the end");
}

#[test]
fn private_and_unfinished_objects_are_gone() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let private = first.new_object(1, "private", Some(100));
    fill(&private, 0, 1);
    let half = first.kept(2, "half", 100);
    let SliceClaim::Missing(mut filling) = half.claim_slice(0) else { panic!() };
    filling.append(&[2; 50]).unwrap();
    let endless = first.new_object(3, "endless", None);
    first.keep(3, &endless);
    fill(&endless, 0, 3);
    first.kill();
    drop(filling);
    drop((private, half, endless));

    let second = open(directory.path(), 1);
    assert_eq!(second.slices, 0);
    assert!((1..4).all(|key| second.restore(key).is_none()));
    let reused = second.kept(4, "new", 100);
    fill(&reused, 0, 4);
    assert_eq!(bytes(&reused, 0).unwrap(), vec![4; 100]);
}

#[test]
fn an_object_whose_length_was_found_during_its_fill_is_kept() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.new_object(3, "chunked", None);
    first.keep(3, &object);
    fill(&object, 0, 3);
    let SliceClaim::Missing(mut filling) = object.claim_slice(1) else { panic!() };
    filling.append(&[4; 10]).unwrap();
    object.set_length(u64::from(SLICE) + 10);
    filling.finish();
    drop(object);
    first.kill();

    let object = open(directory.path(), 1).restore(3).unwrap();
    assert_eq!(object.length(), Some(u64::from(SLICE) + 10));
    assert_eq!(bytes(&object, 1).unwrap(), vec![4; 10]);
}

#[test]
fn forgotten_and_replaced_objects_do_not_return() {
    let directory = directory();
    let first = open(directory.path(), 0);
    for key in 1..=3 {
        fill(&first.kept(key, "old", 100), 0, key);
    }
    assert!(first.index.forget(&[1; 16], &first.tiers));
    let IndexEntry::Known(second_version) = first.index.get_or_claim(&[2; 16]) else { panic!() };
    first.index.forget_version(&[2; 16], &second_version);
    let reader = second_version;
    fill(&first.kept(3, "new", 100), 0, 30);
    first.kill();
    drop(reader);

    let second = open(directory.path(), 1);
    assert!(second.restore(1).is_none());
    assert!(second.restore(2).is_none());
    let object = second.restore(3).unwrap();
    assert_eq!((object.metadata().0.as_str(), bytes(&object, 0).unwrap()[0]), ("new", 30));
}

#[test]
fn an_object_kept_without_a_claim_returns_unless_it_was_refused() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, "old", 100), 0, 1);
    first.kill();
    let second = open(directory.path(), 1);
    let new = second.new_object(1, "new", Some(50));
    second.index.insert_kept(&new, |_| panic!("no request has restored the object of the first process"));
    fill(&new, 0, 2);
    let older = second.new_object(1, "older", Some(60));
    fill(&older, 0, 3);
    second.index.insert_kept(&older, |known| known.metadata().0 != "new");
    assert!(Arc::ptr_eq(&second.index.get(&[1; 16]).unwrap(), &new));
    second.kill();
    drop((new, older));
    let third = open(directory.path(), 2);
    assert_eq!(third.slices, 1);
    let object = third.restore(1).unwrap();
    assert_eq!((object.metadata().0.as_str(), bytes(&object, 0).unwrap()), ("new", vec![2; 50]));
}

#[test]
fn a_claim_that_was_forgotten_keeps_nothing_also_for_the_next_process() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let known = fill_kept(&first, 1);
    let claim = |key: u8| match first.index.get_or_claim(&[key; 16]) {
        IndexEntry::Claimed(claim) => claim,
        IndexEntry::Known(_) | IndexEntry::Pending(_) => panic!("the key is free"),
    };
    let IndexEntry::Claimed(renewal) = first.index.get_newer_or_claim(&[1; 16], &known) else { panic!() };
    let fetch = claim(2);
    let fetched = first.new_object(2, "fetched before", Some(100));
    fill(&fetched, 0, 2);
    for key in [1, 2] {
        first.index.forget(&[key; 16], &first.tiers);
    }
    assert!(!renewal.is_current() && !fetch.is_current());
    let newer = claim(2);
    renewal.keep(&known);
    fetch.keep(&fetched);
    assert_eq!(first.index.objects(), 0);
    assert!(newer.is_current(), "the end of the other claim does not concern it");
    assert!(matches!(first.index.get_or_claim(&[2; 16]), IndexEntry::Pending(_)));
    newer.keep(&first.new_object(2, "fetched afterwards", Some(100)));
    assert_eq!(first.index.get(&[2; 16]).unwrap().metadata().0, "fetched afterwards");
    first.kill();
    drop((known, fetched));
    let second = open(directory.path(), 1);
    assert_eq!(second.slices, 0);
}

#[test]
fn an_object_forgotten_before_its_first_request_stays_forgotten() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, "old", 100), 0, 1);
    first.kill();
    let second = open(directory.path(), 1);
    assert!(second.index.forget(&[1; 16], &second.tiers));
    assert!(second.restore(1).is_none());
    second.kill();
    assert!(open(directory.path(), 2).restore(1).is_none());
}

#[test]
fn a_third_process_finds_what_the_first_left_and_the_second_did_not_touch() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, "one", 100), 0, 1);
    first.kill();
    let second = open(directory.path(), 1);
    fill(&second.kept(2, "two", 100), 0, 2);
    second.kill();
    let third = open(directory.path(), 2);
    assert_eq!(third.slices, 2);
    assert_eq!(bytes(&third.restore(1).unwrap(), 0).unwrap(), vec![1; 100]);
    assert_eq!(bytes(&third.restore(2).unwrap(), 0).unwrap(), vec![2; 100]);
}

#[test]
fn objects_of_an_earlier_process_are_evicted_when_the_tier_is_full() {
    let directory = directory();
    let first = open(directory.path(), 0);
    for key in 0..16 {
        fill(&first.kept(key, "old", u64::from(SLICE) - 4096), 0, key);
    }
    first.kill();
    let second = open(directory.path(), 1);
    for key in 100..116 {
        fill(&second.kept(key, "new", u64::from(SLICE) - 4096), 0, key);
    }
    assert!(second.tiers.counters().bytes <= LIMITS.bytes);
    assert!((0..16).any(|key| second.restore(key).is_none()));
    assert!(second.tiers.counters().evictions >= 15);
}

#[test]
fn a_damaged_record_or_description_costs_its_object_and_nothing_else() {
    for (name, place) in [("records", 4096 + 20), ("slices", 104)] {
        let directory = directory();
        let first = open(directory.path(), 0);
        fill(&first.kept(1, "one", 100), 0, 1);
        fill(&first.kept(2, "two", 100), 0, 2);
        first.kill();
        let file = OpenOptions::new().write(true).open(directory.path().join(name)).unwrap();
        file.write_all_at(&[0xff], place).unwrap();
        let second = open(directory.path(), 1);
        assert!(second.restore(1).is_none(), "{name}");
        assert_eq!(bytes(&second.restore(2).unwrap(), 0).unwrap(), vec![2; 100], "{name}");
    }
}

/// Why nothing is kept, and what brings that about.
type Change = (&'static str, fn(&Path) -> TierLimits);

#[test]
fn another_size_or_slice_or_file_begins_empty_and_says_why() {
    let changes: [Change; 4] = [
        ("its size or slice was another", |_| TierLimits { bytes: LIMITS.bytes * 2, ..LIMITS }),
        ("its size or slice was another", |_| TierLimits { slice_bytes: SLICE * 2, ..LIMITS }),
        ("its file of slices is another", |path| {
            let slices = path.join("slices");
            fs::copy(&slices, path.join("other")).unwrap();
            fs::rename(path.join("other"), slices).unwrap();
            LIMITS
        }),
        ("its records are damaged, or of another version", |path| {
            let file = OpenOptions::new().write(true).open(path.join("records")).unwrap();
            file.write_all_at(b"?", 7).unwrap();
            LIMITS
        }),
    ];
    for (why, change) in changes {
        let directory = directory();
        let first = open(directory.path(), 0);
        fill(&first.kept(1, "one", 100), 0, 1);
        first.kill();
        let limits = change(directory.path());
        let second = open_as(directory.path(), limits, 1);
        assert_eq!((second.slices, second.dropped), (0, Some(why)));
        fill(&second.kept(1, "again", 100), 0, 9);
        second.kill();
        let third = open_as(directory.path(), limits, 2);
        assert_eq!((third.slices, third.dropped), (1, None), "{why}");
    }
}

#[test]
fn a_renewed_description_is_the_one_that_comes_back() {
    let directory = directory();
    let first = open(directory.path(), 0);
    let object = first.new_object(1, "told twice", Some(2 * u64::from(SLICE)));
    first.keep(1, &object);
    fill(&object, 0, 1);
    fill(&object, 1, 2);
    // As after a 304: the same object is kept once more.
    first.keep(1, &object);
    drop(object);
    first.kill();
    let object = open(directory.path(), 1).restore(1).unwrap();
    assert_eq!(object.stored_slices(), 2);
    assert_eq!(bytes(&object, 1).unwrap(), vec![2; SLICE as usize]);
}

#[test]
fn a_description_that_is_too_long_is_not_kept_and_harms_no_other() {
    let directory = directory();
    let first = open(directory.path(), 0);
    fill(&first.kept(1, &"x".repeat(20_000), 100), 0, 1);
    fill(&first.kept(2, &"y".repeat(16_000), u64::from(SLICE)), 0, 2);
    first.kill();
    let second = open(directory.path(), 1);
    assert_eq!(second.slices, 1);
    assert_eq!(bytes(&second.restore(2).unwrap(), 0).unwrap(), vec![2; SLICE as usize]);
    drop(Restored::default());
}

#[test]
fn objects_of_an_earlier_process_count_against_the_budget_until_their_slices_are_gone() {
    let directory = directory();
    let first = open(directory.path(), 0);
    (0..10).for_each(|key| drop(fill_kept(&first, key)));
    first.kill();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000);
    let (memory, restored) = MemoryTier::open(directory.path(), LIMITS, now).unwrap();
    let tiers = Tiers::new(memory, None);
    let budget = Arc::new(Budget::new(1));
    let index: Arc<Index<Text>> = Index::new(Arc::clone(&budget), restored);
    let charged = budget.used();
    assert!(charged > 1000);
    assert!(index.forget(&[3; 16], &tiers));
    assert!(budget.used() < charged);
    // New slices evict the old ones, and the first eviction from the index finds the objects without any.
    let crowd = Object::new(&[99; 16], Text(String::new()), Some(64 * u64::from(SLICE)), Arc::clone(&tiers));
    (0..64).for_each(|slice| fill(&crowd, slice, 9));
    index.insert_unclaimed(&crowd, |_| true);
    assert_eq!((budget.used(), index.objects()), (0, 0));
}

fn fill_kept(cache: &Cache, key: u8) -> Arc<Object<Text>> {
    let object = cache.kept(key, "old", 100);
    fill(&object, 0, key);
    object
}
