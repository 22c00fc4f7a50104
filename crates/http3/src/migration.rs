//! Changes of the client's address (RFC 9000 §9).
//!
//! The library detects losses by path. Packets under way on a path that the client has left count as lost once a later packet
//! of that path is acknowledged, and the library sends no later one. [`Migration`] has one such packet sent, to the address in
//! use: its acknowledgement counts those before it as lost, and the library sends their content again on the path in use.

use crate::buffers::Quic;
use crate::datagram::{MAX_DATAGRAM_BYTES, NetworkPath};
use crate::id::ConnectionId;

/// Paths of a connection: addresses of a client. Packets from more are dropped.
pub(crate) const PATHS_MAX: u64 = 8;

/// The longest datagram on a path whose MTU is not known (RFC 9000 §14).
const UNPROBED_DATAGRAM_BYTES: usize = 1200;

/// Timeouts of a left path since the last migration, after which its packets are not expected to be acknowledged. They double:
/// the last one comes after some 60 times the first.
const STRANDED_TIMEOUTS: usize = 6;

/// The paths of one connection.
#[derive(Debug)]
pub(crate) struct Migration {
    /// The path of the handshake: the only one whose MTU the library probes.
    first: NetworkPath,
    active: NetworkPath,
    /// Whether a packet has come on another path than the first.
    has_others: bool,
    /// The client's id of the first path, from the handshake on.
    first_id: Option<ConnectionId>,
    /// The path on which the client has sent with the id of another one: a NAT has moved it.
    rebound: Option<NetworkPath>,
    left: Vec<LeftPath>,
    /// The path of the last datagram, unless the path was probed again since.
    received: Option<NetworkPath>,
    count: u64,
    datagram_bytes: usize,
}

/// A path that was in use before.
#[derive(Debug)]
struct LeftPath {
    path: NetworkPath,
    /// Timeouts seen so far.
    timeouts: usize,
    /// Those of them that came before the last migration.
    timeouts_before: usize,
    /// Whether a packet of this path is to be sent.
    is_due: bool,
}

/// What the library says of a path.
#[derive(Clone, Copy, Debug)]
struct PathStatus {
    path: NetworkPath,
    is_active: bool,
    is_validated: bool,
    timeouts: usize,
}

impl Migration {
    pub(crate) fn new(first: NetworkPath) -> Self {
        Self {
            first,
            active: first,
            has_others: false,
            first_id: None,
            rebound: None,
            left: Vec::new(),
            received: None,
            count: 0,
            datagram_bytes: MAX_DATAGRAM_BYTES,
        }
    }

    /// How often the client has gone to another address.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The longest datagram to send now.
    pub(crate) fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Whether packets of a left path were sent again and again, and none was acknowledged.
    pub(crate) fn is_stranded(&self) -> bool {
        self.left.iter().any(|left| left.timeouts >= left.timeouts_before + STRANDED_TIMEOUTS)
    }

    /// Whether the library takes a datagram of this path now. It would end the connection while the path in use has failed and the
    /// challenge that revives it is not sent.
    pub(crate) fn takes(&mut self, quic: &Quic, path: NetworkPath) -> bool {
        self.received = Some(path);
        !self.has_others || quic.get_next_release_time().is_some()
    }

    /// Called after a datagram was received, or timers were followed.
    pub(crate) fn follow(&mut self, quic: &mut Quic) {
        if self.first_id.is_none() && quic.is_established() {
            self.first_id = ConnectionId::new(&quic.destination_id());
        }
        let before = self.count;
        while let Some(event) = quic.path_event_next() {
            match event {
                // The library probes it by itself.
                quiche::PathEvent::New(..) => self.has_others = true,
                // At any timeout after the proof of an address the library takes a second challenge for failed, and leaves the path.
                quiche::PathEvent::FailedValidation(local, client)
                    if self.received.take() == Some(NetworkPath { local, client }) =>
                {
                    let _gone = quic.probe_path(local, client);
                }
                quiche::PathEvent::ReusedSourceConnectionId(_, _, (local, client)) => {
                    self.rebound = Some(NetworkPath { local, client });
                }
                quiche::PathEvent::PeerMigrated(local, client) => {
                    self.count += 1;
                    if self.rebound != Some(NetworkPath { local, client }) {
                        self.exchange_first_id(quic);
                    }
                }
                _ => {}
            }
        }
        if self.has_others {
            let status = |stats: quiche::PathStats| {
                let (local, client) = (stats.local_addr, stats.peer_addr);
                PathStatus {
                    path: NetworkPath { local, client },
                    is_active: stats.active,
                    is_validated: quic.is_path_validated(local, client).unwrap_or(false),
                    timeouts: stats.total_pto_count,
                }
            };
            let paths: Vec<_> = quic.path_stats().map(status).collect();
            if self.note(&paths, self.count > before) {
                let _gone = quic.probe_path(self.active.local, self.active.client);
            }
        }
    }

    /// Has packets of the first path, which the client has left on purpose, sent with an id that no other address has seen (RFC 9000
    /// §9.5). The library tells the number of no other id than the first.
    fn exchange_first_id(&self, quic: &mut Quic) {
        // Without others the path in use may have it, too.
        let is_shared = self.first_id == ConnectionId::new(&quic.destination_id());
        if quic.available_dcids() > 0 && !is_shared {
            let _exchanged_before = quic.retire_dcid(0);
        }
    }

