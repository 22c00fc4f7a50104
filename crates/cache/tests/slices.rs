//! Objects and slices as their readers and fills see them, on a real tmpfs.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use penstock_cache::{
    Follower, Index, Lease, LookUp, MemoryTier, Object, Part, Resolved, Restored, SliceFill, TierError,
    TierLimits,
};

const SLICE: u32 = 64 * 1024;

struct Tier {
    tier: Arc<MemoryTier>,
    directory: tempfile::TempDir,
}

fn tier(slices: u64) -> Tier {
    // tmpfs everywhere on Linux; the directory goes with the test.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let limits = TierLimits { bytes: slices * u64::from(SLICE), slice_bytes: SLICE };
    Tier { tier: MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap().0, directory }
}

fn object(tier: &Tier, key: u8, length: Option<u64>) -> Arc<Object<()>> {
    Object::new(&[key; 16], (), length, Arc::clone(&tier.tier))
}

fn missing(object: &Arc<Object<()>>, slice: u32) -> SliceFill<()> {
    match object.slice(slice) {
        Part::Missing(fill) => fill,
        Part::Here(_) => panic!("slice {slice} is there"),
        Part::Coming(_) => panic!("slice {slice} is being filled"),
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
    match object.slice(slice) {
        Part::Here(lease) => Some(lease),
        Part::Coming(_) | Part::Missing(_) => None,
    }
}

fn bytes(lease: &Lease) -> Vec<u8> {
    let extent = lease.extent(0..lease.length()).unwrap();
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
    extent.file.window(extent.offset, extent.len).unwrap().copy_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_filled_is_there_and_is_what_was_written() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(u64::from(SLICE) + 10));
    fill(&object, 0, 7);
    fill(&object, 1, 8);
    assert_eq!(bytes(&here(&object, 0).unwrap()), vec![7; SLICE as usize]);
    assert_eq!(bytes(&here(&object, 1).unwrap()), vec![8; 10]);
    assert_eq!(tier.tier.counters().bytes, u64::from(SLICE) + 4096, "whole pages count");
}

#[test]
fn the_second_reader_follows_the_first_ones_fill() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(100));
    let mut filling = missing(&object, 0);
    let Part::Coming(mut follower) = object.slice(0) else { panic!("nobody follows") };
    assert!(follower.lease().is_none());
    filling.append(b"hello").unwrap();
    assert_eq!(follower.progress().bytes, 5);
    let lease = follower.lease().unwrap();
    assert_eq!(lease.extent(1..5).unwrap().len, 4);
    assert!(lease.extent(1..6).is_none(), "what is not written yet has no place");
}

#[test]
fn what_is_added_is_seen_by_who_looks_and_wakes_nobody_before_it_is_told() {
    let tier = tier(8);
    let object = object(&tier, 1, Some(100));
    let mut filling = missing(&object, 0);
    let Part::Coming(mut follower) = object.slice(0) else { panic!("nobody follows") };
    assert_eq!(follower.progress().bytes, 0);
    filling.add(b"hello").unwrap();
    assert_eq!((filling.untold(), filling.written()), (5, 5));
    let is_woken = |follower: &mut Follower| {
        let mut further = std::pin::pin!(follower.further());
        further.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    assert!(!is_woken(&mut follower), "nobody was told");
    filling.tell();
    assert_eq!(filling.untold(), 0);
    assert!(is_woken(&mut follower));
    assert_eq!(follower.progress().bytes, 5);
    filling.add(b" there").unwrap();
    assert_eq!(follower.progress().bytes, 11, "who looks sees it");
    filling.tell();
    filling.tell();
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
    let Part::Coming(mut follower) = object.slice(0) else { panic!("nobody follows") };
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
    assert!(matches!(object.slice(0), Part::Missing(_)), "the next one gets to try");
}

#[test]
fn what_is_leased_keeps_its_bytes_when_it_has_to_go() {
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
    assert!(tier.tier.counters().evictions > 0);
}

#[test]
fn when_everything_is_leased_there_is_no_room_until_somebody_is_done() {
    let tier = tier(2);
    let objects: Vec<_> = (1..4).map(|key| object(&tier, key, Some(u64::from(SLICE)))).collect();
    fill(&objects[0], 0, 1);
    fill(&objects[1], 0, 2);
    let leases = [here(&objects[0], 0).unwrap(), here(&objects[1], 0).unwrap()];
    assert!(missing(&objects[2], 0).append(b"x").is_err());
    assert_eq!(tier.tier.counters().refusals, 1);
    drop(leases);
    fill(&objects[2], 0, 3);
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
    assert_eq!(tier.tier.counters().bytes, 30 * 4096);
}

#[test]
fn an_object_that_is_forgotten_gives_its_room_back() {
    let tier = tier(4);
    let kept = object(&tier, 1, Some(100));
    fill(&kept, 0, 1);
    drop(kept);
    let counters = tier.tier.counters();
    assert_eq!((counters.bytes, counters.slices), (0, 0));
}

#[test]
fn two_processes_cannot_share_a_directory() {
    let tier = tier(1);
    let limits = TierLimits { bytes: u64::from(SLICE), slice_bytes: SLICE };
    // The lock belongs to the open file, so that a second opening in this process meets it too.
    let second = MemoryTier::open(tier.directory.path(), limits, SystemTime::now());
    assert!(matches!(second, Err(TierError::InUse(_))));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let error = MemoryTier::open(
        &PathBuf::from("/proc/nowhere"),
        TierLimits { bytes: u64::from(SLICE), slice_bytes: SLICE },
        SystemTime::now(),
    );
    assert!(error.err().unwrap().to_string().contains("/proc/nowhere"));
}

#[test]
fn one_finds_out_and_the_others_wait() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(100, Restored::default());
    let key = [3; 16];
    let LookUp::Missing(mine) = index.look_up(&key) else { panic!("nothing is known") };
    let LookUp::Pending(pending) = index.look_up(&key) else { panic!("somebody is at it") };
    let found = object(&tier, 3, Some(1));
    mine.keep(&found);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Some(Resolved::Shared(shared)) = runtime.block_on(pending.resolved()) else { panic!("it is shared") };
    assert!(Arc::ptr_eq(&shared, &found));
    assert!(matches!(index.look_up(&key), LookUp::Known(_)));
    assert_eq!(index.objects(), 1);
    assert!(index.forget(&key, &tier.tier));
    assert!(!index.forget(&key, &tier.tier));
}

