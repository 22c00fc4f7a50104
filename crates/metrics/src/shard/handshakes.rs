//! Counting of TLS handshakes, tickets, early data and alerts.

use std::time::Duration;

use super::Shard;
use crate::cells::nanoseconds;
use crate::facts::{Extensions, HandshakeFacts, Timing};
use crate::labels::{Direction, HandshakePart, LastResponse, LookupWait, Signer, TicketOutcome};

/// The group of a session of TLS 1.2 that is resumed.
const NO_GROUP: &str = "none";

impl Shard {
    /// Counts a successful handshake; `after` is the last response to the same client before.
    pub fn handshake_done(&self, facts: &HandshakeFacts, timing: &Timing, after: LastResponse) {
        self.expect_own_thread();
        self.handshakes.add(*facts);
        if facts.resumed {
            self.resumed_handshake_time.observe(timing.total());
        } else {
            self.full_handshake_time.observe(timing.total());
        }
        let parts = &self.handshake_parts[Signer::named(facts.certificate) as usize];
        parts[HandshakePart::Waiting as usize].observe(timing.waiting);
        parts[HandshakePart::Queued as usize].observe(timing.queued);
        parts[HandshakePart::Signing as usize].observe(timing.signing);
        if !timing.signing_remote.is_zero() {
            parts[HandshakePart::SigningRemote as usize].observe(timing.signing_remote);
        }
        parts[HandshakePart::KeyExchange as usize].observe(timing.key_exchange);
        parts[HandshakePart::Rest as usize].observe(timing.rest);
        if !timing.signature.is_empty() {
            let part = if timing.signing_remote.is_zero() {
                HandshakePart::Signing
            } else {
                HandshakePart::SigningRemote
            };
            self.handshake_algorithm(part, timing.signature, timing.signing + timing.signing_remote);
        }
        if facts.group != NO_GROUP {
            self.handshake_algorithm(HandshakePart::KeyExchange, facts.group, timing.key_exchange);
        }
        self.handshakes_after[after as usize][usize::from(facts.resumed)].add(1);
    }

    fn handshake_algorithm(&self, part: HandshakePart, algorithm: &'static str, spent: Duration) {
        self.handshake_algorithms.add((part, algorithm));
        self.handshake_algorithm_time.add_many((part, algorithm), nanoseconds(spent));
    }

    /// Counts a failed handshake; `reason` is a short name.
    pub fn handshake_failed(&self, reason: &'static str) {
        self.expect_own_thread();
        self.handshake_failures.add(reason);
    }

    /// Counts a handshake that waited for a permit to sign.
    pub fn handshake_queued(&self) {
        self.expect_own_thread();
        self.handshakes_queued.add(1);
    }

    /// Counts a HelloRetryRequest: the client had to send a second ClientHello.
    pub fn hello_retried(&self) {
        self.expect_own_thread();
        self.hellos_retried.add(1);
    }

    /// Counts a handshake that waited for a session from a store outside this process.
    pub fn waited_for_session(&self, wait: LookupWait) {
        self.expect_own_thread();
        self.session_waits[wait as usize].add(1);
    }

    /// Counts a handshake with early data: `accepted`, `delayed` or `rejected`, and the reason, or `none`.
    pub fn early_data(&self, outcome: &'static str, reason: &'static str) {
        self.expect_own_thread();
        self.early_data.add((outcome, reason));
    }

    /// Counts a request that arrived as early data, by outcome.
    pub fn early_request(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.early_requests.add(outcome);
    }

    /// Counts the tickets of a successful handshake: the number issued, and the outcome of the offered one.
    pub fn tickets(&self, issued: u64, offered: Option<TicketOutcome>) {
        self.expect_own_thread();
        self.tickets_issued.add(issued);
        if let Some(outcome) = offered {
            self.tickets_offered[outcome as usize].add(1);
        }
    }

    /// Counts the extensions of a successful handshake. A resumed one sends no certificate and no staple.
    pub fn extensions(&self, facts: &Extensions, resumed: bool) {
        self.expect_own_thread();
        self.encrypted_hellos[facts.encrypted_hello as usize].add(1);
        if !resumed {
            self.staples[facts.staple as usize].add(1);
            self.certificates_sent[facts.compression as usize].add(1);
        }
    }

    /// Counts a TLS alert; `alert` is its name in RFC 8446 section 6, such as `close_notify`.
    pub fn alert(&self, direction: Direction, alert: &'static str) {
        self.expect_own_thread();
        self.alerts.add((direction, alert));
    }

    /// Counts a TLS 1.3 KeyUpdate from a client.
    pub fn key_update(&self) {
        self.expect_own_thread();
        self.key_updates.add(1);
    }
}
