//! What the server gives up while the CPU is short: the parts that do without read it here, and a scrape shows it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::labels::Sacrifice;

/// The state of each sacrifice. One policy writes, any thread reads.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// Milliseconds since 1970 at which it was given up; 0 if it is not.
    since: [AtomicU64; Sacrifice::ALL.len()],
    changes: [AtomicU64; Sacrifice::ALL.len()],
    /// Full handshakes in 1,000 s that all workers together may make; 0 is no limit.
    handshake_rate: AtomicU64,
}

impl GivenUp {
    /// Whether the server does without it now.
    #[must_use]
    pub fn is(&self, what: Sacrifice) -> bool {
        self.since[what as usize].load(Relaxed) != 0
    }

    /// Since when the server does without it; `None` if it does not.
    #[must_use]
    pub fn since(&self, what: Sacrifice) -> Option<SystemTime> {
        let since = self.since[what as usize].load(Relaxed);
        (since != 0).then(|| UNIX_EPOCH + Duration::from_millis(since))
    }

    /// Gives it up at this time, or takes it back with `None`. Returns whether that is a change.
    pub fn set(&self, what: Sacrifice, at: Option<SystemTime>) -> bool {
        if self.is(what) == at.is_some() {
            return false;
        }
        let since = at.map_or(0, |at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().max(1));
        self.since[what as usize].store(u64::try_from(since).unwrap_or(u64::MAX), Relaxed);
        self.changes[what as usize].fetch_add(1, Relaxed);
        true
    }

    /// How often it was given up or taken back.
    #[must_use]
    pub fn changes(&self, what: Sacrifice) -> u64 {
        self.changes[what as usize].load(Relaxed)
    }

    /// Full handshakes in a second that all workers together may make; `None` without a limit.
    #[must_use]
    pub fn handshake_rate(&self) -> Option<f64> {
        let rate = self.handshake_rate.load(Relaxed);
        (rate != 0).then(|| rate as f64 / 1000.0)
    }

    /// Replaces that rate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is small and positive"
    )]
    pub fn set_handshake_rate(&self, rate: Option<f64>) {
        self.handshake_rate.store(rate.map_or(0, |rate| (rate * 1000.0).max(1.0) as u64), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sacrifice_has_the_time_of_its_beginning_and_each_change_counts_once() {
        let (given_up, at) = (GivenUp::default(), UNIX_EPOCH + Duration::from_secs(1_000));
        assert!(given_up.set(Sacrifice::Prefetch, Some(at)));
        assert!(
            !given_up.set(Sacrifice::Prefetch, Some(at + Duration::from_secs(5))),
            "it was given up already"
        );
        assert_eq!(given_up.since(Sacrifice::Prefetch), Some(at));
        assert!(given_up.is(Sacrifice::Prefetch) && !given_up.is(Sacrifice::Compression));
        assert!(given_up.set(Sacrifice::Prefetch, None));
        assert_eq!((given_up.since(Sacrifice::Prefetch), given_up.changes(Sacrifice::Prefetch)), (None, 2));
    }

    #[test]
    fn a_rate_is_kept_in_thousandths_and_is_never_taken_for_none() {
        let given_up = GivenUp::default();
        assert_eq!(given_up.handshake_rate(), None);
        given_up.set_handshake_rate(Some(12.5));
        assert_eq!(given_up.handshake_rate(), Some(12.5));
        given_up.set_handshake_rate(Some(0.0));
        assert!(given_up.handshake_rate().is_some());
        given_up.set_handshake_rate(None);
        assert_eq!(given_up.handshake_rate(), None);
    }
}
