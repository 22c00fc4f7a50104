//! Objects and slices as their readers and fills see them, on a real tmpfs.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use penstock_cache::{
    Budget, ClaimResult, Demand, Follower, Index, IndexEntry, Key, Lease, MemoryTier, Metadata, Object,
    Presence, Restored, SliceClaim, SliceFill, TierError, TierLimits, Tiers,
};

const SLICE: u32 = 64 * 1024;

struct Tier {
    tiers: Arc<Tiers>,
    directory: tempfile::TempDir,
}

fn budget() -> Arc<Budget> {
    Arc::new(Budget::new(16 << 20))
}

fn tier(slices: u64) -> Tier {
    // tmpfs everywhere on Linux; the directory goes with the test.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits =
        TierLimits { bytes: slices * u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
    let (memory, _) = MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    Tier { tiers: Tiers::new(memory, None), directory }
}

fn object(tier: &Tier, key: u8, length: Option<u64>) -> Arc<Object<()>> {
    Object::new(&[key; 16], (), length, Arc::clone(&tier.tiers))
}

fn missing(object: &Arc<Object<()>>, slice: u32) -> SliceFill<()> {
    match object.claim_slice(slice) {
        SliceClaim::Missing(fill) => fill,
        SliceClaim::Ready(_) => panic!("slice {slice} is there"),
        SliceClaim::Filling(_) => panic!("slice {slice} is being filled"),
    }
}

fn fill(object: &Arc<Object<()>>, slice: u32, byte: u8) {
    let mut fill = missing(object, slice);
    let bytes = vec![byte; object.slice_length(slice) as usize];
    assert_eq!(fill.append(&bytes).unwrap(), bytes.len());
    assert!(fill.is_full());
    fill.finish();
}

fn here(object: &Arc<Object<()>>, slice: u32) -> Option<Lease> {
    match object.claim_slice(slice) {
        SliceClaim::Ready(lease) => Some(lease),
        SliceClaim::Filling(_) | SliceClaim::Missing(_) => None,
    }
}

fn bytes(lease: &Lease) -> Vec<u8> {
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_filled_slice_has_the_bytes_that_were_written() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(u64::from(SLICE) + 10));
    fill(&object, 0, 7);
    fill(&object, 1, 8);
    assert_eq!(bytes(&here(&object, 0).unwrap()), vec![7; SLICE as usize]);
    assert_eq!(bytes(&here(&object, 1).unwrap()), vec![8; 10]);
    assert_eq!(tier.tiers.counters().bytes, u64::from(SLICE) + 4096, "whole pages count");
}

#[test]
fn the_second_reader_follows_the_fill_of_the_first() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(100));
    let mut filling = missing(&object, 0);
    let SliceClaim::Filling(mut follower) = object.claim_slice(0) else { panic!("the fill is under way") };
    assert!(follower.lease().is_none());
    filling.append(b"hello").unwrap();
    assert_eq!(follower.progress().bytes, 5);
    let lease = follower.lease().unwrap();
    assert_eq!(lease.extent(1..5).unwrap().len, 4);
    assert!(lease.extent(1..6).is_none(), "what is not written yet has no place");
}

#[test]
fn appended_bytes_are_seen_by_readers_that_look_and_wake_them_only_when_notified() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(100));
    let mut filling = missing(&object, 0);
    let SliceClaim::Filling(mut follower) = object.claim_slice(0) else { panic!("the fill is under way") };
    assert_eq!(follower.progress().bytes, 0);
    filling.append_unnotified(b"hello").unwrap();
    assert_eq!((filling.unnotified_bytes(), filling.written()), (5, 5));
    let is_woken = |follower: &mut Follower| {
        let mut further = std::pin::pin!(follower.further());
        further.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    assert!(!is_woken(&mut follower), "no notification was sent");
    filling.notify_readers();
    assert_eq!(filling.unnotified_bytes(), 0);
    assert!(is_woken(&mut follower));
    assert_eq!(follower.progress().bytes, 5);
    filling.append_unnotified(b" there").unwrap();
    assert_eq!(follower.progress().bytes, 11, "a reader that looks sees it");
    filling.notify_readers();
    filling.notify_readers();
    drop(filling);
    assert!(is_woken(&mut follower) && follower.progress().failed, "an end is told in any case");
}

#[test]
fn a_fill_takes_no_more_than_its_slice() {
    let tier = tier(8);
    let object = object(&tier, 1, None);
    let mut filling = missing(&object, 0);
    assert_eq!(filling.append(&vec![1; SLICE as usize + 5]).unwrap(), SLICE as usize);
    assert!(filling.is_full());
    assert_eq!(filling.append(b"more").unwrap(), 0);
}

