//! Connections: sockets, handshakes, sessions, and one request with its response.

mod connection;
mod connector;
mod context;
mod exchange;
mod http1;
mod http2;
mod http3;
mod link;
mod pipe;
mod sessions;

pub(crate) use connection::HttpConnection;
pub(crate) use connector::{ConnectReport, Connector, server_name};
pub(crate) use exchange::{BodyPace, RequestExchange, ResponseSummary};
pub(crate) use link::HandshakeFacts;
pub(crate) use sessions::{SessionPool, from_hex};
