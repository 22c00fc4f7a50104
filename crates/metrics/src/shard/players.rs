//! Clients and players, as one worker counts them.

use std::time::Duration;

use crate::cells::nanoseconds;
use crate::facts::{HandshakeFacts, SiteId};
use crate::labels::ClientKind;
use crate::players::PlayerSaid;
use crate::shard::Shard;

impl Shard {
    /// Counts what a player of a site said, on a client of this kind.
    pub fn player_said(&self, site: SiteId, kind: ClientKind, said: &PlayerSaid) {
        self.expect_own_thread();
        if let Some(counters) = self.sites.players(site) {
            counters.count(kind, said);
        }
    }

    /// Counts a new connection by kind of client, and its handshake with what that cost the worker, unless it has none.
    pub fn client_connected(&self, kind: ClientKind, tls: Option<(&HandshakeFacts, Duration)>) {
        self.expect_own_thread();
        self.clients[kind as usize].add(1);
        if let Some((facts, busy)) = tls {
            self.client_handshake_time[kind as usize][usize::from(facts.resumed)].add(nanoseconds(busy));
            // Only what is shown tells label sets apart.
            let shown = HandshakeFacts { group: "", certificate: "", ..*facts };
            self.client_handshakes.add((kind, shown));
        }
    }
}