#[test]
fn followers_are_woken_and_hear_of_a_failure() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(100));
    let mut filling = missing(&object, 0);
    let SliceClaim::Filling(mut follower) = object.claim_slice(0) else { panic!("the fill is under way") };
    let waiting = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut seen = Vec::new();
            loop {
                let progress = follower.progress();
                seen.push(progress.bytes);
                if progress.failed {
                    return seen;
                }
                follower.further().await;
            }
        })
    });
    filling.append(b"some").unwrap();
    drop(filling);
    assert_eq!(waiting.join().unwrap().last(), Some(&4));
    assert!(matches!(object.claim_slice(0), SliceClaim::Missing(_)), "the next one gets to try");
}

#[test]
fn a_leased_slice_keeps_its_bytes_after_its_eviction() {
    let tier = tier(2);
    let old = object(&tier, 1, Some(u64::from(SLICE)));
    fill(&old, 0, 1);
    let lease = here(&old, 0).unwrap();
    let crowd: Vec<_> = (10..14).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    let mut refused = 0;
    for object in &crowd {
        let mut filling = missing(object, 0);
        match filling.append(&vec![9; SLICE as usize]) {
            Ok(_) => filling.finish(),
            Err(_) => refused += 1,
        }
    }
    assert_eq!(refused, 0, "one slot of the two was free for them all");
    assert_eq!(bytes(&lease), vec![1; SLICE as usize]);
    assert!(tier.tiers.counters().evictions > 0);
}

#[test]
fn a_copy_is_used_only_while_its_slice_is_where_it_was_copied_from() {
    let tier = tier(2);
    let small = object(&tier, 1, Some(1000));
    assert!(small.copy_slice(0).is_none(), "it is not there yet");
    fill(&small, 0, 7);
    let copy = small.copy_slice(0).unwrap();
    assert_eq!(small.request_copy(0, &copy).as_deref(), Some(&[7; 1000][..]));
    let others: Vec<_> = (10..50).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    others.iter().for_each(|object| fill(object, 0, 9));
    assert_eq!(small.presence(0), Presence::Missing);
    assert!(small.request_copy(0, &copy).is_none() && small.copy_slice(0).is_none());
    fill(&small, 0, 8);
    assert!(small.request_copy(0, &copy).is_none(), "the bytes are those of another slot");
    let again = small.copy_slice(0).unwrap();
    assert_eq!(small.request_copy(0, &again).as_deref(), Some(&[8; 1000][..]));
}

#[test]
fn a_slice_that_differs_from_its_checksum_is_not_copied() {
    let tier = tier(2);
    let small = object(&tier, 1, Some(1000));
    fill(&small, 0, 7);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(tier.directory.path().join("slices"));
    let file = file.unwrap();
    let offset = here(&small, 0).unwrap().extent(0..1000).unwrap().offset;
    file.write_all_at(&[6], offset + 500).unwrap();
    assert!(small.copy_slice(0).is_none());
    file.write_all_at(&[7], offset + 500).unwrap();
    assert!(small.copy_slice(0).is_some());
}

#[test]
fn when_all_slices_are_leased_there_is_no_space_until_a_lease_ends() {
    let tier = tier(2);
    let objects: Vec<_> = (1..4).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    fill(&objects[0], 0, 1);
    fill(&objects[1], 0, 2);
    let leases = [here(&objects[0], 0).unwrap(), here(&objects[1], 0).unwrap()];
    assert!(missing(&objects[2], 0).append(b"x").is_err());
    assert_eq!(tier.tiers.counters().refusals, 1);
    drop(leases);
    fill(&objects[2], 0, 3);
}

#[test]
fn readers_of_evicted_slices_never_hold_more_than_half_of_the_tier() {
    const SLICES: u8 = 16;
    let tier = tier(u64::from(SLICES));
    let objects: Vec<_> = (0..SLICES).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    objects.iter().for_each(|object| fill(object, 0, 1));
    let leases: Vec<_> = objects.iter().map(|object| here(object, 0).unwrap()).collect();
    assert!(leases.iter().all(|lease| lease.demand() == Demand::None), "nothing was evicted");
    let more: Vec<_> = (100..200).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    assert!(more.iter().all(|object| missing(object, 0).reserve().is_err()), "no lease has ended");
    let kept = objects.iter().filter(|object| here(object, 0).is_some()).count();
    assert_eq!(kept, usize::from(SLICES) / 2 - 1, "the others stay for requests");
    assert_eq!(tier.tiers.counters().evicted_bytes, u64::from(SLICES / 2 + 1) * u64::from(SLICE));
    let urgent = leases.iter().filter(|lease| lease.demand() == Demand::Urgent).count();
    assert_eq!(urgent, usize::from(SLICES) / 2 + 1);
    // Those that are given up are enough for as many others.
    let (urgent, _kept): (Vec<_>, Vec<_>) =
        leases.into_iter().partition(|lease| lease.demand() > Demand::None);
    drop(urgent);
    assert_eq!(tier.tiers.counters().evicted_bytes, 0);
    more[..usize::from(SLICES) / 2 + 1].iter().for_each(|object| fill(object, 0, 2));
}

