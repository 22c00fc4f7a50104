//! Whether the CPU is short: a pure function of the busy share over time, slow to change its mind.

use std::time::{Duration, Instant};

/// When the mind changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PressureLimits {
    /// Above this busy share the CPU is short,
    pub(crate) high: f64,
    /// once it has been above for so long.
    pub(crate) high_for: Duration,
    /// Below this share there is time again,
    pub(crate) low: f64,
    /// once it has been below for so long.
    pub(crate) low_for: Duration,
}

/// Remembers what was decided, and since when the share speaks against it.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    limits: PressureLimits,
    is_short: bool,
    against_since: Option<Instant>,
}

impl Pressure {
    /// There is time to begin with.
    pub(crate) fn new(limits: PressureLimits) -> Self {
        Self { limits, is_short: false, against_since: None }
    }

    /// Whether the CPU is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Takes in the share of the time before `now` that the workers were busy, from 0 to 1.
    pub(crate) fn observe(&mut self, now: Instant, busy: f64) {
        let (against, patience) = if self.is_short {
            (busy < self.limits.low, self.limits.low_for)
        } else {
            (busy > self.limits.high, self.limits.high_for)
        };
        if !against {
            self.against_since = None;
            return;
        }
        let since = *self.against_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= patience {
            self.is_short = !self.is_short;
            self.against_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PressureLimits = PressureLimits {
        high: 0.85,
        high_for: Duration::from_secs(10),
        low: 0.6,
        low_for: Duration::from_secs(60),
    };

    /// The busy share from second to second, and the seconds at which the mind changed.
    fn changes(shares: impl IntoIterator<Item = f64>) -> Vec<(usize, bool)> {
        let start = Instant::now();
        let mut pressure = Pressure::new(LIMITS);
        let mut changes = Vec::new();
        for (second, share) in shares.into_iter().enumerate() {
            let before = pressure.is_short();
            pressure.observe(start + Duration::from_secs(second as u64), share);
            if pressure.is_short() != before {
                changes.push((second, pressure.is_short()));
            }
        }
        changes
    }

    fn runs(runs: &[(usize, f64)]) -> Vec<f64> {
        runs.iter().flat_map(|(seconds, share)| std::iter::repeat_n(*share, *seconds)).collect()
    }

    #[test]
    fn the_mind_changes_late_and_only_once_for_each_crossing() {
        for (what, shares, wanted) in [
            ("an idle server", runs(&[(600, 0.1)]), vec![]),
            ("a busy one that has time left", runs(&[(600, 0.85)]), vec![]),
            ("a peak that is too short", runs(&[(60, 0.5), (10, 1.0), (60, 0.5)]), vec![]),
            ("a peak that lasts", runs(&[(60, 0.5), (11, 0.9)]), vec![(70, true)]),
            ("peaks with a pause each", runs(&[(8, 1.0), (1, 0.8), (8, 1.0), (1, 0.8), (8, 1.0)]), vec![]),
            ("between the thresholds nothing comes back", runs(&[(11, 1.0), (600, 0.7)]), vec![(10, true)]),
            ("a short rest", runs(&[(11, 1.0), (60, 0.1), (30, 0.7), (60, 0.1)]), vec![(10, true)]),
            ("a long rest", runs(&[(11, 1.0), (61, 0.1)]), vec![(10, true), (71, false)]),
            (
                "and over again",
                runs(&[(11, 1.0), (61, 0.1), (11, 1.0)]),
                vec![(10, true), (71, false), (82, true)],
            ),
        ] {
            assert_eq!(changes(shares), wanted, "{what}");
        }
    }

    #[test]
    fn a_share_that_is_no_number_changes_nothing() {
        assert_eq!(changes(runs(&[(60, f64::NAN)])), []);
    }

    #[test]
    fn a_clock_that_stands_still_changes_nothing() {
        let now = Instant::now();
        let mut pressure = Pressure::new(LIMITS);
        (0..1000).for_each(|_| pressure.observe(now, 1.0));
        assert!(!pressure.is_short());
    }
}
