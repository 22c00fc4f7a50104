//! How much of a site its clients may use: requests in time, and responses under way.

mod bandwidth;
mod rates;
mod under_way;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::{Bounds, ClientKind, Network, SiteLimits, client_number};

pub(crate) use bandwidth::Bandwidth;
use bandwidth::Share;
pub(crate) use rates::Rates;
pub use under_way::Permit;
use under_way::UnderWay;

/// The limits of a site.
#[derive(Debug)]
pub(crate) struct Limits {
    raw: SiteLimits,
    /// Tells its entries in the table from those of other sites.
    number: u64,
    rates: Arc<Rates>,
    each: Arc<UnderWay>,
    all: Arc<UnderWay>,
    subject_key: RandomState,
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Whose limit, and which: the label of metrics.
    pub label: &'static str,
    /// When a request may succeed, in whole seconds, at least 1.
    pub retry_after: u64,
}

/// The key of all clients together.
const EVERYONE: u128 = 0;

impl Limits {
    /// The limits of a configuration; `None` if there are none. `number` is the site's.
    pub(crate) fn new(raw: &SiteLimits, number: u64, rates: &Arc<Rates>) -> Option<Self> {
        let has_none = raw.each == Bounds::default() && raw.all == Bounds::default();
        (!has_none).then(|| Self {
            raw: *raw,
            number,
            rates: Arc::clone(rates),
            each: Arc::default(),
            all: Arc::default(),
            subject_key: RandomState::new(),
        })
    }

    /// Whether clients count by the subjects of their tokens.
    pub(crate) fn is_by_subject(&self) -> bool {
        self.raw.client == ClientKind::Subject
    }

    /// Whether bodies are sent no faster than a bandwidth.
    pub(crate) fn has_bandwidth(&self) -> bool {
        self.raw.each.bandwidth.is_some() || self.raw.all.bandwidth.is_some()
    }

    /// Whether a request of a client may come, by its address. Counts nothing.
    ///
    /// # Errors
    /// Its rate is used up.
    pub(crate) fn look(&self, client: IpAddr, now: Instant) -> Result<(), LimitReached> {
        let Some(rate) = self.raw.each.requests else { return Ok(()) };
        let client = (self.number, self.client_key(client, None));
        let looked = self.rates.look(client, rate, now);
        looked.map_err(|wait| LimitReached { label: "client_rate", retry_after: seconds(wait) })
    }

    /// Counts a request. The permit is held until its response has been sent. `subject` is that of the token which it shows.
    pub(crate) fn admit(
        &self,
        client: IpAddr,
        subject: Option<&str>,
        now: Instant,
    ) -> Result<Permit, LimitReached> {
        let client = self.client_key(client, subject);
        let scopes = [
            (client, &self.raw.each, ["client_rate", "client_connections"]),
            (EVERYONE, &self.raw.all, ["site_rate", "site_connections"]),
        ];
        // A request that is refused for its client does not count against the site.
        for (key, bounds, [label, _]) in scopes {
            let Some(rate) = bounds.requests else { continue };
            if let Err(wait) = self.rates.admit((self.number, key), rate, now) {
                return Err(LimitReached { label, retry_after: seconds(wait) });
            }
        }
        let mut permit = Permit::default();
        let labels = ["client_bandwidth", "site_bandwidth"];
        for ((key, bounds, _), label) in scopes.into_iter().zip(labels) {
            let Some(rate) = bounds.bandwidth else { continue };
            let share = Share { client: (!self.number, key), rate };
            share
                .admit(&self.rates, now)
                .map_err(|wait| LimitReached { label, retry_after: seconds(wait) })?;
            permit.share(&self.rates, share);
        }
        for ((key, bounds, [_, label]), table) in scopes.into_iter().zip([&self.each, &self.all]) {
            let Some(most) = bounds.connections else { continue };
            permit.push(table.enter(key, most).ok_or(LimitReached { label, retry_after: 1 })?);
        }
        Ok(permit)
    }
}

