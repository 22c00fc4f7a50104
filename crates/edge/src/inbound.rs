//! What comes from the client, decrypted if need be.

use std::io;
use std::rc::Rc;

use penstock_tls::{Received, Receiver};
use tokio::net::TcpStream;

/// The receiving half of a connection.
pub(crate) enum Inbound {
    /// Plain HTTP.
    Plain {
        /// Shared with the outlet.
        socket: Rc<TcpStream>,
        /// Bytes that came before the first request and belong to it.
        early: Vec<u8>,
    },
    /// HTTPS; boxed, because the library's state is no small thing to move.
    Tls(Box<Receiver>),
}

impl Inbound {
    /// Reads without blocking. `into` must not be empty.
    pub(crate) fn try_receive(&mut self, into: &mut [u8]) -> Received {
        match self {
            Self::Tls(receiver) => receiver.try_receive(into),
            Self::Plain { early, .. } if !early.is_empty() => {
                let count = early.len().min(into.len());
                into[..count].copy_from_slice(&early[..count]);
                early.drain(..count);
                Received::Bytes(count)
            }
            Self::Plain { socket, .. } => match penstock_tls::receive(socket, into) {
                Ok(0) => Received::Closed { notified: true },
                Ok(count) => Received::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
                Err(_) => Received::Closed { notified: false },
            },
        }
    }

    /// Whether the end of what the client sends means that it wants no more from us either.
    ///
    /// Over TLS it does: nobody closes only one direction there. Over plain TCP a client may have said all it
    /// has to say and still wait for the answer.
    pub(crate) fn end_means_gone(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The TLS half, if this is HTTPS.
    pub(crate) fn tls(&self) -> Option<&Receiver> {
        match self {
            Self::Tls(receiver) => Some(receiver),
            Self::Plain { .. } => None,
        }
    }
}
