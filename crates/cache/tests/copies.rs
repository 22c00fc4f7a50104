//! Copies of what other nodes keep: they take what is free, and no more than their part of what others need.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::{
    Budget, Index, IndexEntry, MemoryTier, Metadata, Object, Presence, Restored, SliceClaim, TierLimits,
    Tiers,
};
use tempfile::TempDir;

const SLICE: u32 = 64 * 1024;
const SLICES: u32 = 40;

/// A quarter of the tier.
const COPIES: u64 = 10;

/// Metadata; an empty one needs no page behind the bytes, and leaves nothing to the next process.
struct Text(&'static str);

impl Metadata for Text {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

struct Cache {
    tiers: Arc<Tiers>,
    index: Arc<Index<Text>>,
}

fn open(directory: &TempDir) -> Cache {
    let limits = TierLimits {
        bytes: u64::from(SLICES) * u64::from(SLICE),
        slice_bytes: SLICE,
        scrub_bytes_per_second: 0,
    };
    let (memory, restored): (_, Restored) =
        MemoryTier::open(directory.path(), limits, SystemTime::now()).unwrap();
    memory.limit_copies(25);
    let index = Index::new(Arc::new(Budget::new(16 << 20)), restored);
    Cache { tiers: Tiers::new(memory, None), index }
}

impl Cache {
    fn object(&self, key: u8) -> Arc<Object<Text>> {
        self.described(key, "")
    }

    fn described(&self, key: u8, text: &'static str) -> Arc<Object<Text>> {
        let length = u64::from(SLICES) * 4 * u64::from(SLICE);
        let object = Object::new(&[key; 16], Text(text), Some(length), Arc::clone(&self.tiers));
        let IndexEntry::Claimed(claim) = self.index.get_or_claim(&[key; 16]) else { panic!("it is known") };
        claim.keep(&object);
        object
    }

    fn copies(&self) -> u64 {
        self.tiers.counters().copied_bytes / u64::from(SLICE)
    }
}

fn fill(object: &Arc<Object<Text>>, slice: u32, is_copy: bool) {
    let SliceClaim::Missing(mut fill) = object.claim_slice(slice) else { panic!("slice {slice} is there") };
    fill.reserve().unwrap();
    if is_copy {
        fill.mark_copy();
    }
    assert_eq!(fill.append(&vec![7; SLICE as usize]).unwrap(), SLICE as usize);
    fill.finish();
}

fn in_memory(object: &Arc<Object<Text>>) -> u64 {
    (0..4 * SLICES).filter(|slice| object.presence(*slice) == Presence::Memory).count() as u64
}

/// Asks for a slice often, so that the tier prefers to keep it.
fn make_popular(object: &Arc<Object<Text>>, slice: u32) {
    for _ in 0..4 {
        object.count_request(slice);
    }
}

#[test]
fn copies_take_free_space_and_give_it_up_to_others_down_to_their_part() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let cache = open(&directory);
    let (copy, own) = (cache.object(1), cache.object(2));
    for slice in 0..SLICES {
        fill(&copy, slice, true);
        make_popular(&copy, slice);
    }
    assert_eq!(
        (cache.copies(), in_memory(&copy)),
        (u64::from(SLICES), u64::from(SLICES)),
        "nothing else needs it"
    );
    for slice in 0..2 * SLICES {
        fill(&own, slice, false);
    }
    let kept = in_memory(&copy);
    assert_eq!((cache.copies(), kept), (COPIES, COPIES));
    assert_eq!(in_memory(&own), u64::from(SLICES) - COPIES);
}

#[test]
fn no_number_of_copies_drives_out_more_than_their_part() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let cache = open(&directory);
    let (copy, own) = (cache.object(1), cache.object(2));
    for slice in 0..SLICES {
        fill(&own, slice, false);
    }
    for slice in 0..4 * SLICES {
        fill(&copy, slice, true);
        make_popular(&copy, slice);
    }
    assert_eq!((in_memory(&own), in_memory(&copy)), (u64::from(SLICES) - COPIES - 1, COPIES + 1));
    assert!(cache.copies() <= COPIES + 1, "one is evicted for the next");
}

#[test]
fn the_next_process_knows_which_slices_are_copies() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let cache = open(&directory);
    let (copy, own) = (cache.described(1, "copy"), cache.described(2, "own"));
    for slice in 0..SLICES / 4 + 2 {
        fill(&copy, slice, true);
        fill(&own, slice, false);
    }
    cache.tiers.preserve();
    drop((copy, own, cache));
    let cache = open(&directory);
    assert!(cache.copies() > COPIES, "with a page for each metadata");
    let own = cache.object(3);
    for slice in 0..2 * SLICES {
        fill(&own, slice, false);
    }
    assert!((COPIES - 1..=COPIES).contains(&cache.copies()), "{}", cache.copies());
}

#[test]
fn a_slot_that_had_a_copy_counts_for_its_next_slice() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let cache = open(&directory);
    let copy = cache.object(1);
    // So few that they are given back at once.
    (0..4).for_each(|slice| fill(&copy, slice, true));
    assert_eq!(cache.copies(), 4);
    cache.index.forget(&[1; 16], &cache.tiers);
    drop(copy);
    assert_eq!(cache.copies(), 0);
    let own = cache.object(2);
    (0..SLICES).for_each(|slice| fill(&own, slice, false));
    assert_eq!((cache.copies(), in_memory(&own)), (0, u64::from(SLICES)));
}
