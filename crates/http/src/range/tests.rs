use super::{Ranges, select};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const MAX: usize = 16;

#[test]
fn ranges_of_a_thousand_bytes() {
    use Ranges::{Many, One, Unsatisfiable, Whole};
    for (header, selected) in [
        ("bytes=0-0", One(0..1)),
        ("bytes=0-499", One(0..500)),
        ("bytes=500-999", One(500..1000)),
        ("bytes=500-99999", One(500..1000)),
        ("bytes=0-", One(0..1000)),
        ("bytes=999-", One(999..1000)),
        ("bytes=-1", One(999..1000)),
        ("bytes=-1000", One(0..1000)),
        ("bytes=-5000", One(0..1000)),
        ("Bytes=0-1", One(0..2)),
        ("bytes= 0-1 ", One(0..2)),
        ("bytes=0-1,", One(0..2)),
        ("bytes=,,0-1,,", One(0..2)),
        ("bytes=000-001", One(0..2)),
        // Several: the client's order stands.
        ("bytes=0-1,4-5", Many(vec![0..2, 4..6])),
        ("bytes=4-5 ,\t0-1", Many(vec![4..6, 0..2])),
        ("bytes=-10,0-9", Many(vec![990..1000, 0..10])),
        ("bytes=0-1,5000-,4-5", Many(vec![0..2, 4..6])),
        // Overlapping and touching ones melt, in the place of the first.
        ("bytes=0-5,3-9", One(0..10)),
        ("bytes=0-4,5-9", One(0..10)),
        ("bytes=5-9,0-4", One(0..10)),
        ("bytes=0-1,100-200,2-3", Many(vec![0..4, 100..201])),
        ("bytes=50-60,0-1,55-70", Many(vec![50..71, 0..2])),
        ("bytes=0-1,10-11,20-21,2-19", One(0..22)),
        ("bytes=30-31,0-1,10-11,2-9", Many(vec![30..32, 0..12])),
        ("bytes=0-,-1,5-6", One(0..1000)),
        // Nothing of it exists.
        ("bytes=1000-", Unsatisfiable),
        ("bytes=1000-1001,5000-", Unsatisfiable),
        ("bytes=-0", Unsatisfiable),
        ("bytes=99999999999999999999999999-", Unsatisfiable),
        // Huge numbers are only large.
        ("bytes=0-18446744073709551615", One(0..1000)),
        ("bytes=0-99999999999999999999999999", One(0..1000)),
        ("bytes=-99999999999999999999999999", One(0..1000)),
        // Ignored.
        ("bytes=1-0", Whole),
        ("bytes=0-1,5-4", Whole),
        ("bytes=", Whole),
        ("bytes=,", Whole),
        ("bytes=-", Whole),
        ("bytes=a-b", Whole),
        ("bytes=0-1-2", Whole),
        ("bytes=--5", Whole),
        ("bytes=0 - 1", Whole),
        ("bytes=+0-1", Whole),
        ("bytes=0-1;2-3", Whole),
        ("bytes=0x0-0x1", Whole),
        ("bytes 0-1", Whole),
        ("bytes =0-1", Whole),
        ("items=0-1", Whole),
        ("", Whole),
    ] {
        assert_eq!(select(Some(header), 1000, MAX), selected, "{header}");
    }
    assert_eq!(select(None, 1000, MAX), Whole);
}

#[test]
fn an_empty_representation_has_no_byte_at_any_position() {
    for header in ["bytes=0-", "bytes=0-0", "bytes=5-9", "bytes=-0", "bytes=0-,1-2"] {
        assert_eq!(select(Some(header), 0, MAX), Ranges::Unsatisfiable, "{header}");
    }
    // A suffix of nothing is all of it, which only a 200 can carry.
    assert_eq!(select(Some("bytes=-5"), 0, MAX), Ranges::Whole);
}

