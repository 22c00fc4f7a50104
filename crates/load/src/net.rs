//! Connections: sockets, handshakes, sessions, and one request with its response.

mod connector;
mod context;
mod exchange;
mod link;
mod pipe;
mod sessions;

pub(crate) use connector::{Connector, Opening, server_name};
pub(crate) use exchange::{Answer, Exchange, Pace};
pub(crate) use link::Link;
pub(crate) use sessions::{Sessions, from_hex};
