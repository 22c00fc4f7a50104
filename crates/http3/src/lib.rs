//! The server side of HTTP/3 (RFC 9114) and QUIC (RFC 9000), without sockets, tasks and timers.
//!
//! [`Datagram::parse`] tells what a datagram is for: a connection that is known by its [`ConnectionId`], or a new one. A new
//! [`ServerConnection`] takes datagrams and gives [`StreamEvent`]s; heads and content are written to its streams, and
//! [`ServerConnection::packet`] gives the datagrams to send. [`IdKey`] makes what needs no connection: Retry tokens and
//! stateless resets. QUIC and QPACK are those of `quiche`; the TLS context is the caller's.
//!
//! ```no_run
//! # use penstock_http3::{ConnectionId, HeadFrame, Http3Limits, NetworkPath, QuicConfig, ServerConnection, StreamEvent, encode_head};
//! # fn serve(context: boring::ssl::SslContextBuilder, received: &mut [u8]) -> Option<()> {
//! # let (local, client) = ("127.0.0.1:443".parse().unwrap(), "127.0.0.1:9".parse().unwrap());
//! let mut config = QuicConfig::new(context, &Http3Limits::default())?;
//! let (id, path) = (ConnectionId::random(0, 1), NetworkPath { local, client });
//! let mut connection = ServerConnection::accept(&mut config, (id, 0), None, path)?;
//! connection.receive(received, path);
//! while let Some(StreamEvent::Request { stream, fields, .. }) = connection.next_event() {
//!     println!("{:?}", fields.iter().next());
//!     let mut head = Vec::new();
//!     encode_head(204, std::iter::empty(), &mut head);
//!     connection.send_head(stream, HeadFrame::new(&head, None), true);
//! }
//! let mut packet = [0; 1500];
//! while let Some((length, to)) = connection.packet(&mut packet) {
//!     println!("{length} bytes to {to:?}");
//! }
//! # Some(()) }
//! ```
//!
//! Every resource that a client can take is bounded by [`Http3Limits`].
#![forbid(unsafe_code)]

mod buffers;
mod connection;
mod datagram;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod id;
mod limits;
mod migration;
#[cfg(any(test, feature = "fuzz"))]
mod peers;
mod qpack;
mod queue;
mod schedule;
mod token;

pub use connection::{
    ConnectionEnd, ContentFault, Fields, HeadFrame, HeadSent, ServerConnection, StreamEvent, StreamGone,
    code, encode_head,
};
pub use datagram::{Datagram, Initial, MAX_DATAGRAM_BYTES, NetworkPath, version_negotiation};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{
    FuzzClient, FuzzResponse, FuzzStep, fuzz_h3_fields, fuzz_quic_connection, fuzz_quic_datagram,
};
pub use id::{CONNECTION_ID_BYTES, ConnectionId};
pub use limits::{CongestionControl, Http3Limits, QuicConfig};
pub use schedule::{Readiness, Schedule};
pub use token::{IdKey, RetryOrigin};

#[cfg(test)]
mod tests;
