//! Resumption and early data of clients: for tests and the load generator.

use std::ptr;

use boring::error::ErrorStack;
use boring::ssl::{ErrorCode, SslRef, SslSession, SslSessionRef};
use boring_sys as ffi;
use foreign_types::{ForeignType, ForeignTypeRef};

use super::sessions::{Form, from_bytes, serialize};
use crate::secret::Secret;

/// Serializes a session for [`offer_session`].
pub fn session_bytes(session: &SslSessionRef) -> Option<Secret> {
    serialize(session, Form::Whole)
}

/// Offers to resume a session. Returns false if the bytes are not a session.
pub fn offer_session(ssl: &mut SslRef, bytes: &[u8]) -> bool {
    offer_older_session(ssl, bytes, 0)
}

/// Offers a session that was issued `seconds` earlier than it says.
pub fn offer_older_session(ssl: &mut SslRef, bytes: &[u8], seconds: u64) -> bool {
    let Some(session) = from_bytes(ssl, bytes) else { return false };
    // SAFETY: the session is live; the call only reads.
    let time = unsafe { ffi::SSL_SESSION_get_time(session.as_ptr()) };
    // SAFETY: the session is live and not shared yet.
    unsafe { ffi::SSL_SESSION_set_time(session.as_ptr(), time.saturating_sub(seconds)) };
    // SAFETY: the session was made for the context of this connection.
    unsafe { ssl.set_session(&session) }.is_ok()
}

/// Offers a session of another connection of this process.
///
/// # Errors
/// When the library cannot keep it.
pub fn offer_live_session(ssl: &mut SslRef, session: &SslSessionRef) -> Result<(), ErrorStack> {
    // SAFETY: BoringSSL binds a session to a kind of certificates, not to a context, and all contexts of the safe
    // wrapper keep X.509 ones; it takes a reference of its own.
    unsafe { ssl.set_session(session) }
}

/// Whether RFC 8446 §C.4 asks to offer the session only once, which is so for tickets of TLS 1.3.
pub fn is_single_use(session: &SslSessionRef) -> bool {
    // SAFETY: the session is live; the call only reads.
    unsafe { ffi::SSL_SESSION_should_be_single_use(session.as_ptr()) == 1 }
}

/// Whether the server allows early data with this session.
pub fn allows_early_data(session: &SslSessionRef) -> bool {
    // SAFETY: the session is live; the call only reads.
    unsafe { ffi::SSL_SESSION_early_data_capable(session.as_ptr()) == 1 }
}

/// Sends data written before the end of the handshake as early data (RFC 8446 §2.3), if the session allows it.
pub fn send_early_data(ssl: &mut SslRef) {
    // SAFETY: the connection is live; the call only sets a flag.
    unsafe { ffi::SSL_set_early_data_enabled(ssl.as_ptr(), 1) };
}

/// Whether data written now is sent as early data.
pub fn is_in_early_data(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_in_early_data(ssl.as_ptr()) == 1 }
}

/// Whether the server has taken the early data.
pub fn early_data_accepted(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_early_data_accepted(ssl.as_ptr()) == 1 }
}

/// Continues the handshake if a call has just failed because the server refused early data, which must then be written
/// again. Returns whether that was the failure.
pub fn recover_refused_early_data(ssl: &mut SslRef, failed: ErrorCode) -> bool {
    let refused = failed.as_raw() == ffi::SSL_ERROR_EARLY_DATA_REJECTED;
    if refused {
        // SAFETY: the connection is live and waits after this very refusal, which is what the library insists on.
        unsafe { ffi::SSL_reset_early_data_reject(ssl.as_ptr()) };
    }
    refused
}

/// The ticket of a session; empty if it has none.
pub fn ticket_of(session: &SslSessionRef) -> Vec<u8> {
    let (mut ticket, mut length) = (ptr::null(), 0);
    // SAFETY: the session is live, and both places are valid for the one write that each gets.
    unsafe { ffi::SSL_SESSION_get0_ticket(session.as_ptr(), &raw mut ticket, &raw mut length) };
    if ticket.is_null() {
        return Vec::new();
    }
    // SAFETY: the library returns the length of the session; its bytes are copied while it is borrowed.
    unsafe { std::slice::from_raw_parts(ticket, length) }.to_vec()
}

/// Copies a session with another ticket and another time of issue, in seconds since 1970: for tests of servers.
///
/// # Errors
/// When the library cannot copy the session.
pub fn with_ticket(session: &SslSessionRef, ticket: &[u8], time: u64) -> Result<SslSession, ErrorStack> {
    let copy = SslSession::from_der(&session.to_der()?)?;
    // SAFETY: the copy is not shared yet; the ticket is valid for its length and is copied.
    let set = unsafe { ffi::SSL_SESSION_set_ticket(copy.as_ptr(), ticket.as_ptr(), ticket.len()) };
    if set != 1 {
        return Err(ErrorStack::get());
    }
    // SAFETY: the copy is not shared yet; the call stores a number.
    unsafe { ffi::SSL_SESSION_set_time(copy.as_ptr(), time) };
    Ok(copy)
}
