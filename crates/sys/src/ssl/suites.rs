//! Cipher suites and signature schemes in order of preference.

use std::ffi::CStr;
use std::ptr;

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef, SslSignatureAlgorithm};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

/// Sets the TLS 1.3 suites of one connection, by their numbers in the IANA registry, in order of preference.
///
/// # Errors
/// When a suite is unknown to the library.
pub fn set_tls13_suites(ssl: &mut SslRef, suites: &[u16]) -> Result<(), ErrorStack> {
    // SAFETY: the array holds `suites.len()` numbers and is copied; null means that no two are equal.
    let done =
        unsafe { ffi::SSL_set1_tls13_ciphers(ssl.as_ptr(), suites.as_ptr(), ptr::null(), suites.len()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// The same for all connections of a context.
///
/// # Errors
/// When a suite is unknown to the library.
pub fn set_tls13_suites_of_context(
    builder: &mut SslContextBuilder,
    suites: &[u16],
) -> Result<(), ErrorStack> {
    // SAFETY: the array holds `suites.len()` numbers and is copied; null means that no two are equal.
    let done = unsafe {
        ffi::SSL_CTX_set1_tls13_ciphers(builder.as_ptr(), suites.as_ptr(), ptr::null(), suites.len())
    };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Sets the TLS 1.2 suites of one connection in order of preference, in OpenSSL's syntax.
///
/// # Errors
/// When a suite is unknown to the library.
pub fn set_tls12_suites(ssl: &mut SslRef, suites: &CStr) -> Result<(), ErrorStack> {
    // SAFETY: the connection is live and the string ends with NUL; the library copies what it needs.
    let done = unsafe { ffi::SSL_set_strict_cipher_list(ssl.as_ptr(), suites.as_ptr()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// The same for all connections of a context.
///
/// # Errors
/// When a suite is unknown to the library.
pub fn set_tls12_suites_of_context(builder: &mut SslContextBuilder, suites: &CStr) -> Result<(), ErrorStack> {
    // SAFETY: the context is live and the string ends with NUL; the library copies what it needs.
    let done = unsafe { ffi::SSL_CTX_set_strict_cipher_list(builder.as_ptr(), suites.as_ptr()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Sets the signature schemes of the certificate of this context, best first.
///
/// # Errors
/// When the context has no certificate yet, or memory is short.
pub fn set_signing_preferences(
    builder: &mut SslContextBuilder,
    signatures: &[SslSignatureAlgorithm],
) -> Result<(), ErrorStack> {
    let numbers = signatures.as_ptr().cast::<u16>();
    // SAFETY: the type is a transparent wrapper of its number, and the array of `signatures.len()` of them is copied.
    let done =
        unsafe { ffi::SSL_CTX_set_signing_algorithm_prefs(builder.as_ptr(), numbers, signatures.len()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Whether the suite is an AEAD: the suite that this handshake is about to agree on, or has agreed on.
pub fn has_aead_cipher(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call reads.
    let pending = unsafe { ffi::SSL_get_pending_cipher(ssl.as_ptr()) };
    let cipher = if pending.is_null() {
        // SAFETY: the connection is live; the call reads.
        unsafe { ffi::SSL_get_current_cipher(ssl.as_ptr()) }
    } else {
        pending
    };
    // SAFETY: ciphers are constants of the library.
    !cipher.is_null() && unsafe { ffi::SSL_CIPHER_is_aead(cipher) } == 1
}
