//! Early data (0-RTT, RFC 8446 §2.3).
//!
//! The library decides first; the client repeats what it rejects. Accepted early data may be a replay, because only a
//! finished handshake authenticates the client. Early data that could be a replay is therefore delayed until the
//! handshake is finished (RFC 8470 §3); the handshake of a replay never finishes.

use std::fmt;
use std::future::Future;
use std::hash::RandomState;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use boring::ssl::SslRef;
use penstock_sys::ssl::{self, EarlyDataReason};

use crate::strikes::{StrikeRegister, StrikeResult};

/// A strike register outside this process, which several edges share.
pub trait SharedStrikes: Send + Sync + 'static {
    /// Records the random number of a ClientHello and judges it. `claimed` is the time that it claims, in seconds since
    /// 1970: now and the deviation of its ticket age. Bounded in time.
    fn strike(
        self: Arc<Self>,
        client_random: &[u8],
        claimed: u64,
    ) -> Pin<Box<dyn Future<Output = StrikeResult> + Send>>;
}

/// Policy for early data.
#[derive(Clone)]
pub enum EarlyDataPolicy {
    /// Replays are accepted.
    AcceptReplays,
    /// Replays are detected if they come to this process.
    Register(Arc<StrikeRegister<RandomState>>),
    /// Replays are detected if they come to any edge.
    Shared(Arc<dyn SharedStrikes>),
}

impl fmt::Debug for EarlyDataPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcceptReplays => "AcceptReplays",
            Self::Register(_) => "Register",
            Self::Shared(_) => "Shared",
        })
    }
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
pub(crate) async fn outcome(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyDataOutcome {
    if !ssl::notes(connection).is_some_and(ssl::Notes::early_data_offered) {
        return EarlyDataOutcome::None;
    }
    EarlyDataOutcome::Rejected(match ssl::early_data_reason(connection) {
        EarlyDataReason::Accepted => return judge(connection, policy).await,
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

async fn judge(connection: &SslRef, policy: Option<&EarlyDataPolicy>) -> EarlyDataOutcome {
    // The binder, which the library has checked, covers this number: a copy of the hello cannot carry another one.
    let mut random = [0; 32];
    let length = connection.client_random(&mut random);
    let (random, skew) = (&random[..length], ssl::ticket_age_skew(connection));
    // The clock that the library reads for the ages of tickets.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let result = match policy {
        None | Some(EarlyDataPolicy::AcceptReplays) => StrikeResult::Fresh,
        Some(EarlyDataPolicy::Register(register)) => register.strike(random, skew, now),
        Some(EarlyDataPolicy::Shared(shared)) => {
            Arc::clone(shared).strike(random, now.saturating_add_signed(i64::from(skew))).await
        }
    };
    match result {
        StrikeResult::Fresh => EarlyDataOutcome::Accepted,
        StrikeResult::Replayed => EarlyDataOutcome::Delayed("replayed"),
        StrikeResult::BeforeStart => EarlyDataOutcome::Delayed("before_start"),
        StrikeResult::Full => EarlyDataOutcome::Delayed("register_full"),
        StrikeResult::ClockSetBack => EarlyDataOutcome::Delayed("clock_set_back"),
        StrikeResult::NoAnswer => EarlyDataOutcome::Delayed("no_answer"),
    }
}
