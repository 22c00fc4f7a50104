//! HTTP/3 on a UDP socket of each worker (RFC 9114, RFC 9000).
//!
//! [`Endpoint`] receives datagrams and gives each to its connection by the connection id, or begins a connection. Each connection
//! has a task (`session`): it performs the handshake, reads requests, runs their streams as HTTP/2 does, and sends trains of
//! datagrams.

mod endpoint;
mod handshake;
mod inbox;
mod link;
mod outbox;
mod protocol;
mod request;
mod session;

pub(crate) use endpoint::Endpoint;
