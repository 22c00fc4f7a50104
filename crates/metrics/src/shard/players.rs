//! Clients and players, as one worker counts them.

use crate::facts::{HandshakeFacts, SiteId};
use crate::labels::ClientKind;
use crate::players::PlayerSaid;
use crate::shard::Shard;

impl Shard {
    /// Counts what a player of a site said.
    pub fn player_said(&self, site: SiteId, said: &PlayerSaid<'_>) {
        self.expect_own_thread();
        if let Some(counters) = self.sites.players(site) {
            counters.count(said);
        }
    }

    /// Counts a new connection by kind of client, and its handshake, unless it has none.
    pub fn client_connected(&self, kind: ClientKind, tls: Option<&HandshakeFacts>) {
        self.expect_own_thread();
        self.clients[kind as usize].add(1);
        if let Some(facts) = tls {
            // Only what is shown tells label sets apart.
            let shown = HandshakeFacts { group: "", certificate: "", ..*facts };
            self.client_handshakes.add((kind, shown));
        }
    }
}
