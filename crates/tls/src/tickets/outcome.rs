//! Outcome of an offered ticket.

use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::{SslRef, SslSession};
use penstock_metrics::TicketOutcome;
use penstock_sys::ssl::{self, TicketKey, TicketKeyLookup, TicketNotes};

/// The use of tickets in a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketFacts {
    /// Outcome of the offered ticket; `None` if the client offered none.
    pub offered: Option<TicketOutcome>,
    /// Tickets made for the client.
    pub issued: u32,
}

/// The use of tickets in a finished handshake.
pub(crate) fn facts_of(ssl: &SslRef, now: SystemTime) -> TicketFacts {
    let Some(notes) = ssl::notes(ssl).map(ssl::Notes::tickets) else { return TicketFacts::default() };
    TicketFacts { offered: outcome(notes, ssl.session_reused(), now), issued: notes.issued() }
}

fn outcome(notes: &TicketNotes, resumed: bool, now: SystemTime) -> Option<TicketOutcome> {
    let lookup = notes.take_lookup();
    let ticket = notes.take_offered();
    match lookup {
        Some(TicketKeyLookup::Unknown) => Some(TicketOutcome::UnknownKey),
        Some(TicketKeyLookup::Found(found)) if resumed && found.is_old => Some(TicketOutcome::AcceptedOld),
        Some(TicketKeyLookup::Found(_)) if resumed => Some(TicketOutcome::AcceptedCurrent),
        Some(TicketKeyLookup::Found(found)) => {
            Some(why_refused(&found.key, &ticket.unwrap_or_default(), now))
        }
        // The library looks up no key for a ticket that is too short.
        None if ticket.as_ref().is_some_and(|ticket| ticket.len() < SHORTEST_BYTES) => {
            Some(TicketOutcome::Forged)
        }
        None => ticket.map(|_| TicketOutcome::Unsuitable),
    }
}

/// Key name and the longest initialisation vector that the library supports.
const SHORTEST_BYTES: usize = 16 + 16;

fn why_refused(key: &TicketKey, ticket: &[u8], now: SystemTime) -> TicketOutcome {
    if !ticket.starts_with(key.name()) {
        // A second ticket, offered for another version than the one that the library looked at.
        return TicketOutcome::Unsuitable;
    }
    let Some(content) = key.open(ticket) else { return TicketOutcome::Forged };
    let Ok(session) = SslSession::from_der(content.expose()) else { return TicketOutcome::OtherSoftware };
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if session.time() > now {
        TicketOutcome::NotYetValid
    } else if now - session.time() >= u64::from(session.timeout()) {
        TicketOutcome::Expired
    } else {
        TicketOutcome::Unsuitable
    }
}
