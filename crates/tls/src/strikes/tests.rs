use std::hash::{BuildHasherDefault, DefaultHasher};

use super::*;

type Fixed = BuildHasherDefault<DefaultHasher>;

const LIMITS: StrikeLimits = StrikeLimits { strikes: 1000, slice_seconds: 30, shards: 4 };
const BEGAN: u64 = 1_000_000;
/// When nothing can have come before the register any more.
const LATER: u64 = BEGAN + 1000;

fn register() -> StrikeRegister<Fixed> {
    StrikeRegister::new(LIMITS, Fixed::default(), BEGAN)
}

#[test]
fn the_second_of_two_equal_ones_is_a_replay() {
    let register = register();
    assert_eq!(register.strike(b"one", 0, LATER), StrikeResult::Fresh);
    assert_eq!(register.strike(b"one", 0, LATER), StrikeResult::Replayed);
    assert_eq!(register.strike(b"two", 0, LATER), StrikeResult::Fresh);
    assert_eq!(register.remembered(), 2);
}

#[test]
fn none_is_forgotten_while_the_library_would_take_its_early_data() {
    for slice_seconds in [1, 7, 30, 124, 1000] {
        for skew in [-60, -31, -1, 0, 1, 30, 60] {
            for begin in 0..35 {
                let limits = StrikeLimits { slice_seconds, ..LIMITS };
                let register = StrikeRegister::new(limits, Fixed::default(), BEGAN);
                let begin = LATER + begin;
                assert_eq!(register.strike(b"one", skew, begin), StrikeResult::Fresh);
                // Each second makes the ticket older to us, and not to a copy of what the client said.
                for waited in 1..=60 + skew {
                    let now = begin + u64::from(waited.unsigned_abs());
                    let verdict = register.strike(b"one", skew - waited, now);
                    assert_eq!(
                        verdict,
                        StrikeResult::Replayed,
                        "{skew} after {waited}, slices of {slice_seconds}"
                    );
                }
            }
        }
    }
}

#[test]
fn all_are_forgotten_in_the_end() {
    let register = register();
    for second in 0..500 {
        register.strike(&second_of(second), 0, LATER + second);
        // What is remembered covers the window and one slice, in every shard that is used.
        assert!(register.remembered() <= 64 + 30 + 40, "{}", register.remembered());
    }
}

#[test]
fn early_data_from_before_the_start_is_not_fresh() {
    let register = register();
    // An honest client is refused for as long as the window; one whose clock is off for longer or shorter.
    for (skew, least) in [(0, 64), (60, 4), (-60, 124)] {
        for waited in 0..least {
            let verdict = register.strike(b"one", skew, BEGAN + waited);
            assert_eq!(verdict, StrikeResult::BeforeStart, "{skew} after {waited}");
        }
        let name = format!("{skew}");
        assert_eq!(register.strike(name.as_bytes(), skew, BEGAN + least), StrikeResult::Fresh, "{skew}");
    }
}

#[test]
fn a_restart_never_takes_what_was_taken_before() {
    // Whenever the first copy was taken, and by which clock, the next process refuses the second.
    for skew in -60..=60 {
        for waited in 0..=i64::from(60 + skew) {
            let restart = u64::try_from(waited).unwrap();
            let register = StrikeRegister::new(LIMITS, Fixed::default(), LATER + restart);
            for later in waited..=i64::from(60 + skew) {
                let now = LATER + u64::try_from(later).unwrap();
                let now_skew = skew - i32::try_from(later).unwrap();
                assert_eq!(register.strike(b"one", now_skew, now), StrikeResult::BeforeStart);
            }
        }
    }
}

#[test]
fn a_full_register_takes_nothing_more_until_there_is_room() {
    let limits = StrikeLimits { strikes: 10, shards: 1, ..LIMITS };
    let register = StrikeRegister::new(limits, Fixed::default(), BEGAN);
    for number in 0..10 {
        assert_eq!(register.strike(&[number], 0, LATER), StrikeResult::Fresh);
    }
    assert_eq!(register.strike(&[10], 0, LATER), StrikeResult::Full);
    assert_eq!(register.strike(&[3], 0, LATER), StrikeResult::Replayed, "those in it are still known");
    assert_eq!(register.remembered(), 10);
    assert_eq!(register.strike(&[10], 0, LATER + 200), StrikeResult::Fresh);
    assert_eq!(register.remembered(), 1);
}

#[test]
fn a_clock_set_back_takes_nothing_until_it_has_caught_up() {
    let limits = StrikeLimits { shards: 1, ..LIMITS };
    let register = StrikeRegister::new(limits, Fixed::default(), BEGAN);
    assert_eq!(register.strike(b"one", 0, LATER), StrikeResult::Fresh);
    assert_eq!(register.strike(b"two", 0, LATER + 3600), StrikeResult::Fresh, "the clock jumps ahead");
    assert_eq!(register.strike(b"one", 0, LATER), StrikeResult::ClockSetBack, "and back");
    assert_eq!(register.strike(b"three", 0, LATER + 3597), StrikeResult::ClockSetBack);
    assert_eq!(
        register.strike(b"three", 0, LATER + 3599),
        StrikeResult::Fresh,
        "two readings in the wrong order"
    );
}

fn second_of(second: u64) -> [u8; 8] {
    second.to_le_bytes()
}
