//! When to ask a responder again: a pure function of what is known.

use std::time::{Duration, SystemTime};

use super::staple::Staple;

/// Bounds on asking.
#[derive(Clone, Copy, Debug)]
pub struct RefreshLimits {
    /// The shortest pause between two questions.
    pub pause_min: Duration,
    /// The longest pause between two questions.
    pub pause_max: Duration,
}

/// How long to wait before the next question: until half of the staple's validity is over, or after `failures` in
/// a row ever longer. `random` spreads servers that were started together over an eighth of that.
pub fn pause(
    staple: Option<&Staple>,
    failures: u32,
    now: SystemTime,
    random: u64,
    limits: &RefreshLimits,
) -> Duration {
    let wanted = if failures == 0 {
        staple.map_or(limits.pause_min, |staple| {
            let validity = staple.next_update.duration_since(staple.this_update).unwrap_or_default();
            (staple.this_update + validity / 2).duration_since(now).unwrap_or_default()
        })
    } else {
        limits.pause_min.saturating_mul(1 << (failures - 1).min(16))
    };
    let pause = wanted.clamp(limits.pause_min, limits.pause_max);
    let share = u32::try_from(random % 1024).unwrap_or(0);
    pause - pause / 8 * share / 1024
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const LIMITS: RefreshLimits =
        RefreshLimits { pause_min: Duration::from_secs(60), pause_max: Duration::from_secs(3600 * 12) };

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn valid(from: u64, to: u64) -> Staple {
        Staple { response: Vec::new(), this_update: at(from), next_update: at(to) }
    }

    #[test]
    fn a_staple_is_refreshed_at_half_of_its_validity() {
        let staple = valid(1000, 21_000);
        assert_eq!(pause(Some(&staple), 0, at(2000), 0, &LIMITS), Duration::from_secs(9000));
        assert_eq!(pause(Some(&staple), 0, at(10_940), 0, &LIMITS), Duration::from_secs(60));
    }

    #[test]
    fn a_responder_that_only_has_old_answers_is_not_asked_all_the_time() {
        assert_eq!(pause(Some(&valid(0, 100)), 0, at(99), 0, &LIMITS), LIMITS.pause_min);
        assert_eq!(pause(None, 0, at(99), 0, &LIMITS), LIMITS.pause_min);
    }

    #[test]
    fn a_staple_that_is_valid_for_months_is_refreshed_all_the_same() {
        assert_eq!(pause(Some(&valid(0, 10_000_000)), 0, at(1), 0, &LIMITS), LIMITS.pause_max);
    }

    #[test]
    fn failures_make_the_pause_longer_up_to_a_bound() {
        let pauses =
            [1, 2, 3, 40, u32::MAX].map(|failures| pause(None, failures, at(0), 0, &LIMITS).as_secs());
        assert_eq!(pauses, [60, 120, 240, 43_200, 43_200]);
    }

    #[test]
    fn chance_takes_at_most_an_eighth_off() {
        for random in [1, 511, 1023, u64::MAX] {
            let pause = pause(None, 3, at(0), random, &LIMITS).as_secs_f64();
            assert!((210.0..=240.0).contains(&pause), "{random}: {pause}");
        }
    }
}
