use super::*;

const SLICE: u32 = 1 << 20;

fn slice(requests: u8) -> InMemory {
    InMemory { requests, on_disk: false, bytes_in_flight: 0, bytes_in_flight_max: 4 << 20 }
}

#[test]
fn a_second_request_earns_a_place_on_disk_and_one_is_enough() {
    assert!(!is_written(slice(1), SLICE));
    assert!(is_written(slice(2), SLICE));
    assert!(!is_written(InMemory { on_disk: true, ..slice(9) }, SLICE));
}

#[test]
fn disks_that_cannot_keep_up_are_left_alone() {
    assert!(is_written(InMemory { bytes_in_flight: 3 << 20, ..slice(2) }, SLICE));
    assert!(!is_written(InMemory { bytes_in_flight: (3 << 20) + 1, ..slice(2) }, SLICE));
    assert!(!is_written(InMemory { bytes_in_flight: u64::MAX, ..slice(2) }, SLICE));
}

#[test]
fn a_second_request_on_disk_brings_a_slice_back() {
    assert!(!is_promoted(1));
    assert!(is_promoted(2));
}

#[test]
fn disks_are_chosen_as_often_as_they_are_large() {
    let sizes = [(0, 100_u64 << 30), (2, 300 << 30)];
    let mut chosen = [0_u32; 3];
    for name in 0..10_000_u64 {
        let name = name.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let disk = choose_disk(name, sizes.into_iter()).unwrap();
        assert_eq!(choose_disk(name, sizes.into_iter()), Some(disk), "a key keeps its disk");
        chosen[disk] += 1;
    }
    assert!((2200..2800).contains(&chosen[0]) && chosen[1] == 0, "{chosen:?}");
    assert_eq!(choose_disk(7, std::iter::empty()), None);
    assert_eq!(choose_disk(7, [(1, 5)].into_iter()), Some(1), "less than a MiB");
}
