//! An open connection that carries requests, whatever the protocol.

use std::time::Duration;

use super::exchange::{RequestExchange, ResponseSummary};
use super::http2::Http2Connection;
use super::http3::Http3Connection;
use super::link::{ClientConnection, HandshakeFacts};
use crate::failure::LoadFailure;
use crate::plan::ConnectionEnding;
use crate::workload::PreparedRequest;

/// An open connection.
pub(crate) enum HttpConnection {
    /// HTTP/1.1, or nothing but a handshake.
    Http1(ClientConnection),
    /// HTTP/2.
    Http2(Http2Connection),
    /// HTTP/3.
    Http3(Http3Connection),
}

impl HttpConnection {
    /// Sends the request and reads the whole response. Returns `None` if the meter said stop.
    pub(crate) async fn exchange(
        &mut self,
        exchange: RequestExchange<'_>,
        request: &PreparedRequest,
    ) -> Result<Option<ResponseSummary>, LoadFailure> {
        match self {
            Self::Http1(link) => exchange.run(link, request).await,
            Self::Http2(connection) => connection.run(exchange, request).await,
            Self::Http3(connection) => connection.run(exchange, request).await,
        }
    }

    /// Reads what the server sends beside responses, until this is true or the connection has ended.
    pub(crate) async fn read_until(&mut self, is_enough: impl Fn() -> bool) {
        match self {
            Self::Http1(link) => link.read_until(is_enough).await,
            Self::Http2(connection) => connection.wait_until(is_enough).await,
            Self::Http3(connection) => connection.wait_until(is_enough).await,
        }
    }

    /// Whether the handshake is incomplete and early data may be sent.
    pub(crate) fn is_in_early_data(&self) -> bool {
        match self {
            Self::Http1(link) => link.is_in_early_data(),
            Self::Http2(connection) => connection.with_link(ClientConnection::is_in_early_data),
            Self::Http3(connection) => connection.is_in_early_data(),
        }
    }

    /// The result of the handshake; `None` without TLS.
    pub(crate) fn facts(&self) -> Option<HandshakeFacts> {
        match self {
            Self::Http1(link) => link.facts(),
            Self::Http2(connection) => connection.with_link(ClientConnection::facts),
            Self::Http3(connection) => Some(connection.facts()),
        }
    }

    /// The protocol of ALPN, if any.
    pub(crate) fn protocol(&self) -> Option<String> {
        match self {
            Self::Http1(link) => link.protocol().map(str::to_owned),
            Self::Http2(connection) => connection.with_link(|link| link.protocol().map(str::to_owned)),
            Self::Http3(connection) => connection.protocol(),
        }
    }

    /// Ends the connection; one that several requests share only if this is the last of them.
    pub(crate) async fn end(self, ending: ConnectionEnding, limit: Duration) {
        match self {
            Self::Http1(link) => link.end(ending, limit).await,
            Self::Http2(connection) => connection.end(ending, limit).await,
            Self::Http3(connection) => connection.end(ending),
        }
    }
}
