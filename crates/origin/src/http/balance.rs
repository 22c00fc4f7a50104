//! Which target is asked next: by weight, and by how well they have answered. Pure: time is an argument.

use std::time::{Duration, Instant};

/// When a target is out, and when it is in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthLimits {
    /// Failures in a row, of requests or of checks, after which a target is out.
    pub unhealthy_after: u32,
    /// Good checks in a row after which it is in again; used only if there are checks.
    pub healthy_after: u32,
    /// How long a target without checks is out at first, before one request may try it. Doubles with each failure.
    pub backoff: Duration,
    /// How long at most.
    pub backoff_max: Duration,
    /// Whether targets are checked: then only checks bring them in again.
    pub checked: bool,
}

/// What has just become of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is in again.
    Up,
    /// It is out.
    Down,
}

/// The state of all targets of an origin.
#[derive(Debug)]
pub(super) struct Balance {
    limits: HealthLimits,
    targets: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    weight: u32,
    /// What it has saved up for its turn.
    saved: i64,
    health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Up {
        failures: u32,
    },
    /// `tried`: a request was let through, and how that ends is not known yet.
    Down {
        until: Instant,
        backoff: Duration,
        tried: bool,
        good_checks: u32,
    },
}

/// Targets that were asked already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried(u64);

impl Tried {
    /// More targets than this cannot be told apart.
    pub const TARGETS_MAX: usize = 64;

    /// That one too.
    pub(super) fn add(&mut self, place: usize) {
        self.0 |= bit(place);
    }

    fn has(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }
}

fn bit(place: usize) -> u64 {
    u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

impl Balance {
    /// All are in. A weight of zero counts as one.
    pub(super) fn new(weights: impl IntoIterator<Item = u32>, limits: HealthLimits) -> Self {
        let state =
            |weight: u32| State { weight: weight.max(1), saved: 0, health: Health::Up { failures: 0 } };
        Self { limits, targets: weights.into_iter().map(state).collect() }
    }

    /// The next to be asked, other than those tried: one that is in, in proportion to its weight and as evenly spread
    /// as can be, or one that has been out for long enough to be tried. If there is none, the one that has been out
    /// the longest, since asking it costs less than not answering. `None` only if all were tried.
    pub(super) fn choose(&mut self, now: Instant, tried: Tried) -> Option<usize> {
        let checked = self.limits.checked;
        let may = |state: &State| match state.health {
            Health::Up { .. } => true,
            Health::Down { until, .. } => !checked && until <= now,
        };
        let mut total = 0;
        let mut best: Option<usize> = None;
        for place in 0..self.targets.len() {
            if tried.has(place) || !may(&self.targets[place]) {
                continue;
            }
            let state = &mut self.targets[place];
            state.saved += i64::from(state.weight);
            total += i64::from(state.weight);
            if best.is_none_or(|best| self.targets[place].saved > self.targets[best].saved) {
                best = Some(place);
            }
        }
        if let Some(place) = best {
            let state = &mut self.targets[place];
            state.saved -= total;
            if let Health::Down { until, backoff, tried, .. } = &mut state.health {
                // Until it is known how that ends, nobody else tries; should it never be known, this ends as well.
                (*until, *tried) = (now + *backoff, true);
            }
            return best;
        }
        let out_until = |place: &usize| match self.targets[*place].health {
            Health::Up { .. } => now,
            Health::Down { until, .. } => until,
        };
        (0..self.targets.len()).filter(|place| !tried.has(*place)).min_by_key(out_until)
    }

    /// A request or a check has ended.
    pub(super) fn report(&mut self, place: usize, good: bool, now: Instant) -> Option<Change> {
        let limits = self.limits;
        let health = &mut self.targets.get_mut(place)?.health;
        match (&mut *health, good) {
            (Health::Up { failures }, true) => *failures = 0,
            (Health::Up { failures }, false) => {
                *failures += 1;
                if *failures >= limits.unhealthy_after {
                    let backoff = limits.backoff;
                    *health = Health::Down { until: now + backoff, backoff, tried: false, good_checks: 0 };
                    return Some(Change::Down);
                }
            }
            (Health::Down { .. }, true) if !limits.checked => {
                *health = Health::Up { failures: 0 };
                return Some(Change::Up);
            }
            // A request that was let through for want of others proves less than checks do.
            (Health::Down { .. }, true) => {}
            (Health::Down { until, backoff, tried, good_checks }, false) => {
                *good_checks = 0;
                // The others were sent before it was out, or for want of another: they say nothing new.
                if std::mem::take(tried) {
                    *backoff = (*backoff * 2).min(limits.backoff_max);
                    *until = now + *backoff;
                }
            }
        }
        None
    }

    /// A check has ended.
    pub(super) fn report_check(&mut self, place: usize, good: bool, now: Instant) -> Option<Change> {
        let limits = self.limits;
        if let Some(State { health: health @ Health::Down { .. }, .. }) = self.targets.get_mut(place)
            && good
            && let Health::Down { good_checks, .. } = health
        {
            *good_checks += 1;
            if *good_checks >= limits.healthy_after {
                *health = Health::Up { failures: 0 };
                return Some(Change::Up);
            }
            return None;
        }
        self.report(place, good, now)
    }

    /// Whether a target is in.
    pub(super) fn is_up(&self, place: usize) -> bool {
        self.targets.get(place).is_some_and(|state| matches!(state.health, Health::Up { .. }))
    }
}

#[cfg(test)]
mod tests;
