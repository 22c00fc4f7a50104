//! How much of a site its clients may use: requests in time, and responses under way.

mod rates;
mod under_way;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::{Bounds, ClientKind, SiteLimits};

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
        })
    }

    /// Counts a request. The permit is held until its response has been sent.
    pub(crate) fn admit(&self, client: IpAddr, now: Instant) -> Result<Permit, LimitReached> {
        let client = client_key(self.raw.client, client);
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
        for ((key, bounds, [_, label]), table) in scopes.into_iter().zip([&self.each, &self.all]) {
            let Some(most) = bounds.connections else { continue };
            permit.push(table.enter(key, most).ok_or(LimitReached { label, retry_after: 1 })?);
        }
        Ok(permit)
    }
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// A number for each client, which is not [`EVERYONE`].
fn client_key(kind: ClientKind, client: IpAddr) -> u128 {
    let (bits_v4, bits_v6) = match kind {
        ClientKind::Address => (32, 64),
        ClientKind::Network => (24, 56),
    };
    // The number of the version above the address.
    match client.to_canonical() {
        IpAddr::V4(ip) => (4 << 64) | u128::from(ip.to_bits() >> (32 - bits_v4)),
        IpAddr::V6(ip) => (6 << 64) | (ip.to_bits() >> (128 - bits_v6)),
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
        Bounds { requests, connections: None }
    }

    #[test]
    fn each_client_has_its_rate_and_all_together_have_theirs() {
        let now = Instant::now();
        let limits = limits(ClientKind::Address, rate(1500, 2), rate(1000, 3));
        let admit = |client: &str, after: u64| {
            let admitted = limits.admit(ip(client), now + Duration::from_millis(after));
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
        let most = |connections| Bounds { requests: None, connections: Some(connections) };
        let limits = limits(ClientKind::Network, most(2), most(3));
        let now = Instant::now();
        let label = |client: &str| limits.admit(ip(client), now).map_err(|limit| limit.label);
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
