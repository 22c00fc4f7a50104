//! What a client does to resume: for tests, and for whoever makes load.

use boring::ssl::{SslRef, SslSessionRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use super::sessions::{Form, from_bytes, serialize};
use crate::traffic::Secret;

/// All there is of a session, for [`offer_session`].
pub fn session_bytes(session: &SslSessionRef) -> Option<Secret> {
    serialize(session, Form::Whole)
}

/// Has a client offer to resume this session. False if the bytes are no session.
pub fn offer_session(ssl: &mut SslRef, bytes: &[u8]) -> bool {
    let Some(session) = from_bytes(ssl, bytes) else { return false };
    // SAFETY: the session was made for the context of this connection.
    unsafe { ssl.set_session(&session) }.is_ok()
}

/// Has a client send what it writes before the handshake is over as early data (RFC 8446 §2.3), if its session allows.
pub fn send_early_data(ssl: &mut SslRef) {
    // SAFETY: the connection is live; the call only sets a flag.
    unsafe { ffi::SSL_set_early_data_enabled(ssl.as_ptr(), 1) };
}

/// Whether the server has taken the early data.
pub fn early_data_accepted(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_early_data_accepted(ssl.as_ptr()) == 1 }
}
