//! What a connection receives from and sends to.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_http3::{ConnectionId, ServerConnection};

use super::endpoint::Endpoint;
use super::inbox::Inbox;
use super::outbox::{Flushed, Unsent};

/// One connection's way in and out. Dropping it makes its ids unknown.
pub(super) struct Link {
    pub(super) endpoint: Rc<Endpoint>,
    pub(super) inbox: Rc<Inbox>,
    /// What the socket did not take.
    pub(super) unsent: Option<Unsent>,
    /// When the pace of the connection lets it send more.
    pub(super) due: Option<Instant>,
    /// Bytes of datagrams sent.
    pub(super) sent: u64,
    /// The ids by which datagrams find the inbox.
    ids: Vec<ConnectionId>,
}

impl Link {
    pub(super) fn new(endpoint: Rc<Endpoint>, inbox: Rc<Inbox>, ids: Vec<ConnectionId>) -> Self {
        Self { endpoint, inbox, unsent: None, due: None, sent: 0, ids }
    }

    /// Sends what the connection has, about `most` bytes. Returns whether there was anything.
    pub(super) fn flush(&mut self, connection: &mut ServerConnection, most: usize) -> bool {
        let flushed = self.endpoint.outbox.flush(connection, most);
        self.note(flushed)
    }

    /// Sends what the socket did not take before.
    pub(super) fn flush_unsent(&mut self) {
        if let Some(unsent) = self.unsent.take() {
            let flushed = self.endpoint.outbox.send_again(unsent);
            self.note(flushed);
        }
    }

    fn note(&mut self, flushed: Flushed) -> bool {
        self.sent += flushed.bytes as u64;
        self.unsent = flushed.unsent;
        self.due = flushed.due;
        flushed.bytes > 0
    }

    /// Gives the client ids for migration, and forgets those that it has given up.
    pub(super) fn renew_ids(&mut self, connection: &mut ServerConnection) {
        while let Some(id) = connection.retired_id() {
            self.endpoint.forget(&id);
            self.ids.retain(|known| *known != id);
        }
        for _ in 0..connection.ids_wanted().min(limits::QUIC_IDS) {
            let (id, reset_token) = self.endpoint.new_id();
            if !connection.add_id(&id, reset_token) {
                return;
            }
            self.endpoint.know(id, &self.inbox);
            self.ids.push(id);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for id in &self.ids {
            self.endpoint.forget(id);
        }
    }
}
