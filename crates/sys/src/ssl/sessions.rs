//! TLS 1.2 sessions in an external cache, under identifiers that the library makes (RFC 5246 §7.3).

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use boring::error::ErrorStack;
use boring::ssl::{
    GetSessionPendingError, SslContextBuilder, SslRef, SslSession, SslSessionCacheMode, SslSessionRef,
};
use boring_sys as ffi;
use foreign_types::{ForeignType, ForeignTypeRef};

use crate::secret::Secret;

/// An external session cache. The library calls it during handshakes.
pub trait SessionCallbacks: Send + Sync + 'static {
    /// The session that a client offers to resume.
    fn find(&self, connection: &SslRef, id: &[u8]) -> SessionAnswer;
    /// Stores a new session.
    fn insert(&self, connection: &SslRef, id: &[u8], session: Secret);
}

/// Result of a lookup.
#[derive(Debug)]
pub enum SessionAnswer {
    /// The bytes that [`SessionCallbacks::insert`] was given.
    Session(Secret),
    /// There is no such session: the handshake continues as a full one.
    Nothing,
    /// Not known yet: the handshake stops with `PENDING_SESSION` and repeats the lookup when it continues.
    Pending,
}

/// Makes the context issue session identifiers to clients without tickets.
pub fn set_session_callbacks(builder: &mut SslContextBuilder, sessions: Arc<dyn SessionCallbacks>) {
    // The library's own cache has one lock and no bound in bytes.
    let mode = SslSessionCacheMode::SERVER | SslSessionCacheMode::NO_INTERNAL;
    builder.set_session_cache_mode(mode | SslSessionCacheMode::NO_AUTO_CLEAR);
    let store = Arc::clone(&sessions);
    builder.set_new_session_callback(move |ssl, session| {
        if let Some(bytes) = serialize(&session, Form::Unnamed) {
            store.insert(ssl, session.id(), bytes);
        }
    });
    let find = move |ssl: &mut SslRef, id: &[u8]| match sessions.find(ssl, id) {
        SessionAnswer::Session(bytes) => Ok(from_bytes(ssl, bytes.expose())),
        SessionAnswer::Nothing => Ok(None),
        SessionAnswer::Pending => Err(GetSessionPendingError),
    };
    // SAFETY: the sessions that `find` returns are made for the context of the connection that asks.
    unsafe { builder.set_get_session_callback(find) };
}

/// Ends the session that is being negotiated after `remaining` at the latest, renewals included.
pub fn shorten_session(ssl: &SslRef, remaining: Duration) {
    // Renewals end so long after the full handshake anyway: SSL_DEFAULT_SESSION_AUTH_TIMEOUT.
    const RENEWALS_END: Duration = Duration::from_secs(7 * 24 * 3600);
    let Some(session) = ssl.session().filter(|_| remaining < RENEWALS_END) else { return };
    let seconds = u32::try_from(remaining.as_secs()).unwrap_or(u32::MAX).min(session.timeout());
    // SAFETY: the session is live, and only the connection that negotiates it uses it yet.
    unsafe { ffi::SSL_SESSION_set_timeout(session.as_ptr(), seconds) };
}

/// How much of a session is written down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Everything.
    Whole,
    /// All but the identifier, which the cache knows.
    Unnamed,
}

pub(super) fn serialize(session: &SslSessionRef, form: Form) -> Option<Secret> {
    let serialize = match form {
        Form::Whole => ffi::SSL_SESSION_to_bytes,
        Form::Unnamed => ffi::SSL_SESSION_to_bytes_for_ticket,
    };
    let mut data = ptr::null_mut();
    let mut length = 0;
    // SAFETY: the session is live, and the library sets both pointers when it reports success.
    let done = unsafe { serialize(session.as_ptr(), &mut data, &mut length) };
    if done != 1 || data.is_null() {
        return None;
    }
    // SAFETY: on success `data` points to `length` bytes that no other code references.
    let bytes = Secret::new(unsafe { std::slice::from_raw_parts(data, length) }.to_vec());
    // SAFETY: the library allocated `data` for us to free; it wipes what it frees.
    unsafe { ffi::OPENSSL_free(data.cast()) };
    Some(bytes)
}

/// A session for the context of this connection.
pub(super) fn from_bytes(ssl: &SslRef, bytes: &[u8]) -> Option<SslSession> {
    // SAFETY: the connection is live; the call only reads.
    let context = unsafe { ffi::SSL_get_SSL_CTX(ssl.as_ptr()) };
    // SAFETY: the bytes are only read, and the context lives as long as its connection.
    let session = unsafe { ffi::SSL_SESSION_from_bytes(bytes.as_ptr(), bytes.len(), context) };
    if session.is_null() {
        // An error left in the queue would look like one of the handshake.
        drop(ErrorStack::get());
        return None;
    }
    // SAFETY: a session that is not null is new, and ours.
    Some(unsafe { SslSession::from_ptr(session) })
}
