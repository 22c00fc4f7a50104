//! Counters of the sites, as one worker has them.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::cells::{BytesPerSecond, Counter, Distribution, Histogram, Scale, Share};
use crate::distinct::NameHash;
use crate::facts::{RateId, SiteId};
use crate::labels::{CacheOutcome, HttpLabel, ShortReason, StatusClass};
use crate::limits;
use crate::players::PlayerCounters;
use crate::shard::Shard;
use crate::viewers::ViewerCounters;

/// The counters of each site by number. A site without a request has none, and takes 16 bytes.
#[derive(Debug)]
pub(crate) struct SiteCells(Box<[OnceLock<Box<SiteCounters>>]>);

impl Default for SiteCells {
    fn default() -> Self {
        Self((0..limits::SITES).map(|_| OnceLock::new()).collect())
    }
}

impl SiteCells {
    /// The counters of a site, which the first request makes.
    fn of(&self, SiteId(number): SiteId) -> Option<&SiteCounters> {
        Some(self.0.get(number)?.get_or_init(Box::default))
    }

    /// What players of a site said.
    pub(super) fn players(&self, site: SiteId) -> Option<&PlayerCounters> {
        Some(self.of(site)?.players.get_or_init(Box::default))
    }

    /// The counters of a site that has had a request.
    pub(crate) fn get(&self, number: usize) -> Option<&SiteCounters> {
        self.0.get(number)?.get().map(|counters| &**counters)
    }
}

/// The counters of one site.
#[derive(Debug, Default)]
pub(crate) struct SiteCounters {
    pub(crate) requests: [Counter; StatusClass::ALL.len()],
    pub(crate) body_bytes: Counter,
    pub(crate) cached: [CacheCounters; CacheOutcome::ALL.len()],
    pub(crate) first_byte: Histogram,
    pub(crate) short: [Counter; ShortReason::ALL.len()],
    pub(crate) carried: [CarriedCounters; HttpLabel::ALL.len()],
    pub(crate) slow: [Counter; limits::RATES],
    pub(crate) viewers: OnceLock<Box<ViewerCounters>>,
    pub(crate) players: OnceLock<Box<PlayerCounters>>,
}

/// How the network carried responses over one version of HTTP.
#[derive(Debug, Default)]
pub(crate) struct CarriedCounters {
    pub(crate) delivery_rate: Histogram<BytesPerSecond>,
    pub(crate) round_trip: Histogram,
    pub(crate) sent_again: Histogram<Share>,
}

/// Requests of one cache status.
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    pub(crate) requests: Counter,
    pub(crate) bytes: Counter,
}

/// The counters of one site in all workers.
pub(crate) struct SiteOfWorkers<'m> {
    pub(crate) name: Arc<str>,
    pub(crate) workers: Vec<&'m SiteCounters>,
}

impl SiteOfWorkers<'_> {
    pub(crate) fn sum(&self, count: impl Fn(&SiteCounters) -> u64) -> u64 {
        self.workers.iter().map(|counters| count(counters)).sum()
    }

    /// Clients whose rate was measured, in the workers that have measured any.
    pub(crate) fn viewers(&self) -> Vec<&ViewerCounters> {
        self.workers.iter().filter_map(|counters| Some(&**counters.viewers.get()?)).collect()
    }

    /// What players said, in the workers that have heard any.
    pub(crate) fn players(&self) -> Vec<&PlayerCounters> {
        self.workers.iter().filter_map(|counters| Some(&**counters.players.get()?)).collect()
    }

    pub(crate) fn distribution<S: Scale>(
        &self,
        histogram: impl Fn(&SiteCounters) -> &Histogram<S>,
    ) -> Distribution {
        Distribution::of(self.workers.iter().map(|counters| histogram(counters)))
    }
}

/// A response of a site that ended.
#[derive(Clone, Copy, Debug)]
pub struct SiteResponse {
    /// The status code.
    pub status: u16,
    /// Bytes of the body given to the socket.
    pub body_bytes: u64,
    /// The time to the first byte; `None` if no byte was sent.
    pub first_byte: Option<Duration>,
    /// How the cache handled the request; `None` if it was not asked.
    pub cache: Option<CacheOutcome>,
    /// Why the response is short; `None` if it is complete.
    pub short: Option<ShortReason>,
    /// The version of HTTP, and how the network carried the response; `None` if it was not asked.
    pub carried: Option<(HttpLabel, Carried)>,
}

/// How the network carried a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Bytes per second at which the client received; `None` if that was not measured.
    pub delivery_rate: Option<u64>,
    /// The smoothed round-trip time.
    pub round_trip: Duration,
    /// Bytes sent and, of those, bytes sent again, since the last response of the connection that was looked at.
    pub sent: (u64, u64),
}

impl Carried {
    /// The share of what was sent again, in millionths; `None` if nothing was sent.
    #[must_use]
    pub fn share_sent_again(&self) -> Option<u64> {
        let (sent, again) = self.sent;
        let millionths = u128::from(again).checked_mul(1_000_000)?.checked_div(u128::from(sent))?;
        Some(u64::try_from(millionths).unwrap_or(u64::MAX).min(1_000_000))
    }
}

impl CarriedCounters {
    fn count(&self, carried: &Carried) {
        if let Some(rate) = carried.delivery_rate {
            self.delivery_rate.observe_parts(rate);
        }
        self.round_trip.observe(carried.round_trip);
        if let Some(share) = carried.share_sent_again() {
            self.sent_again.observe_parts(share);
        }
    }
}

impl Shard {
    /// Counts a response of a site that its client has received at `rate` bytes per second, among those below each of the rates
    /// that are needed. `client` is a number that no other client has. Without these nothing is counted.
    pub fn received(
        &self,
        site: SiteId,
        (client, rate): (u128, u64),
        needed: &[(u64, RateId)],
        now: Instant,
    ) {
        self.expect_own_thread();
        let Some(counters) = self.sites.of(site).filter(|_| !needed.is_empty()) else { return };
        let viewers = counters.viewers.get_or_init(Box::default);
        let (client, second) = (NameHash::of(client), now.saturating_duration_since(self.started).as_secs());
        viewers.measured(client, second);
        for (_, slow) in needed.iter().filter(|(needed, _)| rate < *needed) {
            if let Some(counter) = counters.slow.get(slow.0) {
                counter.add(1);
            }
            viewers.slower(*slow, client, second);
        }
    }

    /// Counts a response for its site.
    pub fn site_response(&self, site: SiteId, response: &SiteResponse) {
        self.expect_own_thread();
        let Some(counters) = self.sites.of(site) else { return };
        counters.requests[StatusClass::of(response.status) as usize].add(1);
        counters.body_bytes.add(response.body_bytes);
        if let Some(outcome) = response.cache {
            let cached = &counters.cached[outcome as usize];
            cached.requests.add(1);
            cached.bytes.add(response.body_bytes);
        }
        if let Some(first_byte) = response.first_byte {
            counters.first_byte.observe(first_byte);
        }
        if let Some(why) = response.short {
            counters.short[why as usize].add(1);
        }
        if let Some((version, carried)) = &response.carried {
            counters.carried[*version as usize].count(carried);
        }
    }
}