#[test]
fn a_slot_that_is_used_again_never_shows_old_bytes() {
    let tier = tier(1);
    for round in 0..50_u8 {
        let object = object(&tier, round, Some(5000));
        fill(&object, 0, round);
        assert_eq!(bytes(&here(&object, 0).unwrap()), vec![round; 5000]);
        drop(object);
    }
}

#[test]
fn small_objects_take_pages_and_not_slices() {
    let tier = tier(4);
    let objects: Vec<_> = (0..30).map(|key| object(&tier, key, Some(100))).collect();
    for object in &objects {
        fill(object, 0, 1);
    }
    assert!(objects.iter().all(|object| here(object, 0).is_some()), "30 of them fit where 4 slices do");
    assert_eq!(tier.tiers.counters().bytes, 30 * 4096);
}

#[test]
fn an_object_that_is_forgotten_gives_its_room_back() {
    let tier = tier(4);
    let kept = object(&tier, 1, Some(100));
    fill(&kept, 0, 1);
    drop(kept);
    let counters = tier.tiers.counters();
    assert_eq!((counters.bytes, counters.slices), (0, 0));
}

#[test]
fn two_processes_cannot_share_a_directory() {
    let tier = tier(1);
    let limits = TierLimits { bytes: u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 };
    // The lock belongs to the open file, so that a second opening in this process meets it too.
    let second = MemoryTier::open(tier.directory.path(), limits, SystemTime::now());
    assert!(matches!(second, Err(TierError::InUse(_))));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let error = MemoryTier::open(
        &PathBuf::from("/proc/nowhere"),
        TierLimits { bytes: u64::from(SLICE), slice_bytes: SLICE, scrub_bytes_per_second: 0 },
        SystemTime::now(),
    );
    assert!(error.err().unwrap().to_string().contains("/proc/nowhere"));
}

#[test]
fn one_request_claims_and_the_others_wait() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(budget(), Restored::default());
    let key = [3; 16];
    let IndexEntry::Claimed(mine) = index.get_or_claim(&key) else { panic!("nothing is known") };
    let IndexEntry::Pending(pending) = index.get_or_claim(&key) else { panic!("no claim is pending") };
    let found = object(&tier, 3, Some(1));
    mine.keep(&found);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Some(ClaimResult::Shared(shared)) = runtime.block_on(pending.result()) else {
        panic!("it is shared")
    };
    assert!(Arc::ptr_eq(&shared, &found));
    assert!(matches!(index.get_or_claim(&key), IndexEntry::Known(_)));
    assert_eq!(index.objects(), 1);
    assert!(index.forget(&key, &tier.tiers));
    assert!(!index.forget(&key, &tier.tiers));
}

#[test]
fn requests_that_wait_for_a_claim_are_answered_though_its_key_is_forgotten() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(budget(), Restored::default());
    let key = [3; 16];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for is_dropped in [false, true] {
        let IndexEntry::Claimed(mine) = index.get_or_claim(&key) else { panic!("nothing is known") };
        let IndexEntry::Pending(pending) = index.get_or_claim(&key) else { panic!("no claim is pending") };
        index.forget(&key, &tier.tiers);
        let IndexEntry::Claimed(next) = index.get_or_claim(&key) else { panic!("the key is free") };
        if is_dropped {
            drop(mine);
        } else {
            mine.keep(&object(&tier, 3, Some(1)));
        }
        let result = runtime.block_on(pending.result());
        assert_eq!(matches!(result, Some(ClaimResult::Shared(_))), !is_dropped);
        assert!(index.get(&key).is_none());
        drop(next);
    }
}

#[test]
fn a_dropped_claim_lets_the_next_request_try() {
    let index: Arc<Index<()>> = Index::new(budget(), Restored::default());
    let key = [3; 16];
    let IndexEntry::Claimed(mine) = index.get_or_claim(&key) else { panic!("nothing is known") };
    let IndexEntry::Pending(pending) = index.get_or_claim(&key) else { panic!("no claim is pending") };
    drop(mine);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(pending.result()).is_none());
    assert!(matches!(index.get_or_claim(&key), IndexEntry::Claimed(_)));
}

