//! The counters of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::failure::LoadFailure;
use crate::latencies::Latencies;
use crate::player::totals::PlaybackTotals;
use crate::schedule::Punctuality;

/// The longest description of a failure.
const DETAIL_CHARACTERS_MAX: usize = 1000;

/// The most addresses with counters of their own.
const ADDRESSES_MAX: usize = 10_000;
const OTHER_ADDRESSES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The counters of one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerAddress {
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Handshakes that offered a session.
    pub offered: u64,
    /// Operations that failed.
    pub errors: u64,
}

/// The counters of a thread, or of all threads.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// TCP connections that were opened.
    pub connections: u64,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Handshakes that offered a session.
    pub offered: u64,
    /// Connections on which early data was sent.
    pub early_data_sent: u64,
    /// Connections on which the server accepted early data.
    pub early_data_accepted: u64,
    /// Whole responses, whatever their status.
    pub requests: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Requests sent again on a new connection, because the server had ended the idle one.
    pub retried: u64,
    /// Those of them whose connection the server had reset.
    pub retried_resets: u64,
    /// Operations under way.
    pub in_flight: u64,
    /// Operations that ended without a fault: a whole response, or the handshake if no request follows.
    pub succeeded: u64,
    /// Failures by kind.
    pub errors: BTreeMap<LoadFailure, u64>,
    /// The first case of each kind, where there is more to say than its name.
    pub details: BTreeMap<LoadFailure, String>,
    /// Whole responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Handshakes by their parameters: `TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 …`.
    pub agreed: BTreeMap<String, u64>,
    /// Counters by address.
    pub addresses: BTreeMap<SocketAddr, PerAddress>,
    /// From the start to the TCP connection.
    pub tcp: Latencies,
    /// From the TCP connection to the end of the handshake.
    pub tls: Latencies,
    /// From sending the request to the first byte of the response.
    pub first_byte: Latencies,
    /// From when the operation was due to its end.
    pub total: Latencies,
    /// The same since the last interval.
    pub recent: Latencies,
    /// The distances of players from the live edge since the last interval.
    pub recent_distance: Latencies,
    /// How punctual an open loop was.
    pub punctuality: Punctuality,
    /// The figures of players.
    pub playback: PlaybackTotals,
}

impl Tally {
    /// Counts a failure.
    pub fn fail(&mut self, failure: LoadFailure) {
        *self.errors.entry(failure).or_default() += 1;
    }

    /// Counts a whole response.
    pub fn respond(&mut self, status: u16, is_delta: bool) {
        self.requests += 1;
        *self.statuses.entry(status).or_default() += 1;
        if let Some(failure) = LoadFailure::of_status(status, is_delta) {
            self.fail(failure);
        }
    }

    /// Counts a failure at an address, and keeps the first case of its kind.
    pub fn blame(&mut self, address: SocketAddr, failure: LoadFailure, detail: &dyn fmt::Display) {
        self.at(address).errors += 1;
        self.details.entry(failure).or_insert_with(|| {
            // A manifest may name a path of megabytes.
            format!("{address}: {detail}").chars().take(DETAIL_CHARACTERS_MAX).collect()
        });
    }

    /// Adds the latency of a whole operation.
    pub fn finish(&mut self, total: Duration) {
        self.total.note(total);
        self.recent.note(total);
    }

    /// The number of failures.
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The counters of an address. Manifests may name any number of servers: addresses beyond a limit share one entry.
    pub fn at(&mut self, address: SocketAddr) -> &mut PerAddress {
        let is_full = self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&address);
        let address = if is_full { OTHER_ADDRESSES } else { address };
        self.addresses.entry(address).or_default()
    }

    /// Adds the counters of another thread.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.offered += other.offered;
        self.early_data_sent += other.early_data_sent;
        self.early_data_accepted += other.early_data_accepted;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.retried += other.retried;
        self.retried_resets += other.retried_resets;
        self.in_flight += other.in_flight;
        self.succeeded += other.succeeded;
        add_counts(&mut self.errors, &other.errors);
        for (failure, detail) in &other.details {
            self.details.entry(*failure).or_insert_with(|| detail.clone());
        }
        add_counts(&mut self.statuses, &other.statuses);
        add_counts(&mut self.agreed, &other.agreed);
        for (address, theirs) in &other.addresses {
            let ours = self.at(*address);
            ours.handshakes += theirs.handshakes;
            ours.resumed += theirs.resumed;
            ours.offered += theirs.offered;
            ours.errors += theirs.errors;
        }
        self.tcp.add(&other.tcp);
        self.tls.add(&other.tls);
        self.first_byte.add(&other.first_byte);
        self.total.add(&other.total);
        self.recent.add(&other.recent);
        self.recent_distance.add(&other.recent_distance);
        self.punctuality.add(&other.punctuality);
        self.playback.add(&other.playback);
    }
}

fn add_counts<K: Ord + Clone>(ours: &mut BTreeMap<K, u64>, theirs: &BTreeMap<K, u64>) {
    for (key, count) in theirs {
        *ours.entry(key.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_of_an_error_is_a_response_and_an_error() {
        let mut tally = Tally::default();
        for status in [200, 206, 304, 404, 500, 503] {
            tally.respond(status, false);
        }
        assert_eq!(tally.requests, 6);
        assert_eq!(tally.errors[&LoadFailure::StatusClient], 1);
        assert_eq!(tally.errors[&LoadFailure::StatusServer], 2);
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.requests, sum.errors_total(), sum.statuses[&404]), (12, 6, 2));
    }

    #[test]
    fn of_each_kind_of_failure_the_first_is_described() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        one.blame(address, LoadFailure::ConnectRefused, &"the first");
        one.blame(address, LoadFailure::ConnectRefused, &"the second");
        other.blame(address, LoadFailure::ConnectRefused, &"of another thread");
        other.blame(address, LoadFailure::HeadCut, &"there");
        other.blame(address, LoadFailure::BodyShort, &"x".repeat(1_000_000));
        assert_eq!(other.details[&LoadFailure::BodyShort].len(), DETAIL_CHARACTERS_MAX);
        one.add(&other);
        assert_eq!(one.details[&LoadFailure::ConnectRefused], "127.0.0.1:9: the first");
        assert_eq!(one.details[&LoadFailure::HeadCut], "127.0.0.1:9: there");
        assert_eq!(one.addresses[&address].errors, 5);
    }

    #[test]
    fn addresses_beyond_a_limit_share_one_entry() {
        let mut tally = Tally::default();
        for number in 0..20_000_u32 {
            tally.at(SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(number + 1)), 443)).errors += 1;
        }
        assert_eq!(tally.addresses.len(), ADDRESSES_MAX + 1);
        assert_eq!(tally.addresses[&OTHER_ADDRESSES].errors, 10_000);
    }
}
