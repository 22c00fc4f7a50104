//! How many of something each client network has: connections, handshakes, forwarded requests, requests to origins. A table
//! has only networks that have any, so it is bounded by the number of those altogether.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_config::Network;
use penstock_sys::lock::Unpoisoned;

/// Counts by network. Workers may share it: a lock is held for one look at the table.
#[derive(Debug, Default)]
pub struct Networks(Mutex<HashMap<Network, usize>>);

/// The network has as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFull;

impl Networks {
    /// Counts one more for as long as the entry lives. No more than `most` of a network at a time; zero is no limit.
    ///
    /// # Errors
    /// [`NetworkFull`]: the network has `most` already.
    pub fn enter(self: &Arc<Self>, client: IpAddr, most: usize) -> Result<NetworkEntry, NetworkFull> {
        let Some(network) = Network::of_remote(client).filter(|_| most > 0) else {
            return Ok(NetworkEntry(None));
        };
        let mut counts = self.counts();
        let count = counts.entry(network).or_insert(0);
        if *count >= most {
            return Err(NetworkFull);
        }
        *count += 1;
        drop(counts);
        Ok(NetworkEntry(Some((Arc::clone(self), network))))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Network, usize>> {
        self.0.lock().unpoisoned()
    }
}

/// One that is counted; `None` if its network is not limited.
#[derive(Debug)]
pub struct NetworkEntry(Option<(Arc<Networks>, Network)>);

impl NetworkEntry {
    /// One that counts against no network.
    pub(crate) fn unlimited() -> Self {
        Self(None)
    }
}

impl Drop for NetworkEntry {
    fn drop(&mut self) {
        let Some((networks, network)) = self.0.take() else { return };
        let mut counts = networks.counts();
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
            let networks = Arc::new(Networks::default());
            let held = networks.enter(ip(first), 1).unwrap();
            assert_eq!(networks.enter(ip(neighbour), 1).unwrap_err(), NetworkFull, "{neighbour}");
            assert!(networks.enter(ip(stranger), 1).is_ok(), "{stranger}");
            drop(held);
            assert!(networks.enter(ip(neighbour), 1).is_ok());
        }
    }

    #[test]
    fn the_table_holds_only_networks_with_handshakes_in_flight() {
        let networks = Arc::new(Networks::default());
        let held: Vec<_> =
            (0..=255).map(|third| networks.enter(ip(&format!("10.0.{third}.1")), 2).unwrap()).collect();
        let twice = networks.enter(ip("10.0.0.2"), 2).unwrap();
        assert!(networks.enter(ip("10.0.0.3"), 2).is_err(), "a refusal counts nothing");
        assert_eq!(networks.counts().len(), 256);
        drop(held);
        assert_eq!(networks.counts().len(), 1);
        drop(twice);
        assert!(networks.counts().is_empty());
    }

    #[test]
    fn this_machine_and_a_limit_of_zero_are_not_limited() {
        let networks = Arc::new(Networks::default());
        let held = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].map(|client| {
            let first = networks.enter(ip(client), 1);
            (first, networks.enter(ip(client), 1))
        });
        assert!(held.iter().all(|(first, second)| first.is_ok() && second.is_ok()));
        assert!(networks.enter(ip("192.0.2.1"), 0).is_ok() && networks.counts().is_empty());
    }
}
