//! HTTP/3 on a UDP socket of each worker (RFC 9114, RFC 9000).
//!
//! [`Endpoint`] receives datagrams and gives each to its connection by the connection id, or begins a connection. Each connection
//! has a task (`session`): it performs the handshake, reads requests, runs their streams as HTTP/2 does, and sends trains of
//! datagrams.

mod ended;
mod endpoint;
#[cfg(feature = "fuzz")]
mod fuzz;
mod generations;
mod handshake;
mod inbox;
mod link;
mod outbox;
mod protocol;
mod request;
mod session;

use std::io;
use std::net::UdpSocket;
use std::rc::Rc;

use penstock_http3::IdKey;

use crate::worker::{Listening, Worker};

pub(crate) use endpoint::Endpoint;
#[cfg(feature = "fuzz")]
pub use fuzz::fuzz_quic_steering;
pub use generations::QuicPassage;
pub(crate) use generations::{Passage, Passages, pair};

/// The endpoint of a listener on one worker. All workers share `key`, and the passages to a process before.
///
/// # Errors
/// The runtime cannot watch the socket.
pub(crate) fn endpoint(
    worker: &Rc<Worker>,
    socket: &UdpSocket,
    listening: Listening,
    key: IdKey,
    predecessor: Passages,
) -> io::Result<Rc<Endpoint>> {
    Endpoint::new(worker, socket, listening, key, predecessor, |admitted| Box::pin(session::serve(admitted)))
}
