//! A response that has been sent, and what carried it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use penstock_content::{RequestId, RouteNumber, Served, SiteNumber};
use penstock_http::cmcd::Cmcd;
use penstock_tls::Ja4;

use crate::connection::Connection;
use crate::metrics::{CacheOutcome, HandshakeFacts, HttpLabel, OutletKind};
use crate::worker::Worker;

/// A response that has been sent.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) started: Instant,
    /// Whether the request could be a replay.
    pub(crate) early: bool,
    pub(crate) head_bytes: u64,
    pub(crate) cache: Option<CacheOutcome>,
    /// The site that answered.
    pub(crate) site: Option<SiteNumber>,
    /// The route of the site.
    pub(crate) route: Option<RouteNumber>,
    /// The name of the request, if it has one.
    pub(crate) id: Option<RequestId>,
    /// Why the request was refused.
    pub(crate) refusal: Option<&'static str>,
    /// Where the response came from.
    pub(crate) served: Served,
    /// What the player says of itself.
    pub(crate) said: Option<Box<Cmcd>>,
}

/// The connection, and the stream if it has several, that carried a response.
#[derive(Clone, Copy)]
pub(crate) struct CarriedBy<'c> {
    pub(crate) worker: &'c Worker,
    pub(crate) client: SocketAddr,
    pub(crate) tls: Option<HandshakeFacts>,
    /// What the handshake cost the worker.
    pub(crate) handshake_busy: Duration,
    pub(crate) ja4: Option<Ja4>,
    pub(crate) client_certificate: Option<&'c str>,
    pub(crate) outlet: OutletKind,
    pub(crate) version: HttpLabel,
    pub(crate) request_number: u64,
    /// The number of the stream, if the connection has several.
    pub(crate) stream: Option<u64>,
}

impl<'c> CarriedBy<'c> {
    /// The carrier of a response that has its connection to itself.
    pub(crate) fn connection(connection: &'c Connection) -> Self {
        Self {
            worker: &connection.worker,
            client: connection.client,
            tls: connection.tls,
            handshake_busy: connection.handshake_busy,
            ja4: connection.ja4,
            client_certificate: connection.client_certificate.as_deref(),
            outlet: connection.outlet_kind(),
            version: HttpLabel::H1,
            request_number: connection.requests,
            stream: None,
        }
    }

    /// The carrier of nothing: a client whose handshake has failed.
    pub(crate) fn nothing(worker: &'c Worker, client: SocketAddr) -> Self {
        Self {
            worker,
            client,
            tls: None,
            handshake_busy: Duration::ZERO,
            ja4: None,
            client_certificate: None,
            outlet: OutletKind::Plain,
            version: HttpLabel::H1,
            request_number: 0,
            stream: None,
        }
    }
}