#[test]
fn one_request_renews_while_the_others_take_the_old_object() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(budget(), Restored::default());
    let key = [3; 16];
    let old = object(&tier, 3, Some(1));
    let IndexEntry::Claimed(first) = index.get_or_claim(&key) else { panic!("nothing is known") };
    first.keep(&old);
    let IndexEntry::Claimed(renewal) = index.get_newer_or_claim(&key, &old) else {
        panic!("no renewal is pending")
    };
    assert!(matches!(index.get_or_claim(&key), IndexEntry::Known(_)));
    assert!(matches!(index.get_newer_or_claim(&key, &old), IndexEntry::Pending(_)));
    let new = object(&tier, 3, Some(2));
    renewal.keep(&new);
    let IndexEntry::Known(known) = index.get_newer_or_claim(&key, &old) else { panic!("it is renewed") };
    assert!(Arc::ptr_eq(&known, &new));
}

/// Metadata of a certain size, which may be stale.
struct Heavy {
    bytes: usize,
    stale: bool,
}

impl Metadata for Heavy {
    fn encode(&self, _out: &mut Vec<u8>) {}

    fn heap_bytes(&self) -> usize {
        self.bytes
    }

    fn is_stale(&self) -> bool {
        self.stale
    }
}

/// Shards of the index; the last byte of a key chooses one.
const SHARDS: u64 = 64;

fn heavy(key: Key, bytes: usize, tier: &Tier) -> Arc<Object<Heavy>> {
    Object::new(&key, Heavy { bytes, stale: false }, Some(1), Arc::clone(&tier.tiers))
}

fn keep<D: Metadata>(index: &Arc<Index<D>>, object: &Arc<Object<D>>) {
    let claim = match index.get_or_claim(object.key()) {
        IndexEntry::Known(stale) => index.get_newer_or_claim(object.key(), &stale),
        found => found,
    };
    let IndexEntry::Claimed(claim) = claim else { panic!("the key is claimed") };
    claim.keep(object);
}

fn numbered(number: u16, shard: u8) -> Key {
    let mut key = [0; 16];
    key[..2].copy_from_slice(&number.to_ne_bytes());
    key[15] = shard;
    key
}

#[test]
fn the_index_is_bounded_in_bytes_whatever_the_objects_weigh() {
    let tier = tier(4);
    for bytes in [0, 500, 50_000] {
        let budget = Arc::new(Budget::new(4 << 20));
        let index: Arc<Index<Heavy>> = Index::new(Arc::clone(&budget), Restored::default());
        for number in 0..20_000_u16 {
            keep(&index, &heavy(numbered(number, number.to_le_bytes()[0]), bytes, &tier));
        }
        assert!(budget.used() <= budget.limit(), "{} of {}", budget.used(), budget.limit());
        let least = budget.limit() / (bytes as u64 + 1000) / 2;
        assert!(index.objects() as u64 >= least, "{} objects of {bytes} bytes", index.objects());
        assert!(index.bytes() >= budget.used());
    }
}

#[test]
fn other_tables_leave_less_of_the_budget_to_the_index_but_never_nothing() {
    let tier = tier(4);
    let budget = Arc::new(Budget::new(4 << 20));
    let index: Arc<Index<Heavy>> = Index::new(Arc::clone(&budget), Restored::default());
    let fill = || {
        (0..20_000_u16).for_each(|number| {
            keep(&index, &heavy(numbered(number, number.to_le_bytes()[0]), 500, &tier));
        });
        index.objects()
    };
    let alone = fill();
    budget.charge(2 << 20);
    let beside_another = fill();
    assert!(beside_another < alone * 6 / 10, "{beside_another} of {alone}");
    assert!(budget.used() <= budget.limit());
    budget.charge(100 << 20);
    let least = fill();
    assert!(least > alone / 5, "{least} of {alone}");
    budget.release(102 << 20);
    assert!(fill() > beside_another);
}

#[test]
fn the_oldest_objects_are_evicted_and_a_renewed_one_is_as_old_as_it_was() {
    let tier = tier(4);
    let weight = {
        let budget = budget();
        keep(&Index::new(Arc::clone(&budget), Restored::default()), &heavy([0; 16], 0, &tier));
        budget.used()
    };
    let budget = Arc::new(Budget::new(128 * weight * SHARDS));
    let index: Arc<Index<Heavy>> = Index::new(budget, Restored::default());
    let keep = |number: u16| keep(&index, &heavy(numbered(number, 0), 0, &tier));
    (0..128).for_each(keep);
    keep(1);
    assert_eq!(index.objects(), 128);
    keep(128);
    assert_eq!(index.objects(), 126, "a sixty-fourth is evicted at once");
    let known: Vec<u16> = (0..=128).filter(|number| index.get(&numbered(*number, 0)).is_some()).collect();
    assert_eq!(known, (3..=128).collect::<Vec<u16>>());
}

