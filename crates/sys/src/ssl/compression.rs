//! Compressed Certificate messages (RFC 8879), by a compressor that sees the whole message and may remember it.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{SslContext, SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use super::notes::notes;

/// Compresses Certificate messages.
pub trait CertificateCompressor: Send + Sync + 'static {
    /// The message compressed by the algorithm of this number (RFC 8879 §7.3); `None` ends the handshake.
    fn compress(&self, algorithm: u16, message: &[u8]) -> Option<Arc<[u8]>>;
}

type SharedCompressor = Arc<dyn CertificateCompressor>;

fn index() -> Option<Index<SslContext, SharedCompressor>> {
    static INDEX: OnceLock<Option<Index<SslContext, SharedCompressor>>> = OnceLock::new();
    *INDEX.get_or_init(|| SslContext::new_ex_index().ok())
}

/// zlib, by its number in RFC 8879 §7.3.
pub const ZLIB: u16 = 1;
/// Brotli.
pub const BROTLI: u16 = 2;
/// Zstandard.
pub const ZSTD: u16 = 3;

/// Has the context compress its certificates for clients that offer one of these algorithms; the first ones are
/// preferred. Other numbers than the three above are passed over.
///
/// # Errors
/// When an algorithm is named twice.
pub fn set_certificate_compression(
    builder: &mut SslContextBuilder,
    algorithms: &[u16],
    compressor: SharedCompressor,
) -> Result<(), ErrorStack> {
    let Some(index) = index() else { return Ok(()) };
    builder.set_ex_data(index, compressor);
    for &algorithm in algorithms {
        let callback: ffi::ssl_cert_compression_func_t = match algorithm {
            ZLIB => Some(on_compress::<ZLIB>),
            BROTLI => Some(on_compress::<BROTLI>),
            ZSTD => Some(on_compress::<ZSTD>),
            _ => continue,
        };
        // SAFETY: the context is live, and `on_compress` matches the prototype and never unwinds.
        let done =
            unsafe { ffi::SSL_CTX_add_cert_compression_alg(builder.as_ptr(), algorithm, callback, None) };
        if done != 1 {
            return Err(ErrorStack::get());
        }
    }
    Ok(())
}

extern "C" fn on_compress<const ALGORITHM: u16>(
    ssl: *mut ffi::SSL,
    out: *mut ffi::CBB,
    message: *const u8,
    length: usize,
) -> c_int {
    if ssl.is_null() || out.is_null() || message.is_null() {
        return 0;
    }
    // SAFETY: the library passes the live connection it is working on.
    let ssl = unsafe { SslRef::from_ptr(ssl) };
    // SAFETY: the library passes a message of `length` bytes that stays valid during the callback.
    let message = unsafe { std::slice::from_raw_parts(message, length) };
    let compressor = index().and_then(|index| ssl.ssl_context().ex_data(index));
    let Some(compressed) = compressor.and_then(|kept| kept.compress(ALGORITHM, message)) else { return 0 };
    if let Some(notes) = notes(ssl) {
        notes.set_compression(ALGORITHM);
    }
    // SAFETY: `out` is the builder that the library passed to be filled; the bytes are copied.
    unsafe { ffi::CBB_add_bytes(out, compressed.as_ptr(), compressed.len()) }
}
