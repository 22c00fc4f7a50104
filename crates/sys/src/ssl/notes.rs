//! Observations of one connection, written by callbacks of the library.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use boring::ex_data::Index;
use boring::ssl::{Ssl, SslRef};

use super::stopwatch::Stopwatch;
use super::ticket_key::TicketNotes;
use crate::lock::Unpoisoned;
use crate::secret::Secret;

/// Observations of one connection.
#[derive(Debug, Default)]
pub struct Notes {
    server_secret: Mutex<Option<Secret>>,
    hello_bytes_max: AtomicUsize,
    pub(super) key_update_requests: AtomicU32,
    pub(super) key_updates: AtomicU32,
    pub(super) alert_sent: AtomicU16,
    pub(super) alert_received: AtomicU16,
    early_data_offered: AtomicBool,
    /// The scheme of the CertificateVerify that was sent; 0 without one.
    pub(super) signature_scheme: AtomicU16,
    stopwatch: Mutex<Stopwatch>,
    compression: AtomicU16,
    marks: AtomicU8,
    protocols: AtomicU8,
    tickets: TicketNotes,
}

/// Set beside an alert's number, so that alert 0 (close_notify) differs from none.
pub(super) const ALERT_PRESENT: u16 = 0x100;

impl Notes {
    /// Keeps the TLS 1.3 application traffic secret of the server until the handshake is over, when
    /// [`write_secret`](super::write_secret) returns it.
    pub fn set_server_secret(&self, secret: Secret) {
        *self.server_secret.lock().unpoisoned() = Some(secret);
    }

    /// Takes that secret.
    pub fn take_server_secret(&self) -> Option<Secret> {
        self.server_secret.lock().unpoisoned().take()
    }

    /// KeyUpdate messages received so far.
    pub fn key_updates(&self) -> u32 {
        self.key_updates.load(Ordering::Relaxed)
    }

    /// Takes the number of KeyUpdate messages that requested one of this side.
    pub fn take_key_update_requests(&self) -> u32 {
        self.key_update_requests.swap(0, Ordering::Relaxed)
    }

    pub(super) fn set_hello_bytes_max(&self, bytes: usize) {
        self.hello_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// The limit of a ClientHello, if it is raised.
    pub(super) fn hello_bytes_max(&self) -> Option<usize> {
        Some(self.hello_bytes_max.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Notes about session tickets.
    pub fn tickets(&self) -> &TicketNotes {
        &self.tickets
    }

    /// Records that the client sends early data.
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

    /// Time spent in steps that exchange keys.
    pub fn key_exchange(&self) -> Duration {
        self.stopwatch().total()
    }

    /// Excludes a pause from the current step.
    pub fn paused(&self, duration: Duration) {
        self.stopwatch().paused(duration);
    }

    pub(super) fn enter_step(&self, exchanges_keys: bool) {
        let mut stopwatch = self.stopwatch();
        if exchanges_keys {
            stopwatch.start(Instant::now());
        } else if stopwatch.runs() {
            stopwatch.stop(Instant::now());
        }
    }

    fn stopwatch(&self) -> MutexGuard<'_, Stopwatch> {
        self.stopwatch.lock().unpoisoned()
    }
}

impl Notes {
    /// The algorithm that compressed the certificate (RFC 8879 §7.3); 0 for none.
    pub fn compression(&self) -> u16 {
        self.compression.load(Ordering::Relaxed)
    }

    pub(super) fn set_compression(&self, algorithm: u16) {
        self.compression.store(algorithm, Ordering::Relaxed);
    }

    /// Bits for the use of the caller.
    pub fn marks(&self) -> u8 {
        self.marks.load(Ordering::Relaxed)
    }

    /// Application protocols that may be agreed on, as bits of the caller's.
    pub fn protocols(&self) -> u8 {
        self.protocols.load(Ordering::Relaxed)
    }

    /// Sets these bits.
    pub fn set_protocols(&self, protocols: u8) {
        self.protocols.store(protocols, Ordering::Relaxed);
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

/// Attaches [`Notes`] to a new connection; without them nothing is recorded.
pub fn attach_notes(ssl: &mut SslRef) {
    if let Some(index) = notes_index() {
        ssl.set_ex_data(index, Notes::default());
    }
}

/// The notes of a connection.
pub fn notes(ssl: &SslRef) -> Option<&Notes> {
    ssl.ex_data(notes_index()?)
}
