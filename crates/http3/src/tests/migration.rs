//! Clients whose address changes.

use super::*;

/// A pair whose client has as many connection ids as it may have.
fn pair_with_ids(content: usize, weather: Weather, limits: &Http3Limits) -> Pair {
    let mut pair = Pair::with(content, weather, limits);
    while pair.server.connection.ids_wanted() > 0 {
        assert!(pair.server.connection.add_id(&ConnectionId::random(0, 1), 1));
    }
    pair
}

impl Pair {
    /// A NAT gives the client another port, from which it sends. What is under way to the old one is lost.
    fn rebind(&mut self, port: u16) {
        self.client.address.set_port(port);
        self.to_client.queue.clear();
        self.to_client.held = None;
        self.client.longest = 0;
        self.client.quic.send_ack_eliciting().unwrap();
    }

    /// Downloads the content while the port of the client changes, each time after so many bytes of it.
    fn download_through(&mut self, ports: &[(usize, u16)]) {
        self.client.content.clear();
        let stream = self.client.get("/moving");
        for &(bytes, port) in ports {
            self.until(|pair| pair.client.content.len() >= bytes);
            assert!(!self.client.finished.contains(&stream));
            self.rebind(port);
        }
        self.until(|pair| pair.client.finished.contains(&stream));
        assert!(self.client.content == self.server.content, "{} bytes", self.client.content.len());
    }

    fn migrations(&self) -> u64 {
        let [.., migrations] = self.server.connection.counts();
        migrations
    }
}

#[test]
fn a_client_may_come_back_from_another_address() {
    let mut pair = pair_with_ids(300_000, Weather::Fair, &Http3Limits::default());
    pair.download("/first");
    pair.until(|pair| pair.server.connection.is_settled());
    pair.rebind(50_001);
    pair.download("/second");
    assert_eq!(pair.server.connection.client().unwrap().port(), 50_001);
    assert_eq!(pair.migrations(), 1);
}

#[test]
fn a_download_goes_on_at_another_address_and_is_whole() {
    for congestion_control in [CongestionControl::Cubic, CongestionControl::Reno, CongestionControl::Bbr] {
        for weather in [Weather::Fair, Weather::Loses(50), Weather::Reorders(7)] {
            let limits = Http3Limits { congestion_control, ..Http3Limits::default() };
            let mut pair = pair_with_ids(3_000_000, weather, &limits);
            pair.download_through(&[(1_000_000, 50_001)]);
            // More, if the proof of the new address was lost.
            assert!(pair.migrations() >= 1);
            assert!(pair.client.longest <= 1200, "{} bytes", pair.client.longest);
            assert!(!pair.server.connection.is_stranded());
            pair.download("/again");
        }
    }
}

#[test]
fn a_download_goes_on_through_as_many_addresses_as_a_connection_may_have() {
    let mut pair = pair_with_ids(4_000_000, Weather::Fair, &Http3Limits::default());
    let ports: Vec<_> = (1..8).map(|number| (usize::from(number) * 500_000, 50_000 + number)).collect();
    pair.download_through(&ports);
    assert_eq!(pair.migrations(), 7);
    // An address that it has had before is none more.
    pair.download_through(&[(1_000_000, 50_000), (2_000_000, 50_003)]);
    assert_eq!(pair.migrations(), 9);
}

#[test]
fn a_client_that_is_back_at_its_first_address_gets_long_datagrams_again() {
    let mut pair = pair_with_ids(3_000_000, Weather::Fair, &Http3Limits::default());
    pair.download("/first");
    pair.download_through(&[(1_000_000, 50_001), (2_000_000, 50_000)]);
    pair.until(|pair| pair.server.connection.is_settled());
    pair.client.longest = 0;
    pair.download("/last");
    assert!(pair.client.longest > 1200, "{} bytes", pair.client.longest);
}

#[test]
fn no_id_of_a_client_that_moves_on_purpose_is_seen_at_two_addresses() {
    let mut pair = pair_with_ids(3_000_000, Weather::Fair, &Http3Limits::default());
    while pair.client.quic.scids_left() > 0 {
        pair.client.quic.new_scid(&ConnectionId::random(0, 1).quic(), 2, false).unwrap();
    }
    pair.download("/first");
    pair.client.content.clear();
    let stream = pair.client.get("/moving");
    pair.until(|pair| pair.client.content.len() >= 1_000_000);
    let (old, mut new) = (pair.client.local, pair.client.local);
    new.set_port(50_001);
    pair.rebind(new.port());
    pair.client.local = new;
    pair.client.quic.migrate(new, server_address()).unwrap();
    pair.until(|pair| pair.client.finished.contains(&stream));
    assert!(pair.client.content == pair.server.content);
    assert_eq!(pair.migrations(), 1);
    let of = |address| pair.ids.iter().filter(move |(to, _)| *to == address).map(|(_, id)| id);
    assert!(of(new).count() > 0 && !of(old).any(|id| of(new).any(|other| other == id)), "{:?}", pair.ids);
}
