//! What became of the ticket that a client offered.

use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::{SslRef, SslSession};
use penstock_sys::ssl::{self, Lookup, TicketKey, TicketNotes};

/// What a handshake did with tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketFacts {
    /// What became of the client's ticket; `None` if it offered none.
    pub offered: Option<TicketOutcome>,
    /// Tickets made for the client.
    pub issued: u32,
}

/// What became of the ticket that a client offered. All but the first two had a full handshake instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketOutcome {
    /// Accepted; its key is the one that seals, or one about to.
    AcceptedCurrent,
    /// Accepted; a newer key seals by now, so the client got a new ticket.
    AcceptedOld,
    /// No key of that name: dropped, deleted, or never here.
    UnknownKey,
    /// Older than a ticket may be.
    Expired,
    /// From the future: the clocks of the machines differ.
    NotYetValid,
    /// The name of a key of ours, but not made by it: cut, changed or forged.
    Forged,
    /// In order, but not for what this handshake agreed on: another version or cipher.
    Unsuitable,
}

impl TicketOutcome {
    /// Every outcome, in the order of its counters.
    pub const ALL: &[Self] = &[
        Self::AcceptedCurrent,
        Self::AcceptedOld,
        Self::UnknownKey,
        Self::Expired,
        Self::NotYetValid,
        Self::Forged,
        Self::Unsuitable,
    ];

    /// All labels, in the same order.
    pub const LABELS: &[&str] = &[
        "accepted_current_key",
        "accepted_old_key",
        "unknown_key",
        "expired",
        "not_yet_valid",
        "forged",
        "unsuitable",
    ];

    /// As the label of a metric.
    pub fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// What a finished handshake did with tickets.
pub(crate) fn facts_of(ssl: &SslRef, now: SystemTime) -> TicketFacts {
    let Some(notes) = ssl::notes(ssl).map(ssl::Notes::tickets) else { return TicketFacts::default() };
    TicketFacts { offered: outcome(notes, ssl.session_reused(), now), issued: notes.issued() }
}

fn outcome(notes: &TicketNotes, resumed: bool, now: SystemTime) -> Option<TicketOutcome> {
    let lookup = notes.take_lookup();
    let ticket = notes.take_offered();
    match lookup {
        Some(Lookup::Unknown) => Some(TicketOutcome::UnknownKey),
        Some(Lookup::Found(found)) if resumed && found.is_old => Some(TicketOutcome::AcceptedOld),
        Some(Lookup::Found(_)) if resumed => Some(TicketOutcome::AcceptedCurrent),
        Some(Lookup::Found(found)) => Some(why_refused(&found.key, &ticket.unwrap_or_default(), now)),
        // The library asks for no key if there are too few bytes for a ticket.
        None if ticket.as_ref().is_some_and(|ticket| ticket.len() < SHORTEST_BYTES) => {
            Some(TicketOutcome::Forged)
        }
        None => ticket.map(|_| TicketOutcome::Unsuitable),
    }
}

/// Name and the longest initialisation vector that the library knows of.
const SHORTEST_BYTES: usize = 16 + 16;

fn why_refused(key: &TicketKey, ticket: &[u8], now: SystemTime) -> TicketOutcome {
    if !ticket.starts_with(key.name()) {
        // Offered beside the one that the library looked at, for another version.
        return TicketOutcome::Unsuitable;
    }
    let Some(session) = key.open(ticket).and_then(|content| SslSession::from_der(content.expose()).ok())
    else {
        return TicketOutcome::Forged;
    };
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if session.time() > now {
        TicketOutcome::NotYetValid
    } else if now - session.time() >= u64::from(session.timeout()) {
        TicketOutcome::Expired
    } else {
        TicketOutcome::Unsuitable
    }
}
