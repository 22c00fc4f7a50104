//! When a certificate is renewed, and when a failed order is tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use penstock_config::limits;

use crate::failure::Failure;
use crate::status::OrderOutcome;
use crate::storage::Stored;

/// The window in which the authority wants a certificate to be renewed (RFC 9773), and the time chosen in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    start: SystemTime,
    end: SystemTime,
    chosen: SystemTime,
}

impl Window {
    /// Chooses a time in the window. `random` is from 0 to 1.
    pub(crate) fn choose(start: SystemTime, end: SystemTime, random: f64) -> Self {
        let length = end.duration_since(start).unwrap_or_default();
        Self { start, end, chosen: start + length.mul_f64(random.clamp(0.0, 1.0)) }
    }

    /// Whether this is the same window, for which a time has been chosen.
    pub(crate) fn is(&self, start: SystemTime, end: SystemTime) -> bool {
        (self.start, self.end) == (start, end)
    }
}

/// When a stored certificate is to be renewed: at the time chosen in the authority's window, but not in the last tenth of its
/// life; without a window at two thirds of its life.
///
/// Without a window a certificate is never renewed within a third of its life after it was written: a clock that is wrong by
/// months would else order without end.
pub(crate) fn renewal(stored: &Stored, window: Option<Window>, now: SystemTime) -> SystemTime {
    let (begin, life) = (stored.facts.not_before, stored.life());
    if let Some(window) = window {
        return window.chosen.min(begin + life * 9 / 10);
    }
    let usual = begin + life * 2 / 3;
    if stored.written > now { usual } else { usual.max(stored.written + life / 3) }
}

/// Whether the authority wants a certificate to be replaced at once that is not due by its age. It does so with those that it has
/// revoked (RFC 9773 section 4.2).
pub(crate) fn is_wanted_early(stored: &Stored, window: Option<Window>, now: SystemTime) -> bool {
    window.is_some_and(|window| window.end <= now) && renewal(stored, None, now) > now
}

/// The pause after a number of failures in a row, the last of which is given. `random` is from 0 to 1.
///
/// An order that an authority rejects counts against its limits, so those pauses are the longer ones.
pub(crate) fn pause(failures: u32, last: &Failure, random: f64) -> Duration {
    let (first, factor, most): (u64, u32, u64) = match last.outcome {
        OrderOutcome::Rejected | OrderOutcome::Local => {
            (limits::ACME_REJECTED_PAUSE_SECONDS, 3, limits::ACME_REJECTED_PAUSE_SECONDS_MAX)
        }
        OrderOutcome::RateLimited => {
            (limits::ACME_RATE_LIMITED_PAUSE_SECONDS, 2, limits::ACME_RATE_LIMITED_PAUSE_SECONDS_MAX)
        }
        OrderOutcome::Unavailable | OrderOutcome::Issued => {
            (limits::ACME_UNAVAILABLE_PAUSE_SECONDS, 2, limits::ACME_UNAVAILABLE_PAUSE_SECONDS_MAX)
        }
    };
    let growth = u64::from(factor).saturating_pow(failures.saturating_sub(1));
    let own = Duration::from_secs(first.saturating_mul(growth).min(most));
    let asked = last.retry_after.unwrap_or_default();
    let longest = Duration::from_secs(limits::ACME_RATE_LIMITED_PAUSE_SECONDS_MAX);
    own.max(asked.min(longest)).mul_f64(1.0 + random / 10.0)
}

/// A random number from 0 to 1 that is not for secrets.
pub(crate) fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use penstock_tls::certificate::{RenewalFacts, Summary};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn at(days: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY.mul_f64(20_000.0 + days)
    }

    fn stored(life_days: f64, written: SystemTime) -> Stored {
        let params = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let summary = Summary::from_pem(params.cert.pem().as_bytes()).unwrap();
        let facts = RenewalFacts { summary, not_before: at(0.0), not_after: at(life_days), identifier: None };
        Stored { facts, written, order: None }
    }

    #[test]
    fn certificates_are_renewed_at_two_thirds_of_their_life() {
        assert_eq!(renewal(&stored(90.0, at(0.0)), None, at(1.0)), at(60.0));
        assert_eq!(renewal(&stored(6.0, at(0.0)), None, at(1.0)), at(4.0), "six days");
    }

    #[test]
    fn a_wrong_clock_does_not_order_again_and_again() {
        // This machine's clock is a year ahead: the new certificate seems to have ended.
        let wrong = at(365.0);
        assert_eq!(renewal(&stored(90.0, wrong), None, wrong), at(395.0));
        // The clock was a year ahead when it was written, and is right now.
        assert_eq!(renewal(&stored(90.0, wrong), None, at(1.0)), at(60.0));
    }

    #[test]
    fn the_window_of_the_authority_comes_first() {
        let fresh = stored(90.0, at(0.0));
        let revoked = Window::choose(at(-2.0), at(-1.0), 0.5);
        assert_eq!(renewal(&fresh, Some(revoked), at(1.0)), at(-1.5));
        assert!(is_wanted_early(&fresh, Some(revoked), at(1.0)));
        assert!(!is_wanted_early(&fresh, Some(revoked), at(61.0)), "it is due anyway");
        let late = Window::choose(at(100.0), at(101.0), 0.0);
        assert_eq!(renewal(&fresh, Some(late), at(1.0)), at(81.0));
        let reversed = Window::choose(at(50.0), at(40.0), 1.0);
        assert_eq!(renewal(&fresh, Some(reversed), at(1.0)), at(50.0));
    }

    #[test]
    fn pauses_grow_and_have_an_end() {
        let of = |outcome| Failure::new(outcome, "x");
        let seconds = |failures, outcome| pause(failures, &of(outcome), 0.0).as_secs();
        let pauses: Vec<u64> = (1..=7).map(|failures| seconds(failures, OrderOutcome::Rejected)).collect();
        assert_eq!(pauses, [60, 180, 540, 1620, 4860, 14580, 21600]);
        let starts = pauses.iter().scan(0, |start, pause| {
            *start += pause;
            Some(*start)
        });
        assert_eq!(
            starts.filter(|start| *start < 3600).count(),
            4,
            "attempts in the first hour after the first"
        );
        assert_eq!(seconds(1, OrderOutcome::Unavailable), 5);
        assert_eq!(seconds(u32::MAX, OrderOutcome::Unavailable), 3600);
        assert_eq!(seconds(1, OrderOutcome::RateLimited), 3600);
        let asked = Failure { retry_after: Some(Duration::from_secs(7200)), ..of(OrderOutcome::Unavailable) };
        assert_eq!(pause(1, &asked, 0.0).as_secs(), 7200);
        let absurd = Failure { retry_after: Some(Duration::MAX), ..of(OrderOutcome::Unavailable) };
        assert_eq!(pause(1, &absurd, 0.0), DAY);
    }

    #[test]
    fn random_numbers_are_in_their_range() {
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random())));
    }
}