    /// `has_migrated` says that the library has validated the client's new address.
    ///
    /// Returns whether the address in use is to be challenged again. The library does so at a timeout of that path, which does not come
    /// if a later packet of it was acknowledged.
    fn note(&mut self, paths: &[PathStatus], has_migrated: bool) -> bool {
        let other = |status: &PathStatus| status.path != self.first;
        let is_unprobed = paths.iter().any(|path| other(path) && (path.is_active || !path.is_validated));
        self.datagram_bytes = if is_unprobed { UNPROBED_DATAGRAM_BYTES } else { MAX_DATAGRAM_BYTES };

        let Some(active) = paths.iter().find(|path| path.is_active) else { return false };
        if active.path != self.active {
            self.left.retain(|left| left.path != active.path);
            let path = std::mem::replace(&mut self.active, active.path);
            self.left.push(LeftPath { path, timeouts: 0, timeouts_before: 0, is_due: false });
        }
        let mut has_timeout = false;
        self.left.retain_mut(|left| {
            let Some(status) = paths.iter().find(|status| status.path == left.path) else { return false };
            if has_migrated {
                left.timeouts_before = status.timeouts;
            }
            // A full congestion window takes the packet after a timeout only.
            has_timeout |= status.timeouts > left.timeouts;
            left.is_due |= active.is_validated && (has_migrated || status.timeouts > left.timeouts);
            left.timeouts = status.timeouts;
            true
        });
        has_timeout && !active.is_validated
    }

    /// Writes the packet of a left path that is due, if there is one. Returns its length and where it goes. The connection has
    /// nothing else to send: an answer to a challenge has to go to the address that it came from.
    pub(crate) fn packet(&mut self, quic: &mut Quic, out: &mut [u8]) -> Option<(usize, NetworkPath)> {
        for left in self.left.iter_mut().filter(|left| left.is_due) {
            left.is_due = false;
            let NetworkPath { local, client } = left.path;
            let _gone = quic.send_ack_eliciting_on_path(local, client);
            if let Ok((length, _)) = quic.send_on_path(out, Some(local), Some(client)) {
                return Some((length, self.active));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(port: u16) -> NetworkPath {
        let at = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
        NetworkPath { local: at(443), client: at(port) }
    }

    fn status(port: u16, is_active: bool, timeouts: usize) -> PathStatus {
        PathStatus { path: path(port), is_active, is_validated: true, timeouts }
    }

    fn due(migration: &mut Migration) -> Vec<u16> {
        let due = migration
            .left
            .iter_mut()
            .filter_map(|left| std::mem::take(&mut left.is_due).then_some(left.path.client.port()));
        due.collect()
    }

    #[test]
    fn a_packet_of_a_left_path_is_due_after_the_migration_and_after_each_timeout() {
        let mut migration = Migration::new(path(1));
        migration.note(&[status(1, true, 3)], false);
        assert!(due(&mut migration).is_empty());
        // The new address is not proven yet.
        let mut second = status(2, true, 0);
        second.is_validated = false;
        migration.note(&[status(1, false, 3), second], false);
        assert!(!migration.note(&[status(1, false, 3), second], false));
        assert!(migration.note(&[status(1, false, 4), second], false), "it is challenged again");
        assert!(due(&mut migration).is_empty());
        assert!(!migration.note(&[status(1, false, 4), status(2, true, 0)], true));
        assert_eq!(due(&mut migration), [1]);
        migration.note(&[status(1, false, 4), status(2, true, 5)], false);
        assert!(due(&mut migration).is_empty(), "a timeout of the path in use");
        migration.note(&[status(1, false, 5), status(2, true, 5)], false);
        assert_eq!(due(&mut migration), [1]);
        migration.note(&[status(1, false, 5), status(2, false, 5), status(3, true, 0)], true);
        assert_eq!(due(&mut migration), [1, 2]);
        migration.note(&[status(1, true, 5), status(2, false, 5), status(3, false, 0)], true);
        assert_eq!(due(&mut migration), [2, 3], "the client is back at its first address");
    }

    #[test]
    fn a_path_that_was_only_probed_is_not_left() {
        let mut migration = Migration::new(path(1));
        migration.note(&[status(1, true, 0), status(2, false, 9)], false);
        migration.note(&[status(1, true, 0), status(2, false, 19)], false);
        assert!(due(&mut migration).is_empty() && !migration.is_stranded());
    }

    #[test]
    fn timeouts_of_a_left_path_strand_the_connection_and_count_from_the_last_migration_on() {
        let mut migration = Migration::new(path(1));
        migration.note(&[status(1, false, 20), status(2, true, 0)], true);
        assert!(!migration.is_stranded());
        migration.note(&[status(1, false, 19 + STRANDED_TIMEOUTS), status(2, true, 0)], false);
        assert!(!migration.is_stranded());
        migration.note(&[status(1, false, 20 + STRANDED_TIMEOUTS), status(2, true, 0)], false);
        assert!(migration.is_stranded());
        migration.note(&[status(1, true, 20 + STRANDED_TIMEOUTS), status(2, false, 0)], true);
        assert!(!migration.is_stranded());
    }

    #[test]
    fn datagrams_are_short_on_paths_whose_mtu_is_not_known() {
        let mut migration = Migration::new(path(1));
        assert_eq!(migration.datagram_bytes(), MAX_DATAGRAM_BYTES);
        let mut second = status(2, false, 0);
        second.is_validated = false;
        migration.note(&[status(1, true, 0), second], false);
        assert_eq!(migration.datagram_bytes(), 1200, "a challenge is as long as its path has to carry");
        migration.note(&[status(1, false, 0), status(2, true, 0)], true);
        assert_eq!(migration.datagram_bytes(), 1200);
        migration.note(&[status(1, true, 0), status(2, false, 0)], true);
        assert_eq!(migration.datagram_bytes(), MAX_DATAGRAM_BYTES);
    }
}
