//! What stays in the library after the handshake: reading what the client sends.

use boring::ssl::{ErrorCode, SslStream};
use penstock_sys::ssl;

use crate::wire::Wire;

/// Decrypts what the client sends. The library can no longer write: sending has been taken over.
pub struct Receiver {
    stream: SslStream<Wire>,
}

/// The outcome of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes of application data, at least one.
    Bytes(usize),
    /// Nothing at the moment: wait until the socket is readable.
    Nothing,
    /// The client said close_notify, or ended TCP without it (`notified: false`).
    Closed {
        /// Whether a close_notify came, which proves that nobody cut the stream short.
        notified: bool,
    },
    /// The client broke the protocol or the connection; answer with this alert if there is one.
    Failed {
        /// The alert the library would have sent (RFC 8446 §6.2).
        alert: Option<u8>,
    },
}

impl Receiver {
    pub(crate) fn new(stream: SslStream<Wire>) -> Self {
        Self { stream }
    }

    /// Reads application data without blocking. `into` must not be empty.
    pub fn try_receive(&mut self, into: &mut [u8]) -> Received {
        let error = match self.stream.ssl_read(into) {
            Ok(0) => return Received::Nothing,
            Ok(count) => return Received::Bytes(count),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::WANT_READ => Received::Nothing,
            ErrorCode::ZERO_RETURN => Received::Closed { notified: true },
            _ if self.stream.get_ref().at_end() => Received::Closed { notified: false },
            _ => Received::Failed { alert: ssl::notes(self.stream.ssl()).and_then(ssl::Notes::alert_sent) },
        }
    }

    /// Whether bytes have been read from the socket that the library has not decrypted yet; the socket's
    /// readiness then says nothing about whether [`Self::try_receive`] has something.
    pub fn has_buffered(&self) -> bool {
        self.stream.get_ref().has_received() || self.stream.ssl().pending() > 0
    }

    /// Whether the client has yet to finish its handshake: then what it sends is early data, and may be a replay.
    pub fn in_early_data(&self) -> bool {
        ssl::in_early_data(self.stream.ssl())
    }

    /// How many KeyUpdate messages the client has sent in all.
    pub fn key_updates(&self) -> u32 {
        ssl::notes(self.stream.ssl()).map_or(0, ssl::Notes::key_updates)
    }

    /// Whether the client has asked, since the last call, that we change our keys too (RFC 8446 §4.6.3).
    pub fn take_key_update_request(&self) -> bool {
        ssl::notes(self.stream.ssl()).is_some_and(|notes| notes.take_key_update_requests() > 0)
    }

    /// The alert that the client sent, if any.
    pub fn alert_received(&self) -> Option<u8> {
        ssl::notes(self.stream.ssl()).and_then(ssl::Notes::alert_received)
    }
}
