//! Receiving after the handshake, which stays in the library.

use boring::ssl::{ErrorCode, SslStream};
use penstock_sys::ssl;

use crate::wire::Wire;

/// Decrypts what the client sends. It never writes to the socket.
pub struct Receiver {
    stream: SslStream<Wire>,
    exceeds_key_updates: bool,
}

/// Result of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes of application data, at least one.
    Bytes(usize),
    /// No data yet: wait until the socket is readable.
    Nothing,
    /// The client will send no more: close_notify, or FIN without it (`notified: false`).
    ///
    /// This ends one direction only (RFC 8446 §6.1): the server still sends its responses and its own closing alert.
    Closed {
        /// Whether a close_notify arrived, which proves that the stream was not truncated.
        notified: bool,
    },
    /// The client broke the protocol, sent an error alert, or reset the connection. Both directions end, with `alert` if
    /// there is one.
    Failed {
        /// The alert that the library would have sent (RFC 8446 §6.2).
        alert: Option<u8>,
    },
}

impl Receiver {
    pub(crate) fn new(stream: SslStream<Wire>) -> Self {
        Self { stream, exceeds_key_updates: false }
    }

    /// Reads application data without blocking. `into` must not be empty.
    pub fn try_receive(&mut self, into: &mut [u8]) -> Received {
        if self.has_nothing_new() {
            return Received::Nothing;
        }
        let error = match self.stream.ssl_read(into) {
            Ok(0) => return Received::Nothing,
            Ok(count) => return Received::Bytes(count),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::WANT_READ => Received::Nothing,
            ErrorCode::ZERO_RETURN => Received::Closed { notified: true },
            _ if self.stream.get_ref().at_end() => Received::Closed { notified: false },
            _ => {
                let reason = error.ssl_error().and_then(|stack| stack.errors().first()?.reason());
                self.exceeds_key_updates |= reason == Some("TOO_MANY_KEY_UPDATES");
                Received::Failed { alert: ssl::notes(self.stream.ssl()).and_then(ssl::Notes::alert_sent) }
            }
        }
    }

    /// Whether the last failure was the library's limit of 32 KeyUpdates in a row without application data.
    pub fn exceeds_key_updates(&self) -> bool {
        self.exceeds_key_updates
    }

    /// Whether bytes read from the socket are not decrypted yet. [`Self::try_receive`] may then return data although the
    /// socket is not readable.
    pub fn has_buffered(&self) -> bool {
        self.stream.get_ref().has_received() || self.stream.ssl().pending() > 0
    }

    /// Whether a read would find nothing, without asking the library: most reads behind a request do.
    fn has_nothing_new(&self) -> bool {
        !self.stream.get_ref().may_be_readable() && !self.has_buffered() && !self.in_early_data()
    }

    /// Whether the client has not finished its handshake: its data is early data and may be a replay.
    pub fn in_early_data(&self) -> bool {
        ssl::in_early_data(self.stream.ssl())
    }

    /// Number of KeyUpdate messages received.
    pub fn key_updates(&self) -> u32 {
        ssl::notes(self.stream.ssl()).map_or(0, ssl::Notes::key_updates)
    }

    /// Whether the client has requested a KeyUpdate of the server since the last call (RFC 8446 §4.6.3).
    pub fn take_key_update_request(&self) -> bool {
        ssl::notes(self.stream.ssl()).is_some_and(|notes| notes.take_key_update_requests() > 0)
    }

    /// The alert that the client sent, if any.
    pub fn alert_received(&self) -> Option<u8> {
        ssl::notes(self.stream.ssl()).and_then(ssl::Notes::alert_received)
    }
}
