//! Places for handshakes, altogether and for each client network.
//!
//! Before its handshake has ended, a client is unknown. One that is slow on purpose would hold its place until the deadline,
//! so a newer connection takes the place of the oldest handshake of the network that has the most.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use penstock_config::Network;
use tokio::sync::oneshot;

/// The handshakes under way.
#[derive(Debug)]
pub(crate) struct HandshakePlaces {
    under_way: RefCell<UnderWay>,
    most: usize,
    most_of_network: usize,
}

#[derive(Debug, Default)]
struct UnderWay {
    /// Of each network that has any, the oldest first.
    networks: HashMap<Network, VecDeque<Handshake>>,
    total: usize,
    /// Greater than the number of each handshake.
    next: u64,
}

#[derive(Debug)]
struct Handshake {
    number: u64,
    /// Dropped when the place is given to another.
    _held: oneshot::Sender<()>,
}

/// The place of a handshake until it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakePlace {
    places: Rc<HandshakePlaces>,
    network: Network,
    number: u64,
    held: oneshot::Receiver<()>,
}

impl HandshakePlaces {
    /// At most `most` handshakes at a time, and `most_of_network` of one network. Both are greater than zero.
    pub(crate) fn new(most: usize, most_of_network: usize) -> Rc<Self> {
        Rc::new(Self { under_way: RefCell::default(), most, most_of_network })
    }

    /// A place for the handshake of a client, taken from another one if all are taken.
    pub(crate) fn enter(self: &Rc<Self>, client: IpAddr) -> HandshakePlace {
        // Those of this machine are counted too: a keyserver expects edges, and no proxy before them.
        let network = Network::of(client);
        let mut under_way = self.under_way.borrow_mut();
        if under_way.networks.get(&network).is_some_and(|own| own.len() >= self.most_of_network) {
            under_way.give_up_oldest(network);
        } else if under_way.total >= self.most
            && let Some(largest) = under_way.largest()
        {
            under_way.give_up_oldest(largest);
        }
        let (number, (sender, held)) = (under_way.next, oneshot::channel());
        under_way.next += 1;
        under_way.total += 1;
        under_way.networks.entry(network).or_default().push_back(Handshake { number, _held: sender });
        HandshakePlace { places: Rc::clone(self), network, number, held }
    }
}

impl UnderWay {
    /// The network with the most handshakes; of several, the one with the oldest.
    fn largest(&self) -> Option<Network> {
        let oldest = |handshakes: &VecDeque<Handshake>| handshakes.front().map(|oldest| oldest.number);
        let by_size = |(_, handshakes): &(&Network, &VecDeque<Handshake>)| {
            (handshakes.len(), std::cmp::Reverse(oldest(handshakes)))
        };
        self.networks.iter().max_by_key(by_size).map(|(network, _)| *network)
    }

    fn give_up_oldest(&mut self, network: Network) {
        if let Some(number) =
            self.networks.get(&network).and_then(|own| own.front().map(|oldest| oldest.number))
        {
            self.remove(network, number);
        }
    }

    fn remove(&mut self, network: Network, number: u64) {
        let Some(handshakes) = self.networks.get_mut(&network) else { return };
        if let Ok(index) = handshakes.binary_search_by_key(&number, |handshake| handshake.number) {
            handshakes.remove(index);
            self.total -= 1;
        }
        if handshakes.is_empty() {
            self.networks.remove(&network);
        }
    }
}

impl HandshakePlace {
    /// Ends when the place has been given to a newer handshake.
    pub(crate) async fn lost(&mut self) {
        drop((&mut self.held).await);
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.places.under_way.borrow_mut().remove(self.network, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_lost(place: &mut HandshakePlace) -> bool {
        place.held.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_network_that_has_its_share_gives_up_its_own_oldest_handshake() {
        for (first, neighbour, stranger) in [
            ("192.0.2.1", "::ffff:192.0.2.255", "192.0.3.1"),
            ("2001:db8:0:1::1", "2001:db8:0:ff:1:2:3:4", "2001:db8:0:100::1"),
            ("127.0.0.1", "127.0.0.9", "127.0.1.1"),
        ] {
            let [first, neighbour, stranger] = [first, neighbour, stranger].map(|ip| ip.parse().unwrap());
            let places = HandshakePlaces::new(100, 2);
            let [mut oldest, mut second, mut other] = [first, neighbour, stranger].map(|ip| places.enter(ip));
            assert!(![&mut oldest, &mut second, &mut other].into_iter().any(has_lost));
            let mut newest = places.enter(neighbour);
            assert!(has_lost(&mut oldest), "{neighbour}");
            assert!(![&mut second, &mut other, &mut newest].into_iter().any(has_lost));
            drop((oldest, second, newest, other));
            let under_way = places.under_way.borrow();
            assert!(
                under_way.networks.is_empty() && under_way.total == 0,
                "only networks with handshakes are kept"
            );
        }
    }

    #[test]
    fn when_all_places_are_taken_the_network_with_the_most_gives_one_up() {
        let address = |network: u8, host: u8| IpAddr::from([192, 0, network, host]);
        let places = HandshakePlaces::new(7, 4);
        let mut edge = places.enter(address(9, 1));
        let mut strangers: Vec<_> = (0..6).map(|place| places.enter(address(place % 3, place))).collect();
        // Each network of strangers has two; the oldest is of the first.
        let mut newer: Vec<_> = (0..200).map(|place| places.enter(address(place % 3, place))).collect();
        assert!(!has_lost(&mut edge), "the only one of its network");
        assert!(strangers.iter_mut().all(has_lost));
        assert_eq!(newer.iter_mut().filter_map(|place| (!has_lost(place)).then_some(())).count(), 6);
        assert_eq!(places.under_way.borrow().total, 7);
        let mut second = places.enter(address(9, 2));
        assert!(!has_lost(&mut edge) && !has_lost(&mut second));
        drop(newer);
        assert_eq!(places.under_way.borrow().total, 2);
    }
}
