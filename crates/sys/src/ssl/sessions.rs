//! Sessions of TLS 1.2 that somebody else keeps, under identifiers that the library makes (RFC 5246 §7.3).

use std::ptr;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::ssl::{
    GetSessionPendingError, SslContextBuilder, SslRef, SslSession, SslSessionCacheMode, SslSessionRef,
};
use boring_sys as ffi;
use foreign_types::{ForeignType, ForeignTypeRef};

use crate::traffic::Secret;

/// Who keeps sessions. Asked by the library in the middle of a handshake.
pub trait Sessions: Send + Sync + 'static {
    /// The session that a client offers to resume.
    fn find(&self, connection: &SslRef, id: &[u8]) -> Found;
    /// Takes a new session in.
    fn keep(&self, connection: &SslRef, id: &[u8], session: Secret);
}

/// What is known of a session.
#[derive(Debug)]
pub enum Found {
    /// The bytes that [`Sessions::keep`] was given.
    Session(Secret),
    /// There is none: the handshake goes on as a full one.
    Nothing,
    /// Not known yet: the handshake stops with `PENDING_SESSION`, and asks again when it goes on.
    Pending,
}

/// Has the connections of this context make session identifiers for clients without tickets.
pub fn set_sessions(builder: &mut SslContextBuilder, sessions: Arc<dyn Sessions>) {
    // The library's own cache has one lock and no bound in bytes.
    let mode = SslSessionCacheMode::SERVER | SslSessionCacheMode::NO_INTERNAL;
    builder.set_session_cache_mode(mode | SslSessionCacheMode::NO_AUTO_CLEAR);
    let keeper = Arc::clone(&sessions);
    builder.set_new_session_callback(move |ssl, session| {
        if let Some(bytes) = serialize(&session, Form::Unnamed) {
            keeper.keep(ssl, session.id(), bytes);
        }
    });
    let find = move |ssl: &mut SslRef, id: &[u8]| match sessions.find(ssl, id) {
        Found::Session(bytes) => Ok(from_bytes(ssl, bytes.expose())),
        Found::Nothing => Ok(None),
        Found::Pending => Err(GetSessionPendingError),
    };
    // SAFETY: the sessions that `find` returns are made for the context of the connection that asks.
    unsafe { builder.set_get_session_callback(find) };
}

/// How much of a session is written down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Everything.
    Whole,
    /// All but the identifier, which whoever keeps the session knows.
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
    // SAFETY: on success `data` points to `length` bytes that nobody else knows.
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
        // What is left in the queue would be taken for an error of the handshake.
        drop(ErrorStack::get());
        return None;
    }
    // SAFETY: a session that is not null is new, and ours.
    Some(unsafe { SslSession::from_ptr(session) })
}
