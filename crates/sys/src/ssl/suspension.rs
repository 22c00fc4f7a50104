//! What a suspended handshake waits for, of connections whose transport hides the library's error codes.

use boring::ssl::{ErrorCode, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// What the last call of the library waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// Bytes of the peer, or nothing.
    Peer,
    /// The choice of a certificate.
    Certificate,
    /// An operation with a private key.
    PrivateKey,
    /// A session.
    Session,
}

/// Why the last call of the library has not finished the handshake.
pub fn suspension(ssl: &SslRef) -> Suspension {
    // SAFETY: the connection is live; the call only reads a field.
    match ErrorCode::from_raw(unsafe { ffi::SSL_want(ssl.as_ptr()) }) {
        ErrorCode::PENDING_CERTIFICATE => Suspension::Certificate,
        ErrorCode::WANT_PRIVATE_KEY_OPERATION => Suspension::PrivateKey,
        ErrorCode::PENDING_SESSION => Suspension::Session,
        _ => Suspension::Peer,
    }
}

/// Whether this connection belongs to QUIC.
pub fn is_quic(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads a field.
    unsafe { ffi::SSL_is_quic(ssl.as_ptr()) != 0 }
}
