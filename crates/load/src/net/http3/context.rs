//! What the connections of a thread have in common.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use boring::ssl::SslContextBuilder;
use quiche::h3;

use super::DATAGRAM_BYTES;
use super::state::ConnectionState;
use crate::net::http2::Windows;
use crate::net::sessions::SessionPool;
use crate::plan::{HttpProtocol, LoadMode, Plan, Resume};
use crate::response::HEAD_BYTES_MAX;

/// Unidirectional streams of the server: control, QPACK, and some of unknown types (RFC 9114 §6.2.3).
const CONTROL_STREAMS: u64 = 8;
/// Bytes that the server may send ahead on each of them.
const CONTROL_WINDOW: u64 = 64 * 1024;
/// Milliseconds without a packet after which a connection has ended.
const IDLE_MILLISECONDS: u64 = 60_000;

/// Settings for new connections.
pub(in crate::net) struct QuicContext {
    quic: RefCell<quiche::Config>,
    http: Arc<h3::Config>,
    /// The most packets for which one acknowledgement is sent.
    pub(super) ack_every: usize,
}

impl QuicContext {
    /// # Errors
    /// The library takes no such context.
    pub(in crate::net) fn new(context: SslContextBuilder, plan: &Plan) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start QUIC: {error}");
        let quic = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context);
        let mut quic = quic.map_err(|error| failed(&error))?;
        let bitrate = match plan.mode {
            LoadMode::Download { bitrate } => bitrate,
            _ => None,
        };
        let windows = Windows::new(plan.protocol.streams(), bitrate);
        quic.set_max_idle_timeout(IDLE_MILLISECONDS);
        quic.set_max_recv_udp_payload_size(65_527);
        quic.set_max_send_udp_payload_size(DATAGRAM_BYTES);
        quic.set_initial_max_data(windows.connection.into());
        quic.set_max_connection_window(windows.connection.into());
        quic.set_initial_max_stream_data_bidi_local(windows.stream.into());
        quic.set_max_stream_window(windows.stream.into());
        quic.set_initial_max_stream_data_uni(CONTROL_WINDOW);
        quic.set_initial_max_streams_uni(CONTROL_STREAMS);
        quic.grease(false);
        if plan.tls.resume == Resume::EarlyData {
            quic.enable_early_data();
        }
        let mut http = h3::Config::new().map_err(|error| failed(&error))?;
        http.set_max_field_section_size(HEAD_BYTES_MAX as u64);
        let ack_every = match plan.protocol {
            HttpProtocol::Http3 { ack_every: Some(packets), .. } => packets.get(),
            _ => usize::MAX,
        };
        Ok(Self { quic: RefCell::new(quic), http: Arc::new(http), ack_every })
    }

    /// A new connection between these addresses. `None` if the session cannot be read, or the library has no memory.
    pub(super) fn connection(
        &self,
        (local, server): (SocketAddr, SocketAddr),
        session: Option<Vec<u8>>,
        sessions: Option<Arc<SessionPool>>,
    ) -> Option<ConnectionState> {
        let mut id = [0; quiche::MAX_CONN_ID_LEN];
        boring::rand::rand_bytes(&mut id).ok()?;
        let id = quiche::ConnectionId::from_ref(&id);
        let mut quic = quiche::connect(None, &id, local, server, &mut self.quic.borrow_mut()).ok()?;
        if let Some(session) = session {
            quic.set_session(&session).ok()?;
        }
        Some(ConnectionState::new(quic, Arc::clone(&self.http), sessions))
    }
}