impl Limits {
    fn client_key(&self, client: IpAddr, subject: Option<&str>) -> u128 {
        match subject {
            Some(subject) if self.is_by_subject() => {
                (5 << 64) | u128::from(self.subject_key.hash_one(subject))
            }
            _ => client_key(self.raw.client, client),
        }
    }
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// A number for each client, which is not [`EVERYONE`].
fn client_key(kind: ClientKind, client: IpAddr) -> u128 {
    match kind {
        ClientKind::Address | ClientKind::Subject => client_number(client),
        ClientKind::Network => Network::of(client).number().into(),
    }
}

#[cfg(test)]
mod tests {
    use penstock_config::RequestRate;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn limits(client: ClientKind, each: Bounds, all: Bounds) -> Limits {
        Limits::new(&SiteLimits { client, each, all }, 3, &Arc::default()).unwrap()
    }

    fn rate(milliseconds: u64, burst: u32) -> Bounds {
        let requests = Some(RequestRate { interval: Duration::from_millis(milliseconds), burst });
        Bounds { requests, ..Bounds::default() }
    }

    #[test]
    fn each_client_has_its_rate_and_all_together_have_theirs() {
        let now = Instant::now();
        let limits = limits(ClientKind::Address, rate(1500, 2), rate(1000, 3));
        let admit = |client: &str, after: u64| {
            let admitted = limits.admit(ip(client), None, now + Duration::from_millis(after));
            admitted.map(drop).map_err(|limit| (limit.label, limit.retry_after))
        };
        assert_eq!((admit("192.0.2.1", 0), admit("192.0.2.1", 0)), (Ok(()), Ok(())));
        assert_eq!(admit("192.0.2.1", 0), Err(("client_rate", 2)));
        assert_eq!(admit("192.0.2.2", 0), Ok(()));
        assert_eq!(admit("192.0.2.3", 0), Err(("site_rate", 1)));
        assert_eq!(admit("192.0.2.1", 1499), Err(("client_rate", 1)));
        assert_eq!(admit("192.0.2.1", 1500), Ok(()));
    }

    #[test]
    fn responses_under_way_are_counted_until_their_permit_is_dropped() {
        let most = |connections| Bounds { connections: Some(connections), ..Bounds::default() };
        let limits = limits(ClientKind::Network, most(2), most(3));
        let now = Instant::now();
        let label = |client: &str| limits.admit(ip(client), None, now).map_err(|limit| limit.label);
        let held = [label("192.0.2.1").unwrap(), label("192.0.2.255").unwrap()];
        assert_eq!(label("192.0.2.9").unwrap_err(), "client_connections");
        let third = label("2001:db8::1").unwrap();
        assert_eq!(label("198.51.100.1").unwrap_err(), "site_connections");
        drop(third);
        let third = label("2001:db8:0:ff::1").unwrap();
        drop(held);
        assert!(label("192.0.2.9").is_ok());
        drop(third);
        assert!(limits.each.is_empty() && limits.all.is_empty());
    }

    #[test]
    fn a_subject_is_one_client_at_all_its_addresses() {
        let now = Instant::now();
        let limits = limits(ClientKind::Subject, rate(1000, 1), Bounds::default());
        let admit = |client, subject| limits.admit(ip(client), subject, now).is_ok();
        assert!(admit("192.0.2.1", Some("ann")));
        assert!(!admit("192.0.2.2", Some("ann")));
        assert!(admit("192.0.2.2", Some("bob")));
        assert!(admit("192.0.2.1", None), "without one by its address");
        assert!(!admit("192.0.2.1", None));
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        for (kind, one, same, other) in [
            (ClientKind::Address, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            (ClientKind::Address, "2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
            (ClientKind::Network, "192.0.2.1", "192.0.2.2", "192.0.3.1"),
            (ClientKind::Network, "2001:db8::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"),
            (ClientKind::Address, "::4", "::5", "0.0.0.4"),
        ] {
            let key = |text| client_key(kind, ip(text));
            assert_eq!(key(one), key(same), "{one} {same}");
            assert_ne!(key(one), key(other), "{one} {other}");
            assert_ne!(key(one), EVERYONE);
        }
    }
}
