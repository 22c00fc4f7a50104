//! How many handshakes each client network has in flight: a table of those that have any, bounded by the number of
//! handshakes in flight altogether.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

/// What one customer of a provider usually has, or a small company: /24 of IPv4, /56 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 3]),
    V6([u8; 7]),
}

impl Network {
    /// `None` for this machine itself, which is not limited: proxies and tests come from there.
    fn of(client: IpAddr) -> Option<Self> {
        match client.to_canonical() {
            ip if ip.is_loopback() => None,
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Some(Self::V4([a, b, c]))
            }
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, ..] = ip.octets();
                Some(Self::V6([a, b, c, d, e, f, g]))
            }
        }
    }
}

/// Counts the handshakes of one worker by network.
#[derive(Debug, Default)]
pub(crate) struct Networks(RefCell<HashMap<Network, usize>>);

/// The network has as many handshakes in flight as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkFull;

impl Networks {
    /// Counts a handshake for as long as what comes back lives. No more than `most` of a network at a time; zero is no
    /// limit.
    pub(crate) fn enter(&self, client: IpAddr, most: usize) -> Result<Entry<'_>, NetworkFull> {
        let Some(network) = Network::of(client).filter(|_| most > 0) else {
            return Ok(Entry { networks: self, network: None });
        };
        let mut counts = self.0.borrow_mut();
        let count = counts.entry(network).or_insert(0);
        if *count >= most {
            return Err(NetworkFull);
        }
        *count += 1;
        Ok(Entry { networks: self, network: Some(network) })
    }
}

/// A handshake that is counted.
#[derive(Debug)]
pub(crate) struct Entry<'n> {
    networks: &'n Networks,
    network: Option<Network>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut counts = self.networks.0.borrow_mut();
        if let Some(count) = counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn neighbours_share_a_limit_and_strangers_do_not() {
        for (first, neighbour, stranger) in [
            ("192.0.2.1", "192.0.2.255", "192.0.3.1"),
            ("192.0.2.1", "::ffff:192.0.2.9", "198.51.100.1"),
            ("2001:db8:0:1::1", "2001:db8:0:ff:1:2:3:4", "2001:db8:0:100::1"),
        ] {
            let networks = Networks::default();
            let held = networks.enter(ip(first), 1).unwrap();
            assert_eq!(networks.enter(ip(neighbour), 1).unwrap_err(), NetworkFull, "{neighbour}");
            assert!(networks.enter(ip(stranger), 1).is_ok(), "{stranger}");
            drop(held);
            assert!(networks.enter(ip(neighbour), 1).is_ok());
        }
    }

    #[test]
    fn the_table_holds_only_networks_with_handshakes_in_flight() {
        let networks = Networks::default();
        let held: Vec<_> =
            (0..=255).map(|third| networks.enter(ip(&format!("10.0.{third}.1")), 2).unwrap()).collect();
        let twice = networks.enter(ip("10.0.0.2"), 2).unwrap();
        assert!(networks.enter(ip("10.0.0.3"), 2).is_err(), "a refusal counts nothing");
        assert_eq!(networks.0.borrow().len(), 256);
        drop(held);
        assert_eq!(networks.0.borrow().len(), 1);
        drop(twice);
        assert!(networks.0.borrow().is_empty());
    }

    #[test]
    fn this_machine_and_a_limit_of_zero_are_not_limited() {
        let networks = Networks::default();
        let held = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].map(|client| {
            let first = networks.enter(ip(client), 1);
            (first, networks.enter(ip(client), 1))
        });
        assert!(held.iter().all(|(first, second)| first.is_ok() && second.is_ok()));
        assert!(networks.enter(ip("192.0.2.1"), 0).is_ok() && networks.0.borrow().is_empty());
    }
}