#[test]
fn stale_objects_without_slices_are_evicted_before_older_ones() {
    let tier = tier(4);
    let budget = Arc::new(Budget::new(100_000 * SHARDS));
    let index: Arc<Index<Heavy>> = Index::new(budget, Restored::default());
    let object = |number, stale| {
        let metadata = Heavy { bytes: 10_000, stale };
        Object::new(&numbered(number, 0), metadata, Some(100), Arc::clone(&tier.tiers))
    };
    keep(&index, &object(0, false));
    let with_a_slice = object(1, true);
    let SliceClaim::Missing(mut fill) = with_a_slice.claim_slice(0) else { panic!("nothing was filled") };
    keep(&index, &with_a_slice);
    fill.append(&[1; 100]).unwrap();
    fill.finish();
    (2..30).for_each(|number| keep(&index, &object(number, true)));
    assert!(index.objects() < 10);
    assert!(index.get(&numbered(0, 0)).is_some(), "it is fresh");
    assert!(index.get(&numbered(1, 0)).is_some(), "it has a slice");
    assert!(index.get(&numbered(2, 0)).is_none());
}

#[test]
fn the_slices_of_a_large_object_are_given_back_by_a_thread_of_their_own() {
    let tier = tier(40);
    let large = object(&tier, 1, Some(30 * u64::from(SLICE)));
    (0..30).for_each(|slice| fill(&large, slice, 7));
    let lease = here(&large, 29).unwrap();
    let is_there = |path: std::io::Result<std::fs::DirEntry>| {
        std::fs::read(path.unwrap().path().join("comm")).is_ok_and(|name| name == b"memory-drop\n")
    };
    let has_begun = || std::fs::read_dir("/proc/self/task").unwrap().any(is_there);
    assert!(!has_begun());
    drop(large);
    let until = |what: &str, bytes: u64| {
        let mut tries = 0;
        while tier.tiers.counters().bytes != bytes {
            assert!(tries < 6000, "{what}: {}", tier.tiers.counters().bytes);
            tries += 1;
            thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    until("all but what is still sent", u64::from(SLICE));
    assert!(has_begun());
    assert_eq!(bytes(&lease), vec![7; SLICE as usize]);
    drop(lease);
    until("the last one", 0);
}

#[test]
fn objects_of_unknown_length_fill_the_tier_by_bytes_too() {
    let tier = tier(16);
    // 16 slices of 64 KiB are 256 pages; each object takes one.
    let objects: Vec<_> = (0..240).map(|key| object(&tier, key, None)).collect();
    for object in &objects {
        let mut fill = missing(object, 0);
        let mut follower = fill.follow();
        fill.append(&[object.key()[0]; 1000]).unwrap();
        object.set_length(1000);
        fill.finish();
        assert!(follower.progress().complete);
        assert_eq!(bytes(&follower.lease().unwrap()), [object.key()[0]; 1000]);
    }
    assert_eq!(tier.tiers.counters().evictions, 0);
    for object in &objects {
        assert_eq!(bytes(&here(object, 0).unwrap()), [object.key()[0]; 1000]);
    }
}

#[test]
fn an_object_tells_where_its_slices_are_without_claiming_them() {
    let tier = tier(2);
    let object = object(&tier, 1, Some(2 * u64::from(SLICE)));
    assert_eq!(object.presence(0), Presence::Missing);
    let fill_of_it = missing(&object, 0);
    assert_eq!(object.presence(0), Presence::Filling);
    drop(fill_of_it);
    assert_eq!(object.presence(0), Presence::Missing, "it was not claimed by asking");
    fill(&object, 0, 1);
    assert_eq!((object.presence(0), object.presence(1)), (Presence::Memory, Presence::Missing));
    (10..14).for_each(|key| fill(&self::object(&tier, key, Some(u64::from(SLICE))), 0, key));
    let kept: Vec<_> = (20..23).map(|key| self::object(&tier, key, Some(u64::from(SLICE)))).collect();
    kept.iter().for_each(|object| fill(object, 0, 9));
    assert_eq!(object.presence(0), Presence::Missing, "it was evicted, so it is no hit");
}
