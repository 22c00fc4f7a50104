//! Why the store cannot be used, how often, and when the next connection is tried.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use penstock_metrics::FleetLoss;

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
/// away all that time.
#[derive(Debug)]
pub(crate) struct Outage {
    pause_min: Duration,
    /// The longest pause, and how long a store answers before it counts as back.
    pause_max: Duration,
    pause: Duration,
    is_logged: bool,
    /// Whether something in the store may be too large to be read.
    has_too_large: bool,
}

impl Outage {
    pub(crate) fn new(pause_min: Duration, pause_max: Duration) -> Self {
        Self { pause_min, pause_max, pause: pause_min, is_logged: false, has_too_large: false }
    }

    /// Notes a loss; returns the pause before the next connection.
    pub(crate) fn lost(&mut self, loss: &Loss) -> Duration {
        if !self.is_logged {
            let why = loss.text();
            tracing::warn!("fleet: the store cannot be used ({why}); handshakes do without it until it can");
            self.is_logged = true;
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
        if self.is_logged {
            tracing::info!("fleet: the store can be used again");
            self.is_logged = false;
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
        assert!(outage.is_logged, "once for all of them");
        outage.answered(MAX);
        assert_eq!((outage.is_logged, outage.lost(&Loss::Broken)), (false, MIN));
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