#[test]
fn who_gives_up_lets_the_next_one_try() {
    let index: Arc<Index<()>> = Index::new(100, Restored::default());
    let key = [3; 16];
    let LookUp::Missing(mine) = index.look_up(&key) else { panic!("nothing is known") };
    let LookUp::Pending(pending) = index.look_up(&key) else { panic!("somebody is at it") };
    drop(mine);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(pending.resolved()).is_none());
    assert!(matches!(index.look_up(&key), LookUp::Missing(_)));
}

#[test]
fn one_renews_while_the_others_take_the_old() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(100, Restored::default());
    let key = [3; 16];
    let old = object(&tier, 3, Some(1));
    let LookUp::Missing(first) = index.look_up(&key) else { panic!("nothing is known") };
    first.keep(&old);
    let LookUp::Missing(renewal) = index.renew(&key, &old) else { panic!("nobody renews yet") };
    assert!(matches!(index.look_up(&key), LookUp::Known(_)));
    assert!(matches!(index.renew(&key, &old), LookUp::Pending(_)));
    let new = object(&tier, 3, Some(2));
    renewal.keep(&new);
    let LookUp::Known(known) = index.renew(&key, &old) else { panic!("it is renewed") };
    assert!(Arc::ptr_eq(&known, &new));
}

#[test]
fn the_index_is_bounded() {
    let tier = tier(4);
    let index: Arc<Index<()>> = Index::new(64, Restored::default());
    for number in 0..1000_u16 {
        let mut key = [0; 16];
        key[..2].copy_from_slice(&number.to_ne_bytes());
        key[15] = number.to_le_bytes()[0];
        let LookUp::Missing(mine) = index.look_up(&key) else { panic!("nothing is known") };
        mine.keep(&Object::new(&key, (), Some(1), Arc::clone(&tier.tier)));
    }
    assert!(index.objects() <= 128, "{}", index.objects());
}

#[test]
fn of_too_many_objects_the_oldest_are_forgotten_and_a_renewed_one_is_as_old_as_it_was() {
    let tier = tier(4);
    // The last byte of a key says which part of the index it is in: 128 fit into each.
    let index: Arc<Index<()>> = Index::new(128 * 64, Restored::default());
    let key = |number: u8| {
        let mut key = [0; 16];
        key[0] = number;
        key
    };
    let keep = |number: u8| {
        let object = Object::new(&key(number), (), Some(1), Arc::clone(&tier.tier));
        let claim = match index.look_up(&key(number)) {
            LookUp::Known(stale) => index.renew(&key(number), &stale),
            found => found,
        };
        let LookUp::Missing(claim) = claim else { panic!("nobody is at it") };
        claim.keep(&object);
    };
    (0..128).for_each(keep);
    keep(1);
    assert_eq!(index.objects(), 128);
    keep(128);
    assert_eq!(index.objects(), 126, "a sixty-fourth is forgotten at once");
    let known: Vec<u8> = (0..=128).filter(|number| index.known(&key(*number)).is_some()).collect();
    assert_eq!(known, (3..=128).collect::<Vec<u8>>());
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
        while tier.tier.counters().bytes != bytes {
            assert!(tries < 6000, "{what}: {}", tier.tier.counters().bytes);
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
