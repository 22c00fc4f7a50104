use super::*;

const KEY: Key = [3; 16];

fn index(scanning: u64) -> DiskIndex {
    DiskIndex::new(scanning, Arc::new(Budget::new(1 << 30)))
}

fn place(segment: u32, slice: u32, object: u64) -> RecordPlace {
    RecordPlace::new(segment, slice * 100, slice, object)
}

fn written(index: &DiskIndex, object: u64, place: RecordPlace) {
    index.insert(&KEY, object, place, Arrival::Written);
}

#[test]
fn each_slice_of_a_version_is_found_and_the_newest_is_the_anchor() {
    let index = index(0);
    for slice in 0..5 {
        written(&index, 9, place(slice, slice, 9));
    }
    for slice in 0..5 {
        assert_eq!(index.find(&KEY, 9, slice), Some(place(slice, slice, 9)));
    }
    assert_eq!(index.anchor(&KEY), Some(place(4, 4, 9)));
    assert_eq!(index.find(&KEY, 9, 5), None);
    assert_eq!(index.find(&KEY, 8, 1), None, "another version");
    assert_eq!(index.slices(), 5);
}

#[test]
fn a_new_version_hides_the_old_one() {
    let index = index(0);
    written(&index, 9, place(0, 0, 9));
    written(&index, 9, place(0, 1, 9));
    written(&index, 10, place(1, 0, 10));
    assert_eq!(index.find(&KEY, 9, 0), None);
    assert_eq!(index.find(&KEY, 10, 0), Some(place(1, 0, 10)));
    assert_eq!(index.find(&KEY, 10, 1), None, "slice 1 is of the old version");
}

#[test]
fn a_slice_found_by_a_scan_never_replaces_a_newer_one() {
    let index = index(1);
    for (object, at) in [(9, place(5, 2, 9)), (9, place(4, 1, 9)), (9, place(3, 2, 9)), (8, place(2, 0, 8))] {
        index.insert(&KEY, object, at, Arrival::Found);
    }
    assert_eq!(index.find(&KEY, 9, 2), Some(place(5, 2, 9)));
    assert_eq!(index.find(&KEY, 9, 1), Some(place(4, 1, 9)));
    assert_eq!(index.find(&KEY, 8, 0), None);
}

#[test]
fn an_object_forgotten_during_a_scan_is_not_found_again() {
    let index = index(1);
    assert!(index.forget(&KEY, 9, Versions::All), "while disks are scanned, a tombstone is needed");
    index.insert(&KEY, 9, place(1, 0, 9), Arrival::Found);
    assert_eq!(index.anchor(&KEY), None);
    index.insert(&KEY, 10, place(1, 1, 10), Arrival::Found);
    assert!(index.anchor(&KEY).is_some(), "that is newer");
    index.finish_scan();
    assert!(index.forget(&KEY, 10, Versions::All));
    assert!(!index.forget(&KEY, 10, Versions::All), "it is not known");
}

#[test]
fn a_version_that_is_kept_survives_the_forgetting_of_older_ones() {
    let index = index(0);
    written(&index, 9, place(0, 0, 9));
    assert!(!index.forget(&KEY, 8, Versions::But(9)));
    assert!(index.find(&KEY, 9, 0).is_some());
    assert!(!index.forget(&KEY, 8, Versions::Only(8)));
    assert!(index.find(&KEY, 9, 0).is_some());
    assert!(index.forget(&KEY, 9, Versions::But(10)));
    assert!(index.find(&KEY, 9, 0).is_none());
}

#[test]
fn bad_bytes_cost_their_slice_and_a_segment_that_goes_takes_what_is_in_it() {
    let index = index(0);
    for slice in 0..3 {
        written(&index, 9, place(slice, slice, 9));
    }
    index.mark_bytes_bad(&KEY, &place(2, 2, 9));
    index.mark_bytes_bad(&KEY, &place(0, 0, 9));
    assert_eq!((index.find(&KEY, 9, 2), index.find(&KEY, 9, 0)), (None, None));
    assert!(index.find(&KEY, 9, 1).is_some() && index.anchor(&KEY).is_some());
    index.remove(&KEY, 1, 1, 100);
    assert!(index.find(&KEY, 9, 1).is_none());
    index.forget_segments(|segment| segment == 2);
    assert_eq!(index.slices(), 0);
}

/// The issue allows 100 bytes for each slice.
#[test]
fn a_slice_takes_less_than_a_hundred_bytes() {
    for (objects, slices) in [(400_000_u32, 1), (4_000, 100), (130_000, 3)] {
        let index = index(0);
        for object in 0..objects {
            let mut key = KEY;
            let mixed = (u64::from(object) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
            key[..8]
                .copy_from_slice(&mixed.rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes());
            key[15] = mixed.to_le_bytes()[7];
            for slice in 0..slices {
                index.insert(&key, 9, place(1, slice, 9), Arrival::Written);
            }
        }
        let each = index.memory_bytes() / index.slices();
        println!("{objects} objects of {slices} slices: {each} bytes of memory for each slice");
        assert_eq!(index.slices(), u64::from(objects) * u64::from(slices));
        assert!(each <= 100, "{each} bytes");
    }
}

#[test]
fn the_index_stays_in_its_budget_and_finds_what_it_has() {
    let budget = Arc::new(Budget::new(1 << 20));
    let index = DiskIndex::new(0, Arc::clone(&budget));
    let key = |object: u32| {
        let mut key = KEY;
        let mixed = (u64::from(object) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        key[..8].copy_from_slice(&mixed.to_le_bytes());
        key[15] = mixed.to_le_bytes()[5];
        key
    };
    for object in 0..200_000 {
        for slice in 0..2 {
            let at = RecordPlace::new(1, object, slice, 9);
            index.insert(&key(object), 9, at, Arrival::Written);
        }
    }
    assert!(budget.used() <= budget.limit(), "{}", budget.used());
    let found: Vec<u32> = (0..200_000).filter(|object| index.anchor(&key(*object)).is_some()).collect();
    assert!(found.len() > 5000, "{}", found.len());
    let old = found[0];
    let newer = RecordPlace::new(2, 7, 0, 10);
    index.insert(&key(old), 10, newer, Arrival::Written);
    assert_eq!(index.find(&key(old), 10, 0), Some(newer), "a newer version takes the place of the older");
    assert_eq!(index.find(&key(old), 9, 0), None);
}
