//! Bytes in a second that the responses of a client, or of a site, share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::limits;

use super::rates::Rates;

/// What one response may use together with others. Each has at most that of its client and that of its site.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    rates: Arc<Rates>,
    shares: Vec<Share>,
}

/// One bandwidth, and who shares it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) client: (u64, u128),
    pub(super) rate: NonZeroU64,
}

impl Bandwidth {
    pub(super) fn new(rates: &Arc<Rates>) -> Self {
        Self { rates: Arc::clone(rates), shares: Vec::with_capacity(2) }
    }

    pub(super) fn push(&mut self, share: Share) {
        self.shares.push(share);
    }

    /// The least rate, in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.shares.iter().map(|share| share.rate.get()).min().unwrap_or(u64::MAX)
    }

    /// Counts bytes that are sent now; returns how long the next ones wait.
    pub(crate) fn spend(&self, bytes: u64, now: Instant) -> Duration {
        let of =
            |share: &Share| self.rates.spend(share.client, share.time(bytes), limits::PACE_CATCH_UP, now);
        self.shares.iter().map(of).max().unwrap_or_default()
    }
}

impl Share {
    /// The time of so many bytes.
    fn time(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)).min(limits::PACE_WAIT_MAX)
    }

    /// Whether another response may begin.
    ///
    /// # Errors
    /// The time after which one may: responses that wait already have more than they will get in a while.
    pub(super) fn admit(&self, rates: &Rates, now: Instant) -> Result<(), Duration> {
        let wait = rates.spend(self.client, Duration::ZERO, limits::PACE_CATCH_UP, now);
        match wait.checked_sub(limits::BANDWIDTH_BEHIND_MAX) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(rest) => Err(rest),
        }
    }
}
