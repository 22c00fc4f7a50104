//! How many handshakes are under way, altogether and for each client network.
//!
//! Before its handshake has ended, a client is unknown: a stranger that is slow on purpose holds a place until the
//! deadline. Without a bound for its network it would keep the edges out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// Counts the handshakes of each network that has any.
#[derive(Debug)]
pub(crate) struct NetworkHandshakes {
    counts: RefCell<HashMap<IpAddr, usize>>,
    most: usize,
}

/// A handshake that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct NetworkHandshake {
    networks: Rc<NetworkHandshakes>,
    network: IpAddr,
}

impl NetworkHandshakes {
    /// At most `most` handshakes of a network at a time.
    pub(crate) fn new(most: usize) -> Rc<Self> {
        Rc::new(Self { counts: RefCell::default(), most })
    }

    /// Counts one more; `None` if the network of the client has as many as it may.
    pub(crate) fn enter(self: &Rc<Self>, client: IpAddr) -> Option<NetworkHandshake> {
        let network = network_of(client);
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(network).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(NetworkHandshake { networks: Rc::clone(self), network })
    }
}

impl Drop for NetworkHandshake {
    fn drop(&mut self) {
        let mut counts = self.networks.counts.borrow_mut();
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

/// The first address of the /24 of IPv4 or /56 of IPv6, as the edge counts its clients. Loopback networks are counted too:
/// a keyserver expects edges, and no proxy before them.
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & !0xff)),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 72 << 72)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_share_of_handshakes_and_others_theirs() {
        for (first, neighbour, stranger) in [
            ("192.0.2.1", "::ffff:192.0.2.255", "192.0.3.1"),
            ("2001:db8:0:1::1", "2001:db8:0:ff:1:2:3:4", "2001:db8:0:100::1"),
            ("127.0.0.1", "127.0.0.9", "127.0.1.1"),
        ] {
            let [first, neighbour, stranger] = [first, neighbour, stranger].map(|ip| ip.parse().unwrap());
            let networks = NetworkHandshakes::new(2);
            let (held, other) = (networks.enter(first).unwrap(), networks.enter(neighbour));
            assert!(other.is_some() && networks.enter(neighbour).is_none(), "{neighbour}");
            assert!(networks.enter(stranger).is_some(), "{stranger}");
            drop(held);
            assert!(networks.enter(neighbour).is_some(), "{neighbour}");
            drop(other);
            assert!(networks.counts.borrow().is_empty(), "only networks with handshakes are kept");
        }
    }
}
