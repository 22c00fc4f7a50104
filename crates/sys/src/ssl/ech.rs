//! Encrypted ClientHello (RFC 9849): making the configuration that clients encrypt to.

use std::ffi::CStr;
use std::ptr;

use boring::error::ErrorStack;
use boring::hpke::HpkeKey;
use boring_sys as ffi;
use foreign_types::ForeignType;

/// The key of an X25519 secret.
///
/// # Errors
/// If it does not have 32 bytes.
pub fn x25519_key(secret: &[u8]) -> Result<HpkeKey, ErrorStack> {
    // The wrapper's name is misleading: the function makes X25519 keys.
    HpkeKey::dhkem_p256_sha256(secret)
}

/// An ECHConfig with the public half of this key.
///
/// # Errors
/// If the name is not a host name.
pub fn marshal_config(
    id: u8,
    key: &HpkeKey,
    public_name: &CStr,
    longest_name: usize,
) -> Result<Vec<u8>, ErrorStack> {
    let mut out = ptr::null_mut();
    let mut length = 0;
    // SAFETY: key and name are live, and the library sets `out` and `length` if it reports success.
    let done = unsafe {
        ffi::SSL_marshal_ech_config(
            &raw mut out,
            &raw mut length,
            id,
            key.as_ptr(),
            public_name.as_ptr(),
            longest_name,
        )
    };
    if done != 1 || out.is_null() {
        return Err(ErrorStack::get());
    }
    // SAFETY: the library made `out` with `length` bytes.
    let config = unsafe { std::slice::from_raw_parts(out, length) }.to_vec();
    // SAFETY: the buffer is ours to free, and is used no more.
    unsafe { ffi::OPENSSL_free(out.cast()) };
    Ok(config)
}
