//! The secret that TLS 1.3 sends with, which the library tells to C++ programs only.

use boring::ssl::SslRef;
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use crate::secret::Secret;

/// A `bssl::Span<const uint8_t>`: two words in every version of the library that has this function.
#[repr(C)]
struct Span {
    start: *const u8,
    length: usize,
}

unsafe extern "C" {
    // `bool bssl::SSL_get_traffic_secrets(const SSL *, Span<const uint8_t> *, Span<const uint8_t> *)` under the name
    // that the C++ ABI of 64-bit Linux gives it. The name contains the types: if they change, the program does not
    // link. The other way to the secret, the key log, has four secrets written out in hexadecimal for each connection.
    #[link_name = "_ZN4bssl23SSL_get_traffic_secretsEPK6ssl_stPNS_4SpanIKhLm18446744073709551615EEES6_"]
    fn ssl_get_traffic_secrets(ssl: *const ffi::SSL, read: *mut Span, write: *mut Span) -> bool;
}

/// The secret of the TLS 1.3 records that this side sends (RFC 8446 §7.1); `None` before the end of the handshake
/// and in other versions.
pub fn write_secret(ssl: &SslRef) -> Option<Secret> {
    let mut read = Span { start: std::ptr::null(), length: 0 };
    let mut write = Span { start: std::ptr::null(), length: 0 };
    // SAFETY: the connection is live, and both spans are valid for writes; the call keeps no pointer to them.
    let known = unsafe { ssl_get_traffic_secrets(ssl.as_ptr(), &raw mut read, &raw mut write) };
    if !known || write.start.is_null() {
        return None;
    }
    // SAFETY: the library points at that many bytes of the connection, which nothing changes while it is borrowed.
    Some(Secret::new(unsafe { std::slice::from_raw_parts(write.start, write.length) }.to_vec()))
}
