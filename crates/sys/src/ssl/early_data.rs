//! Early data (0-RTT, RFC 8446 §2.3) as the server sees it.

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// Bytes of early data that the library announces in its tickets and accepts.
pub const EARLY_DATA_BYTES_MAX: usize = 14_336;

/// Why early data was accepted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyDataReason {
    /// It was accepted.
    Accepted,
    /// The context does not accept any.
    Disabled,
    /// The version has none.
    ProtocolVersion,
    /// The session was not resumed: its ticket is unknown, too old or of another kind.
    SessionNotResumed,
    /// The ticket does not allow it.
    UnsupportedForSession,
    /// The client has to send a second ClientHello.
    HelloRetryRequest,
    /// Another application protocol was agreed on.
    Alpn,
    /// The age of the ticket deviates: the data is late, early or a replay.
    TicketAgeSkew,
    /// Any other reason, for example that none was offered.
    Other,
}

/// Makes the context accept early data and announce it in tickets.
pub fn take_early_data(builder: &mut SslContextBuilder) {
    // SAFETY: the context is live; the call only sets a flag.
    unsafe { ffi::SSL_CTX_set_early_data_enabled(builder.as_ptr(), 1) };
}

/// Names what a client of QUIC remembers for its early data. Early data comes only with a ticket of the same name.
///
/// # Errors
/// The library has no memory.
pub fn set_quic_early_data_context(ssl: &mut SslRef, name: &[u8]) -> Result<(), ErrorStack> {
    // SAFETY: the connection is live, and the library copies as many bytes as `name` has.
    match unsafe { ffi::SSL_set_quic_early_data_context(ssl.as_ptr(), name.as_ptr(), name.len()) } {
        1 => Ok(()),
        _ => Err(ErrorStack::get()),
    }
}

/// Whether early data was accepted and the handshake is not over yet.
pub fn in_early_data(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_in_early_data(ssl.as_ptr()) == 1 }
}

/// Why early data was accepted or not.
pub fn early_data_reason(ssl: &SslRef) -> EarlyDataReason {
    // SAFETY: the connection is live; the call only reads.
    let reason = unsafe { ffi::SSL_get_early_data_reason(ssl.as_ptr()) };
    match reason {
        ffi::ssl_early_data_reason_t::ssl_early_data_accepted => EarlyDataReason::Accepted,
        ffi::ssl_early_data_reason_t::ssl_early_data_disabled => EarlyDataReason::Disabled,
        ffi::ssl_early_data_reason_t::ssl_early_data_protocol_version => EarlyDataReason::ProtocolVersion,
        ffi::ssl_early_data_reason_t::ssl_early_data_session_not_resumed => {
            EarlyDataReason::SessionNotResumed
        }
        ffi::ssl_early_data_reason_t::ssl_early_data_unsupported_for_session => {
            EarlyDataReason::UnsupportedForSession
        }
        ffi::ssl_early_data_reason_t::ssl_early_data_hello_retry_request => {
            EarlyDataReason::HelloRetryRequest
        }
        ffi::ssl_early_data_reason_t::ssl_early_data_alpn_mismatch => EarlyDataReason::Alpn,
        ffi::ssl_early_data_reason_t::ssl_early_data_ticket_age_skew => EarlyDataReason::TicketAgeSkew,
        _ => EarlyDataReason::Other,
    }
}

/// Age of the ticket according to the client minus that of the server, in seconds.
pub fn ticket_age_skew(ssl: &SslRef) -> i32 {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_get_ticket_age_skew(ssl.as_ptr()) }
}
