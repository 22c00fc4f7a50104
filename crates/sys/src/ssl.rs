//! What BoringSSL can do and its safe wrapper does not offer.
//!
//! Every function here is one call. Policy (which cipher, which key, when) stands in the `tls` crate.

pub mod client;
mod compression;
mod early_data;
mod ech;
mod revocation;
mod secret;
mod sessions;
mod steps;
mod suites;
mod tickets;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{Ssl, SslContextBuilder, SslRef};
use boring_sys as ffi;
use foreign_types::ForeignTypeRef;

use crate::traffic::Secret;

pub use compression::{BROTLI, CertificateCompressor, ZLIB, ZSTD, set_certificate_compression};
pub use early_data::{
    EARLY_DATA_BYTES_MAX, EarlyDataReason, early_data_reason, in_early_data, take_early_data, ticket_age_skew,
};
pub use ech::{marshal_config, x25519_key};
pub use revocation::{RevocationLists, moment, refuse_revoked};
pub use secret::write_secret;
pub use sessions::{Found, Sessions, set_sessions};
pub use steps::observe_steps;
pub use suites::{
    set_signing_preferences, set_tls12_suites, set_tls12_suites_of_context, set_tls13_suites,
    set_tls13_suites_of_context,
};
pub use tickets::{
    FoundKey, Lookup, TICKET_NAME_BYTES, TicketKey, TicketKeys, TicketNotes, set_session_lifetime,
    set_ticket_keys,
};

/// What the library told us about one connection, through callbacks.
#[derive(Debug, Default)]
pub struct Notes {
    server_secret: Mutex<Option<Secret>>,
    key_update_requests: AtomicU32,
    key_updates: AtomicU32,
    alert_sent: AtomicU16,
    alert_received: AtomicU16,
    early_data_offered: AtomicBool,
    /// The scheme of the CertificateVerify that was sent; 0 without one.
    signature_scheme: AtomicU16,
    stopwatch: Mutex<steps::Stopwatch>,
    compression: AtomicU16,
    marks: AtomicU8,
    tickets: TicketNotes,
}

/// Set beside an alert's number, so that alert 0 (close_notify) differs from none.
const ALERT_PRESENT: u16 = 0x100;

impl Notes {
    /// Keeps the secret that TLS 1.3 application data from the server is keyed with, for whoever needs it before the
    /// handshake is over; [`write_secret`] knows it afterwards.
    pub fn set_server_secret(&self, secret: Secret) {
        *self.server_secret.lock().unwrap_or_else(PoisonError::into_inner) = Some(secret);
    }

