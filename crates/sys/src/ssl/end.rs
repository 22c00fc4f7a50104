//! The end of a TLS connection.

use boring::ssl::SslRef;
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// Whether the peer has ended its side with close_notify (RFC 8446 §6.1), and not with a bare FIN.
pub fn has_received_close_notify(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call reads two flags.
    let flags = unsafe { ffi::SSL_get_shutdown(ssl.as_ptr()) };
    flags & ffi::SSL_RECEIVED_SHUTDOWN != 0
}
