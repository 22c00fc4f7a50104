use super::*;

const KEY: Key = [3; 16];

fn place(segment: u32, slice: u32, object: u64) -> Place {
    Place::new(segment, slice * 100, slice, object)
}

fn written(index: &DiskIndex, object: u64, place: Place) {
    index.insert(&KEY, object, place, Arrival::Written);
}

#[test]
fn each_slice_of_a_version_is_found_and_the_newest_is_the_anchor() {
    let index = DiskIndex::new(0);
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
    let index = DiskIndex::new(0);
    written(&index, 9, place(0, 0, 9));
    written(&index, 9, place(0, 1, 9));
    written(&index, 10, place(1, 0, 10));
    assert_eq!(index.find(&KEY, 9, 0), None);
    assert_eq!(index.find(&KEY, 10, 0), Some(place(1, 0, 10)));
    assert_eq!(index.find(&KEY, 10, 1), None, "slice 1 is of the old version");
}

#[test]
fn what_is_found_later_is_older_and_never_replaces() {
    let index = DiskIndex::new(1);
    for (object, at) in [(9, place(5, 2, 9)), (9, place(4, 1, 9)), (9, place(3, 2, 9)), (8, place(2, 0, 8))] {
        index.insert(&KEY, object, at, Arrival::Found);
    }
    assert_eq!(index.find(&KEY, 9, 2), Some(place(5, 2, 9)));
    assert_eq!(index.find(&KEY, 9, 1), Some(place(4, 1, 9)));
    assert_eq!(index.find(&KEY, 8, 0), None);
}

#[test]
fn what_is_forgotten_while_disks_are_read_does_not_turn_up_again() {
    let index = DiskIndex::new(1);
    assert!(index.forget(&KEY, 9, Versions::All), "who knows: a disk has to be told");
    index.insert(&KEY, 9, place(1, 0, 9), Arrival::Found);
    assert_eq!(index.anchor(&KEY), None);
    index.insert(&KEY, 10, place(1, 1, 10), Arrival::Found);
    assert!(index.anchor(&KEY).is_some(), "that is newer");
    index.has_been_read();
    assert!(index.forget(&KEY, 10, Versions::All));
    assert!(!index.forget(&KEY, 10, Versions::All), "nobody knows it");
}

#[test]
fn a_version_that_is_kept_survives_the_forgetting_of_older_ones() {
    let index = DiskIndex::new(0);
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
    let index = DiskIndex::new(0);
    for slice in 0..3 {
        written(&index, 9, place(slice, slice, 9));
    }
    index.bytes_are_bad(&KEY, &place(2, 2, 9));
    index.bytes_are_bad(&KEY, &place(0, 0, 9));
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
        let index = DiskIndex::new(0);
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
