//! Early data (0-RTT, RFC 8446 §2.3).
//!
//! The library decides first; the client repeats what it rejects. Accepted early data may be a replay, because only a
//! finished handshake authenticates the client. Early data that could be a replay is therefore delayed until the
//! handshake is finished (RFC 8470 §3); the handshake of a replay never finishes.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::SslRef;
use penstock_sys::ssl::{self, EarlyDataReason};

use crate::strikes::{StrikeRegister, StrikeResult};

/// Policy for early data.
#[derive(Clone, Debug)]
pub struct EarlyDataPolicy {
    /// Detects replays; `None` accepts them.
    pub strikes: Option<Arc<StrikeRegister<RandomState>>>,
}

/// Outcome of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyDataOutcome {
    /// The client sent none.
    None,
    /// Rejected for this reason; the client repeats the data after the handshake.
    Rejected(&'static str),
    /// Processed after the end of the handshake only, for this reason.
    Delayed(&'static str),
    /// Processed at once.
    Accepted,
}

/// The outcome at the end of the server's handshake.
pub(crate) fn outcome(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyDataOutcome {
    if !ssl::notes(connection).is_some_and(ssl::Notes::early_data_offered) {
        return EarlyDataOutcome::None;
    }
    EarlyDataOutcome::Rejected(match ssl::early_data_reason(connection) {
        EarlyDataReason::Accepted => return judge(connection, policy),
        EarlyDataReason::Disabled => "off",
        EarlyDataReason::ProtocolVersion => "version",
        EarlyDataReason::SessionNotResumed => "not_resumed",
        EarlyDataReason::UnsupportedForSession => "ticket_without",
        EarlyDataReason::HelloRetryRequest => "hello_retry",
        EarlyDataReason::Alpn => "alpn",
        EarlyDataReason::TicketAgeSkew => "ticket_age",
        EarlyDataReason::Other => "other",
    })
}

fn judge(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyDataOutcome {
    let Some(register) = policy.and_then(|policy| policy.strikes.as_ref()) else {
        return EarlyDataOutcome::Accepted;
    };
    // The binder, which the library has checked, covers this number: a copy of the hello cannot carry another one.
    let mut random = [0; 32];
    let length = connection.client_random(&mut random);
    // The clock that the library reads for the ages of tickets.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match register.strike(&random[..length], ssl::ticket_age_skew(connection), now) {
        StrikeResult::Fresh => EarlyDataOutcome::Accepted,
        StrikeResult::Replayed => EarlyDataOutcome::Delayed("replayed"),
        StrikeResult::BeforeStart => EarlyDataOutcome::Delayed("before_start"),
        StrikeResult::Full => EarlyDataOutcome::Delayed("register_full"),
        StrikeResult::ClockSetBack => EarlyDataOutcome::Delayed("clock_set_back"),
    }
}
