//! How much time a client has left to take a response or to send a body.

use std::time::Duration;

use penstock_config::{Limits, limits};

/// The time that the server still waits for one client within one response or one body.
///
/// A client begins with a grace, and earns one second with each `rate` bytes that it moves. Only time in which the server
/// waits for the client is spent. A client that moves nothing holds its connection, the socket buffer and the leased part
/// of the cache for the grace and what it has earned before, which is at most `earned_max`.
#[derive(Clone, Debug)]
pub(crate) struct ClientBudget {
    /// Bytes per second; 0 is no limit.
    rate: u64,
    left: Duration,
    earned_max: Duration,
    /// Bytes that have earned their time already.
    paid_for: u64,
}

impl ClientBudget {
    /// The budget to take a response.
    pub(crate) fn to_take(limits: &Limits) -> Self {
        let earned_max = Duration::from_secs(limits::MINIMUM_RATE_CREDIT_SECONDS);
        Self { rate: limits.minimum_rate, left: limits.minimum_rate_grace, earned_max, paid_for: 0 }
    }

    /// The budget to send a body. A client saves up no more than the grace, so that a body which slows down to a trickle
    /// holds its origin connection for twice the grace at most.
    pub(crate) fn to_send(limits: &Limits) -> Self {
        let grace = limits.upload_rate_grace;
        Self { rate: limits.upload_rate, left: grace, earned_max: grace, paid_for: 0 }
    }

    /// The time left, without what has been moved since the last [`Self::earn`]; `None` without a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        (self.rate > 0).then_some(self.left)
    }

    /// Takes off the time that was spent waiting for the client.
    pub(crate) fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    /// Adds the time for what the client has moved: `total` bytes since the beginning. Returns false if there is no time
    /// left: the client is too slow.
    pub(crate) fn earn(&mut self, total: u64) -> bool {
        let Some(earned) = total.saturating_sub(self.paid_for).saturating_mul(1000).checked_div(self.rate)
        else {
            return true;
        };
        if earned > 0 {
            self.paid_for = total;
            let most = self.earned_max.max(self.left);
            self.left = self.left.saturating_add(Duration::from_millis(earned)).min(most);
        }
        !self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(minimum_rate: u64) -> ClientBudget {
        let grace = Duration::from_secs(30);
        ClientBudget::to_take(&Limits { minimum_rate, minimum_rate_grace: grace, ..Limits::default() })
    }

    #[test]
    fn a_client_earns_a_second_for_each_minimum_rate_it_takes() {
        let mut budget = budget(1024);
        assert_eq!(budget.left(), Some(Duration::from_secs(30)));
        budget.spend(Duration::from_secs(30));
        assert!(budget.earn(10 * 1024));
        assert_eq!(budget.left(), Some(Duration::from_secs(10)));
        budget.spend(Duration::from_secs(11));
        assert!(!budget.earn(10 * 1024), "bytes earn their time once");
    }

    #[test]
    fn a_fast_client_cannot_save_up_time_for_ever() {
        let mut budget = budget(1024);
        assert!(budget.earn(u64::MAX));
        assert_eq!(budget.left(), Some(Duration::from_secs(limits::MINIMUM_RATE_CREDIT_SECONDS)));
    }

    #[test]
    fn without_a_minimum_rate_no_client_is_too_slow() {
        let mut budget = budget(0);
        budget.spend(Duration::from_secs(1_000_000));
        assert!(budget.earn(0));
        assert_eq!(budget.left(), None);
    }
}