    /// Takes that secret; it can be taken once.
    pub fn take_server_secret(&self) -> Option<Secret> {
        self.server_secret.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// KeyUpdate messages received so far.
    pub fn key_updates(&self) -> u32 {
        self.key_updates.load(Ordering::Relaxed)
    }

    /// How many KeyUpdate messages asked us to update too since the last call.
    pub fn take_key_update_requests(&self) -> u32 {
        self.key_update_requests.swap(0, Ordering::Relaxed)
    }

    /// What became of its session tickets.
    pub fn tickets(&self) -> &TicketNotes {
        &self.tickets
    }

    /// Takes down that the client sends early data.
    pub fn set_early_data_offered(&self) {
        self.early_data_offered.store(true, Ordering::Relaxed);
    }

    /// Whether the client sends early data.
    pub fn early_data_offered(&self) -> bool {
        self.early_data_offered.load(Ordering::Relaxed)
    }

    /// The last alert that the library sent or wanted to send (RFC 8446 §6).
    pub fn alert_sent(&self) -> Option<u8> {
        alert_of(self.alert_sent.load(Ordering::Relaxed))
    }

    /// The last alert that the peer sent.
    pub fn alert_received(&self) -> Option<u8> {
        alert_of(self.alert_received.load(Ordering::Relaxed))
    }

    /// The scheme of the TLS 1.3 signature that was sent (RFC 8446 §4.2.3); `None` before and without one.
    pub fn signature_scheme(&self) -> Option<u16> {
        Some(self.signature_scheme.load(Ordering::Relaxed)).filter(|scheme| *scheme != 0)
    }

    /// How long the steps that exchange keys took so far.
    pub fn key_exchange(&self) -> Duration {
        self.stopwatch().total()
    }

    /// So long the handshake could not go on, whatever step it was in.
    pub fn paused(&self, duration: Duration) {
        self.stopwatch().paused(duration);
    }

    fn enter_step(&self, exchanges_keys: bool) {
        let mut stopwatch = self.stopwatch();
        if exchanges_keys {
            stopwatch.start(Instant::now());
        } else if stopwatch.runs() {
            stopwatch.stop(Instant::now());
        }
    }

    fn stopwatch(&self) -> std::sync::MutexGuard<'_, steps::Stopwatch> {
        self.stopwatch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    /// The number of the algorithm that compressed our certificate (RFC 8879 §7.3); 0 if none did.
    pub fn compression(&self) -> u16 {
        self.compression.load(Ordering::Relaxed)
    }

    fn set_compression(&self, algorithm: u16) {
        self.compression.store(algorithm, Ordering::Relaxed);
    }

    /// Bits that the floor above keeps about this connection.
    pub fn marks(&self) -> u8 {
        self.marks.load(Ordering::Relaxed)
    }

    /// Replaces these bits.
    pub fn set_marks(&self, marks: u8) {
        self.marks.store(marks, Ordering::Relaxed);
    }
}

fn alert_of(stored: u16) -> Option<u8> {
    let [present, number] = stored.to_be_bytes();
    (present != 0).then_some(number)
}

fn notes_index() -> Option<Index<Ssl, Notes>> {
    static INDEX: OnceLock<Option<Index<Ssl, Notes>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}

/// Gives a new connection its [`Notes`]; without them nothing is observed.
pub fn attach_notes(ssl: &mut SslRef) {
    if let Some(index) = notes_index() {
        ssl.set_ex_data(index, Notes::default());
    }
}

/// The notes of a connection.
pub fn notes(ssl: &SslRef) -> Option<&Notes> {
    ssl.ex_data(notes_index()?)
}

/// Has the connections of this context write alerts and KeyUpdates into their [`Notes`].
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

/// Lets the library free what only the handshake needed once it is over.
pub fn shed_handshake_config(ssl: &mut SslRef) {
    // SAFETY: the connection is live; the call only sets a flag.
    unsafe { ffi::SSL_set_shed_handshake_config(ssl.as_ptr(), 1) };
}

/// Has the library write the session tickets that it holds back until the first write. Returns false if the
/// transport did not take them at once.
pub fn flush_tickets(ssl: &mut SslRef) -> bool {
    // SAFETY: the connection is live; a write of no bytes reads nothing from the (dangling, aligned) pointer.
    let result = unsafe { ffi::SSL_write(ssl.as_ptr(), ptr::NonNull::<u8>::dangling().as_ptr().cast(), 0) };
    result >= 0
}

/// Has this connection resume only sessions that began with the same context, and gives its own sessions this one.
///
/// # Errors
/// After the handshake.
pub fn set_session_context(ssl: &mut SslRef, context: &[u8; 32]) -> Result<(), ErrorStack> {
    // SAFETY: the connection is live; the library copies the 32 bytes, which is the most it takes.
    let done = unsafe { ffi::SSL_set_session_id_context(ssl.as_ptr(), context.as_ptr(), context.len()) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
}

/// Has the library send a KeyUpdate with its next write, and change its keys for sending (RFC 8446 §4.6.3).
///
/// # Errors
/// In other versions than TLS 1.3, and before the handshake is over.
pub fn update_keys(ssl: &mut SslRef, ask_peer_too: bool) -> Result<(), ErrorStack> {
    let kind = if ask_peer_too { ffi::SSL_KEY_UPDATE_REQUESTED } else { ffi::SSL_KEY_UPDATE_NOT_REQUESTED };
    // SAFETY: the connection is live; the call takes no pointers but it.
    let done = unsafe { ffi::SSL_key_update(ssl.as_ptr(), kind) };
    if done == 1 { Ok(()) } else { Err(ErrorStack::get()) }
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

/// The last block that this side has sent with a CBC suite of TLS 1.0, on which the next record builds; empty with
/// everything else.
pub fn last_block_written(ssl: &SslRef) -> Vec<u8> {
    let (mut read, mut written, mut length) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the connection is live, and the call writes two pointers and a length to the places given.
    let done = unsafe { ffi::SSL_get_ivs(ssl.as_ptr(), &raw mut read, &raw mut written, &raw mut length) };
    if done != 1 || written.is_null() {
        return Vec::new();
    }
    // SAFETY: the library says that so many bytes are there, and nothing changes them during the copy.
    unsafe { std::slice::from_raw_parts(written, length) }.to_vec()
}

/// Whether the client had to send a second ClientHello.
pub fn used_hello_retry_request(ssl: &SslRef) -> bool {
    // SAFETY: the connection is live; the call only reads.
    unsafe { ffi::SSL_used_hello_retry_request(ssl.as_ptr()) == 1 }
}
