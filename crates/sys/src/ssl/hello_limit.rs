//! Limit on the size of a ClientHello.
//!
//! BoringSSL accepts handshake messages of 16 KiB, or of the limit for certificate chains while it may expect a client's
//! certificate. So a connection that reads a ClientHello looks as if it verified its client.

use boring::ssl::{SslRef, SslVerifyMode};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use super::notes::{Notes, notes};

/// Accepts ClientHellos of up to `bytes`; a smaller limit than 16 KiB has no effect. Needs
/// [`attach_notes`](super::attach_notes) before. [`end_client_hello`] ends it.
pub fn begin_client_hello(ssl: &mut SslRef, bytes: usize) {
    if let Some(notes) = notes(ssl) {
        notes.set_hello_bytes_max(bytes);
    }
    raise(ssl, bytes);
}

/// Restores the limits and the verification of the context, after a ClientHello.
pub fn end_client_hello(ssl: &mut SslRef) {
    let mode = ssl.ssl_context().verify_mode();
    ssl.set_verify(mode);
    // SAFETY: the context is live; the call only reads.
    let chain_bytes = unsafe { ffi::SSL_CTX_get_max_cert_list(ssl.ssl_context().as_ptr()) };
    // SAFETY: the connection is live; the call stores a number.
    unsafe { ffi::SSL_set_max_cert_list(ssl.as_ptr(), chain_bytes) };
}

/// Raises the limit again for the second ClientHello after a HelloRetryRequest.
pub(super) fn begin_second_client_hello(ssl: &mut SslRef) {
    if let Some(bytes) = notes(ssl).and_then(Notes::hello_bytes_max) {
        raise(ssl, bytes);
    }
}

fn raise(ssl: &mut SslRef, bytes: usize) {
    ssl.set_verify(ssl.verify_mode() | SslVerifyMode::PEER);
    // SAFETY: the connection is live; the call stores a number.
    unsafe { ffi::SSL_set_max_cert_list(ssl.as_ptr(), bytes) };
}
