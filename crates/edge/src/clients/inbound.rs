//! The receiving direction of a connection.

use std::io;
use std::rc::Rc;

use penstock_sys::ConnectedSocket;
use penstock_tls::{Received, Receiver};

/// The receiving direction of a connection.
pub(crate) enum Inbound {
    /// Plain HTTP.
    Plain {
        /// Shared with the outlet.
        socket: Rc<ConnectedSocket>,
        /// Bytes that came with the PROXY header and belong to the first request.
        prefix: Vec<u8>,
    },
    /// HTTPS; boxed, because the state is large.
    Tls(Box<Receiver>),
}

impl Inbound {
    /// Reads without blocking. `into` must not be empty.
    pub(crate) fn try_receive(&mut self, into: &mut [u8]) -> Received {
        match self {
            Self::Tls(receiver) => receiver.try_receive(into),
            Self::Plain { prefix, .. } if !prefix.is_empty() => {
                let count = prefix.len().min(into.len());
                into[..count].copy_from_slice(&prefix[..count]);
                prefix.drain(..count);
                Received::Bytes(count)
            }
            Self::Plain { socket, .. } => match socket.try_receive(into) {
                Ok(0) => Received::Closed { notified: true },
                Ok(count) => Received::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
                Err(_) => Received::Closed { notified: false },
            },
        }
    }

    /// The TLS half, if this is HTTPS.
    pub(crate) fn tls(&self) -> Option<&Receiver> {
        match self {
            Self::Tls(receiver) => Some(receiver),
            Self::Plain { .. } => None,
        }
    }
}
