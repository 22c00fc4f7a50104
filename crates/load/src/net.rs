//! Connections: sockets, handshakes, sessions, and one request with its response.

mod connector;
mod context;
mod exchange;
mod link;
mod pipe;
mod sessions;

pub(crate) use connector::{ConnectReport, Connector, server_name};
pub(crate) use exchange::{BodyPace, RequestExchange, ResponseSummary};
pub(crate) use link::ClientConnection;
pub(crate) use sessions::{SessionPool, from_hex};