#[test]
fn more_ranges_than_allowed_are_ignored_altogether() {
    let list = |count: u64| {
        let specs: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 10, at * 10 + 1)).collect();
        format!("bytes={}", specs.join(","))
    };
    assert!(matches!(select(Some(&list(16)), 1000, MAX), Ranges::Many(ranges) if ranges.len() == 16));
    assert_eq!(select(Some(&list(17)), 1000, MAX), Ranges::Whole);
    // Those that select nothing count too: the work is bounded by the header alone.
    assert_eq!(select(Some(&list(17)), 20, MAX), Ranges::Whole);
    assert_eq!(select(Some("bytes=0-1"), 1000, 0), Ranges::Whole);
}

#[test]
fn the_largest_representation_does_not_overflow() {
    let length = u64::MAX;
    assert_eq!(select(Some("bytes=0-"), length, MAX), Ranges::One(0..length));
    assert_eq!(select(Some("bytes=-1"), length, MAX), Ranges::One(length - 1..length));
    assert_eq!(
        select(Some("bytes=18446744073709551614-18446744073709551615"), length, MAX),
        Ranges::One(length - 1..length)
    );
    assert_eq!(select(Some("bytes=18446744073709551615-"), length, MAX), Ranges::Unsatisfiable);
}

/// One range-spec as a model sees it: positions first, text second.
#[derive(Clone, Debug)]
enum Spec {
    From(u64),
    Between(u64, u64),
    Suffix(u64),
}

impl Spec {
    fn text(&self) -> String {
        match self {
            Self::From(first) => format!("{first}-"),
            Self::Between(first, last) => format!("{first}-{last}"),
            Self::Suffix(count) => format!("-{count}"),
        }
    }

    /// The bytes it selects, one by one.
    fn bytes(&self, length: u64) -> BTreeSet<u64> {
        (0..length)
            .filter(|&byte| match *self {
                Self::From(first) => byte >= first,
                Self::Between(first, last) => byte >= first && byte <= last,
                Self::Suffix(count) => byte + count >= length,
            })
            .collect()
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        (0_u64..50).prop_map(Spec::From),
        (0_u64..50, 0_u64..12).prop_map(|(first, more)| Spec::Between(first, first + more)),
        (0_u64..50).prop_map(Spec::Suffix),
    ]
}

fn ranges_of(selected: Ranges) -> Vec<Range<u64>> {
    match selected {
        Ranges::Whole => panic!("ignored"),
        Ranges::Unsatisfiable => vec![],
        Ranges::One(range) => vec![range],
        Ranges::Many(ranges) => {
            assert!(ranges.len() > 1);
            ranges
        }
    }
}

proptest! {
    #[test]
    fn exactly_the_bytes_asked_for_are_selected(
        specs in prop::collection::vec(spec(), 1..=MAX),
        length in 1_u64..40,
    ) {
        let texts: Vec<String> = specs.iter().map(Spec::text).collect();
        let ranges = ranges_of(select(Some(&format!("bytes={}", texts.join(","))), length, MAX));

        let asked: BTreeSet<u64> = specs.iter().flat_map(|spec| spec.bytes(length)).collect();
        let selected: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
        prop_assert_eq!(selected, asked);

        // Not empty, in bounds, and apart from each other by at least a byte.
        for (at, range) in ranges.iter().enumerate() {
            prop_assert!(range.start < range.end && range.end <= length);
            for other in &ranges[at + 1..] {
                prop_assert!(range.end < other.start || other.end < range.start);
            }
        }

        // Each range stands where the first spec that it holds stood.
        let first_spec = |range: &Range<u64>| {
            specs.iter().position(|spec| spec.bytes(length).first().is_some_and(|b| range.contains(b)))
        };
        prop_assert!(ranges.iter().map(first_spec).is_sorted());
    }

    #[test]
    fn no_header_makes_it_panic_or_leave_the_representation(
        header in "(bytes=)?[0-9,\\- \t]{0,40}|\\PC{0,40}",
        length: u64,
    ) {
        match select(Some(&header), length, MAX) {
            Ranges::Whole | Ranges::Unsatisfiable => {}
            selected => {
                for range in ranges_of(selected) {
                    prop_assert!(range.start < range.end && range.end <= length);
                }
            }
        }
    }
}
