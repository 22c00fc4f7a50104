//! Early data (0-RTT, RFC 8446 §2.3): what became of it in a handshake.
//!
//! The library decides first, and what it refuses the client sends again. What it takes may be a copy that somebody
//! else sends; only a handshake that is finished proves the client. So early data that could be a replay is not thrown
//! away but delayed: it counts as said when the handshake is finished (RFC 8470 §3), which a replay never is.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::SslRef;
use penstock_sys::ssl::{self, EarlyDataReason};

use crate::strikes::{StrikeRegister, Verdict};

/// How early data is taken.
#[derive(Clone, Debug)]
pub struct EarlyDataPolicy {
    /// Tells replays; `None` takes them for what they say they are.
    pub strikes: Option<Arc<StrikeRegister<RandomState>>>,
}

/// What became of a client's early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyData {
    /// There was none.
    None,
    /// It was thrown away, for this reason; the client sends it again.
    Rejected(&'static str),
    /// It may be acted upon only when the handshake is finished, for this reason.
    Delayed(&'static str),
    /// It may be acted upon at once.
    Accepted,
}

/// What became of the early data of a handshake that has come as far as this.
pub(crate) fn outcome(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyData {
    if !ssl::notes(connection).is_some_and(ssl::Notes::early_data_offered) {
        return EarlyData::None;
    }
    EarlyData::Rejected(match ssl::early_data_reason(connection) {
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

fn judge(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyData {
    let Some(register) = policy.and_then(|policy| policy.strikes.as_ref()) else {
        return EarlyData::Accepted;
    };
    // Proven by the binder, which the library has checked: nobody can send the rest again under another number.
    let mut random = [0; 32];
    let length = connection.client_random(&mut random);
    // The clock that the library reads for the ages of tickets.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match register.strike(&random[..length], ssl::ticket_age_skew(connection), now) {
        Verdict::Fresh => EarlyData::Accepted,
        Verdict::Replayed => EarlyData::Delayed("replayed"),
        Verdict::BeforeStart => EarlyData::Delayed("before_start"),
        Verdict::Full => EarlyData::Delayed("register_full"),
        Verdict::ClockSetBack => EarlyData::Delayed("clock_set_back"),
    }
}
