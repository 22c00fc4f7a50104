//! Calls of BoringSSL that its safe wrapper does not offer. Policy is in the `tls` crate.

pub mod client;
mod compression;
mod early_data;
mod ech;
pub mod end;
mod hello_limit;
mod notes;
mod revocation;
mod secret;
mod sessions;
mod steps;
mod stopwatch;
mod suites;
mod suspension;
mod ticket_key;
mod tickets;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use notes::ALERT_PRESENT;

use crate::secret::Secret;

pub use compression::{BROTLI, CertificateCompressor, ZLIB, ZSTD, set_certificate_compression};
pub use early_data::{
    EARLY_DATA_BYTES_MAX, EarlyDataReason, early_data_reason, in_early_data, set_quic_early_data_context,
    take_early_data, ticket_age_skew,
};
pub use ech::{marshal_config, x25519_key};
pub use hello_limit::{begin_client_hello, end_client_hello};
pub use notes::{Notes, attach_notes, notes};
pub use revocation::{RevocationLists, moment, refuse_revoked};
pub use secret::write_secret;
pub use sessions::{SessionAnswer, SessionCallbacks, set_session_callbacks, shorten_session};
pub use steps::observe_steps;
pub use suites::{
    has_aead_cipher, set_signing_preferences, set_tls12_suites, set_tls12_suites_of_context,
    set_tls13_suites, set_tls13_suites_of_context,
};
pub use suspension::{Suspension, is_quic, suspension};
pub use ticket_key::{FoundKey, TICKET_NAME_BYTES, TicketKey, TicketKeyLookup, TicketKeys, TicketNotes};
pub use tickets::{set_session_lifetime, set_ticket_keys};

/// Records alerts and KeyUpdates in the [`Notes`] of the connections of this context.
pub fn observe_messages(builder: &mut SslContextBuilder) {
    // SAFETY: the context outlives the call, and `on_message` matches the prototype and never unwinds.
    unsafe { ffi::SSL_CTX_set_msg_callback(builder.as_ptr(), Some(on_message)) };
}

extern "C" fn on_message(
    is_write: c_int,
    _version: c_int,
    content_type: c_int,
    message: *const c_void,
    length: usize,
    ssl: *mut ffi::SSL,
    _arg: *mut c_void,
) {
    const ALERT: c_int = 21;
    const HANDSHAKE: c_int = 22;
    const CERTIFICATE_VERIFY: u8 = 15;
    const KEY_UPDATE: u8 = 24;
    if ssl.is_null() || message.is_null() || !matches!(content_type, ALERT | HANDSHAKE) {
        return;
    }
    // SAFETY: the library passes a message of `length` bytes that stays valid during the callback.
    let message = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length) };
    // SAFETY: the library passes the live connection it is working on.
    let ssl = unsafe { SslRef::from_ptr(ssl) };
    let Some(notes) = notes(ssl) else { return };
    match (content_type, message) {
        (ALERT, &[_level, number]) => {
            let side = if is_write == 0 { &notes.alert_received } else { &notes.alert_sent };
            side.store(ALERT_PRESENT | u16::from(number), Ordering::Relaxed);
        }
        // type, 24-bit length, update_requested
        (HANDSHAKE, &[KEY_UPDATE, _, _, _, requested]) if is_write == 0 => {
            notes.key_updates.fetch_add(1, Ordering::Relaxed);
            notes.key_update_requests.fetch_add(u32::from(requested == 1), Ordering::Relaxed);
        }
        // type, 24-bit length, scheme, signature
        (HANDSHAKE, &[CERTIFICATE_VERIFY, _, _, _, high, low, ..]) if is_write != 0 => {
            notes.signature_scheme.store(u16::from_be_bytes([high, low]), Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Lets the library free handshake state after the handshake.
pub fn shed_handshake_config(ssl: &mut SslRef) {
    // SAFETY: the connection is live; the call only sets a flag.
    unsafe { ffi::SSL_set_shed_handshake_config(ssl.as_ptr(), 1) };
}

/// Makes the library write the session tickets that it holds back until the first write. Returns false if the
/// transport did not take them at once.
pub fn flush_tickets(ssl: &mut SslRef) -> bool {
    // SAFETY: the connection is live; a write of no bytes reads nothing from the (dangling, aligned) pointer.
    let result = unsafe { ffi::SSL_write(ssl.as_ptr(), ptr::NonNull::<u8>::dangling().as_ptr().cast(), 0) };
    result >= 0
}

/// Sets the session ID context: the connection resumes only sessions with the same one.
///
/// # Errors
/// After the handshake.
pub fn set_session_context(ssl: &mut SslRef, context: &[u8; 32]) -> Result<(), ErrorStack> {
    // SAFETY: the connection is live; the library copies the 32 bytes, which is the most it takes.
    let done = unsafe { ffi::SSL_set_session_id_context(ssl.as_ptr(), context.as_ptr(), context.len()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Queues a KeyUpdate for the next write and changes the keys for sending (RFC 8446 §4.6.3).
///
/// # Errors
/// In other versions than TLS 1.3, and before the handshake is over.
pub fn update_keys(ssl: &mut SslRef, ask_peer_too: bool) -> Result<(), ErrorStack> {
    let kind = if ask_peer_too { ffi::SSL_KEY_UPDATE_REQUESTED } else { ffi::SSL_KEY_UPDATE_NOT_REQUESTED };
    // SAFETY: the connection is live; the call takes no pointers but it.
    let done = unsafe { ffi::SSL_key_update(ssl.as_ptr(), kind) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Sends a fatal alert, after which the connection can only be closed. An alert that the transport does not take at once
/// is lost.
pub fn send_fatal_alert(ssl: &mut SslRef, alert: u8) {
    // SAFETY: the connection is live; the call takes no pointers but it.
    let sent = unsafe { ffi::SSL_send_fatal_alert(ssl.as_ptr(), alert) };
    if sent != 1 {
        // The queue of errors belongs to the thread, and to the next connection.
        drop(ErrorStack::get());
    }
}

/// The sequence number of the next record that this side would write.
pub fn write_sequence(ssl: &SslRef) -> u64 {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_get_write_sequence(ssl.as_ptr()) }
}

/// The TLS 1.2 key block; `None` in other versions.
pub fn key_block(ssl: &SslRef) -> Option<Secret> {
    // SAFETY: the connection is live; the call only reads.
    let length = unsafe { ffi::SSL_get_key_block_len(ssl.as_ptr()) };
    if length == 0 {
        return None;
    }
    let mut block = vec![0; length];
    // SAFETY: `block` is valid for `length` writes, which is the length the library just asked for.
    let done = unsafe { ffi::SSL_generate_key_block(ssl.as_ptr(), block.as_mut_ptr(), length) };
    (done == 1).then(|| Secret::new(block))
}

/// The last block sent with a CBC suite of TLS 1.0, which is the vector of the next record; empty otherwise.
pub fn last_block_written(ssl: &SslRef) -> Vec<u8> {
    let (mut read, mut written, mut length) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the connection is live, and the call writes two pointers and a length to the places given.
    let done = unsafe { ffi::SSL_get_ivs(ssl.as_ptr(), &raw mut read, &raw mut written, &raw mut length) };
    if done != 1 || written.is_null() {
        return Vec::new();
    }
    // SAFETY: the library says that the block has `length` bytes, and nothing changes them during the copy.
    unsafe { std::slice::from_raw_parts(written, length) }.to_vec()
}

/// Whether the client had to send a second ClientHello.
pub fn used_hello_retry_request(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_used_hello_retry_request(ssl.as_ptr()) == 1 }
}
