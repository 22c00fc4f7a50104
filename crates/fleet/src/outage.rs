//! Why the store cannot be used, how often, and when the next connection is tried.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use penstock_metrics::FleetLoss;

/// Lines of the log for one outage. The words of a reason can be those of the store.
const LOGGED_MAX: usize = 8;

/// Why a connection with the store was not made, or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No connection, or no login.
    Unreachable(String),
    Broken,
    /// No answer in time.
    Unanswered,
    /// Commands are refused.
    Refused(String),
    /// A replica takes no entries.
    Replica,
    /// The store sent more than can be an answer.
    TooLarge,
}

impl Loss {
    fn label(&self) -> FleetLoss {
        match self {
            Self::Unreachable(_) => FleetLoss::Unreachable,
            Self::Broken => FleetLoss::Broken,
            Self::Unanswered => FleetLoss::Unanswered,
            Self::Refused(_) => FleetLoss::Refused,
            Self::Replica => FleetLoss::Replica,
            Self::TooLarge => FleetLoss::TooLarge,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Unreachable(why) | Self::Refused(why) => why,
            Self::Broken => "the connection broke",
            Self::Unanswered => "it does not answer",
            Self::Replica => "it is a replica, which takes no entries",
            Self::TooLarge => "it sent more than can be an answer",
        }
    }
}

/// Counts of losses by reason.
#[derive(Debug, Default)]
pub(crate) struct Losses([AtomicU64; FleetLoss::ALL.len()]);

impl Losses {
    pub(crate) fn count(&self, loss: &Loss) {
        self.0[loss.label() as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> [u64; FleetLoss::ALL.len()] {
        std::array::from_fn(|index| self.0[index].load(Relaxed))
    }
}

/// The pauses between connections, and what the log has said. A store that lets an edge in and then fails again and again is
/// away all that time. Each reason of an outage is logged once, and [`LOGGED_MAX`] of them: a store that did not run may want another password.
#[derive(Debug)]
pub(crate) struct Outage {
    pause_min: Duration,
    /// The longest pause, and how long a store answers before it counts as back.
    pause_max: Duration,
    pause: Duration,
    /// The reasons of this outage that are logged.
    logged: Vec<Loss>,
    /// Whether something in the store may be too large to be read.
    has_too_large: bool,
}

impl Outage {
    pub(crate) fn new(pause_min: Duration, pause_max: Duration) -> Self {
        Self { pause_min, pause_max, pause: pause_min, logged: Vec::new(), has_too_large: false }
    }

    /// Notes a loss; returns the pause before the next connection.
    pub(crate) fn lost(&mut self, loss: &Loss) -> Duration {
        if self.logged.len() < LOGGED_MAX && !self.logged.contains(loss) {
            let why = loss.text();
            tracing::warn!("fleet: the store cannot be used ({why}); handshakes do without it until it can");
            self.logged.push(loss.clone());
        }
        self.has_too_large |= *loss == Loss::TooLarge;
        let pause = self.pause;
        self.pause = (2 * pause).min(self.pause_max);
        pause
    }

    /// Whether the store has sent too much; the next call says no.
    pub(crate) fn take_too_large(&mut self) -> bool {
        mem::take(&mut self.has_too_large)
    }

    /// Notes an answer on a connection of this age.
    pub(crate) fn answered(&mut self, age: Duration) {
        if age < self.pause_max {
            return;
        }
        self.pause = self.pause_min;
        if !self.logged.is_empty() {
            tracing::info!("fleet: the store can be used again");
            self.logged.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(2);

    #[test]
    fn only_a_store_that_answers_for_a_while_ends_the_longer_pauses() {
        let mut outage = Outage::new(MIN, MAX);
        let pauses: Vec<u128> = (0..7)
            .map(|_| {
                outage.answered(Duration::ZERO);
                outage.answered(MAX - MIN);
                outage.lost(&Loss::TooLarge).as_millis()
            })
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(outage.logged, [Loss::TooLarge], "once for all of them");
        outage.answered(MAX);
        assert_eq!((outage.logged.len(), outage.lost(&Loss::Broken)), (0, MIN));
    }

    #[test]
    fn each_reason_of_an_outage_is_logged_once_and_no_store_can_fill_the_log() {
        let mut outage = Outage::new(MIN, MAX);
        let words = |number: usize| Loss::Unreachable(format!("reason {number}"));
        for number in [0, 0, 1, 0, 1] {
            outage.lost(&words(number));
        }
        assert_eq!(outage.logged, [words(0), words(1)]);
        for number in 0..2 * LOGGED_MAX {
            outage.lost(&words(number));
        }
        assert_eq!(outage.logged.len(), LOGGED_MAX);
    }

    #[test]
    fn losses_are_counted_under_the_label_of_their_reason() {
        let losses = Losses::default();
        let why = || "refused".to_owned();
        let all = [
            Loss::Unreachable(why()),
            Loss::Broken,
            Loss::Unanswered,
            Loss::Refused(why()),
            Loss::Replica,
            Loss::TooLarge,
        ];
        all.iter().for_each(|loss| losses.count(loss));
        losses.count(&Loss::TooLarge);
        assert_eq!(losses.read(), [1, 1, 1, 1, 1, 2]);
    }
}
