//! Opens connections according to a plan.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ssl::{Ssl, SslContext, SslRef, SslStream};
use penstock_sys::ssl::{self, client};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::HttpConnection;
use super::context;
use super::http2::{Http2Connection, Windows};
use super::http3::{Http3Connection, QuicContext};
use super::link::{ClientConnection, ConnectFault};
use super::pipe::ReadAhead;
use super::sessions::SessionPool;
use crate::failure::LoadFailure;
use crate::plan::{HttpProtocol, LoadMode, Plan, Resume, TlsPlan};
use crate::target::TargetUrl;

/// Opens connections. Each thread has one.
pub(crate) struct Connector {
    context: Option<SslContext>,
    /// The context for servers that a manifest names. Sessions are neither offered to them nor taken from them.
    elsewhere: Option<SslContext>,
    tls: TlsPlan,
    host: String,
    sessions: Arc<SessionPool>,
    timeout: Duration,
    buffer_bytes: usize,
    /// The windows of HTTP/2, if that is the protocol of requests.
    http2: Option<Windows>,
    /// The contexts of QUIC, if that carries the requests; the second as `elsewhere`.
    quic: Option<(QuicContext, Option<QuicContext>)>,
    /// How often a session was awaited that did not arrive.
    waited_in_vain: Cell<u32>,
}

/// The phases of opening a connection, and their durations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectReport {
    pub(crate) tcp: Option<Duration>,
    pub(crate) tls: Option<Duration>,
    /// Whether a session was offered.
    pub(crate) offered: bool,
    /// Whether early data can be sent.
    pub(crate) early_data: bool,
}

/// How long a server may take to send a ticket after the last response.
const SESSION_PATIENCE: Duration = Duration::from_millis(200);

/// After this many waits without a ticket no more are awaited: the server gives none.
const WAITS_IN_VAIN_MAX: u32 = 3;

/// The size of a read for small responses.
const SMALL_BUFFER_BYTES: usize = 17 * 1024;
/// The size of a read for large responses: many records per system call.
const LARGE_BUFFER_BYTES: usize = 256 * 1024;

impl Connector {
    /// # Errors
    /// Names the option of the plan that cannot be used.
    pub(crate) fn new(plan: &Plan, sessions: Arc<SessionPool>) -> Result<Self, String> {
        let context = if plan.target.tls { Some(context::build(&plan.tls, &sessions)?) } else { None };
        let elsewhere = match plan.mode {
            LoadMode::Playback(_) => {
                let tls = TlsPlan { resume: Resume::None, server_name: None, ..plan.tls.clone() };
                Some(context::build(&tls, &sessions)?)
            }
            _ => None,
        };
        let quic = match plan.protocol {
            HttpProtocol::Http3 { .. } => {
                let own = QuicContext::new(context::builder(&plan.tls, &sessions)?, plan)?;
                let tls = TlsPlan { server_name: None, ..plan.tls.clone() };
                let other = match elsewhere {
                    Some(_) => Some(QuicContext::new(context::builder(&tls, &sessions)?, plan)?),
                    None => None,
                };
                Some((own, other))
            }
            _ => None,
        };
        Ok(Self {
            quic,
            context,
            elsewhere,
            tls: plan.tls.clone(),
            host: plan.target.host.clone(),
            sessions,
            timeout: plan.timeout,
            http2: match (plan.protocol, plan.mode) {
                // Nothing follows the handshake.
                (HttpProtocol::Http1 | HttpProtocol::Http3 { .. }, _)
                | (_, LoadMode::Handshakes { request: false }) => None,
                (HttpProtocol::Http2 { streams }, LoadMode::Download { bitrate }) => {
                    Some(Windows::new(streams.get(), bitrate))
                }
                (HttpProtocol::Http2 { streams }, _) => Some(Windows::new(streams.get(), None)),
            },
            waited_in_vain: Cell::new(0),
            buffer_bytes: match plan.mode {
                LoadMode::Handshakes { .. } => SMALL_BUFFER_BYTES,
                LoadMode::Requests | LoadMode::Download { .. } | LoadMode::Playback(_) => LARGE_BUFFER_BYTES,
            },
        })
    }

    /// Opens a connection, and notes its phases in `opening`. `elsewhere` is the server if it is not the plan's. The
    /// connection is ready for a request after [`Self::start`].
    pub(crate) async fn open(
        &self,
        elsewhere: Option<&TargetUrl>,
        address: SocketAddr,
        opening: &mut ConnectReport,
    ) -> Result<HttpConnection, ConnectFault> {
        let context = self.quic.as_ref().and_then(|(own, other)| match elsewhere {
            None => Some(own),
            Some(target) => other.as_ref().filter(|_| target.tls),
        });
        match context {
            Some(context) => {
                self.open_quic(context, elsewhere, address, opening).await.map(HttpConnection::Http3)
            }
            None => self.open_tcp(elsewhere, address, opening).await.map(HttpConnection::Http1),
        }
    }

    async fn open_quic(
        &self,
        context: &QuicContext,
        elsewhere: Option<&TargetUrl>,
        address: SocketAddr,
        opening: &mut ConnectReport,
    ) -> Result<Http3Connection, ConnectFault> {
        let start = Instant::now();
        let resumes = self.tls.resume != Resume::None && elsewhere.is_none();
        let session = if resumes { self.sessions.take_quic() } else { None };
        opening.offered = session.is_some();
        let sessions = resumes.then(|| Arc::clone(&self.sessions));
        let name = elsewhere.map(|target| target.host.as_str());
        let prepare = |ssl: &mut SslRef| self.expect_server(ssl, name);
        let connection =
            Http3Connection::connect(context, address, (session, sessions), prepare, self.timeout).await?;
        opening.tls = Some(start.elapsed());
        opening.early_data = connection.is_in_early_data();
        Ok(connection)
    }

    async fn open_tcp(
        &self,
        elsewhere: Option<&TargetUrl>,
        address: SocketAddr,
        opening: &mut ConnectReport,
    ) -> Result<ClientConnection, ConnectFault> {
        let start = Instant::now();
        let socket = match timeout(self.timeout, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err((LoadFailure::of_connect(&error), error.to_string())),
            Err(_) => {
                return Err((LoadFailure::ConnectTimeout, format!("{:?} were not enough", self.timeout)));
            }
        };
        // A request must not wait for the acknowledgement of the one before (Nagle's algorithm).
        socket.set_nodelay(true).map_err(|error| (LoadFailure::ConnectFailed, error.to_string()))?;
        let connected = Instant::now();
        opening.tcp = Some(connected - start);
        let (context, name) = match elsewhere {
            None => (self.context.as_ref(), None),
            Some(target) => (self.elsewhere.as_ref().filter(|_| target.tls), Some(target.host.as_str())),
        };
        let Some(context) = context else { return Ok(ClientConnection::Plain(socket)) };
        let prepared = self.prepare(context, name, socket, opening);
        let stream = prepared.map_err(|error| (LoadFailure::HandshakeInvalid, error.to_string()))?;
        let mut link = ClientConnection::Tls(Box::new(stream));
        link.handshake(self.timeout).await?;
        opening.tls = Some(connected.elapsed());
        opening.early_data = link.is_in_early_data();
        Ok(link)
    }

    /// Starts the protocol of requests on an open connection.
    pub(crate) async fn start(&self, connection: HttpConnection) -> Result<HttpConnection, ConnectFault> {
        let (windows, link) = match (self.http2, connection) {
            (Some(windows), HttpConnection::Http1(link)) => (windows, link),
            (_, ready) => return Ok(ready),
        };
        if link.is_tls() && link.protocol() != Some("h2") {
            let chosen = link.protocol().unwrap_or("no protocol");
            return Err((LoadFailure::ProtocolRefused, format!("the server chose {chosen} instead of h2")));
        }
        let started = Http2Connection::start(link, windows).await;
        started.map(HttpConnection::Http2).map_err(|failure| (failure, "the connection preface".to_owned()))
    }

    fn prepare(
        &self,
        context: &SslContext,
        elsewhere: Option<&str>,
        socket: TcpStream,
        opening: &mut ConnectReport,
    ) -> Result<SslStream<ReadAhead>, ErrorStack> {
        let mut ssl = Ssl::new(context)?;
        ssl::attach_notes(&mut ssl);
        self.expect_server(&mut ssl, elsewhere)?;
        if self.tls.resume != Resume::None
            && elsewhere.is_none()
            && let Some(session) = self.sessions.take()
        {
            client::offer_live_session(&mut ssl, &session)?;
            opening.offered = true;
            if self.tls.resume == Resume::EarlyData && client::allows_early_data(&session) {
                client::send_early_data(&mut ssl);
            }
        }
        SslStream::new(ssl, ReadAhead::new(socket, self.buffer_bytes))
    }

    /// Names the server to it, and verifies its certificate by that name.
    fn expect_server(&self, ssl: &mut SslRef, elsewhere: Option<&str>) -> Result<(), ErrorStack> {
        let name = elsewhere.unwrap_or_else(|| server_name(&self.tls, &self.host));
        if name.parse::<std::net::IpAddr>().is_err() && !name.is_empty() {
            ssl.set_hostname(name)?;
        }
        if !self.tls.insecure {
            let expected = if name.is_empty() { &self.host } else { name };
            match expected.parse() {
                Ok(ip) => ssl.param_mut().set_ip(ip)?,
                Err(_) => ssl.param_mut().set_host(expected)?,
            }
        }
        Ok(())
    }

    /// Reads until the server has sent a session, if none is at hand for the next connection.
    pub(crate) async fn await_session(&self, connection: &mut HttpConnection) {
        let in_vain = self.waited_in_vain.get();
        if self.context.is_none() || self.tls.resume == Resume::None || in_vain >= WAITS_IN_VAIN_MAX {
            return;
        }
        let has_come = || self.sessions.count() > 0;
        drop(timeout(SESSION_PATIENCE, connection.read_until(has_come)).await);
        self.waited_in_vain.set(if has_come() { 0 } else { in_vain + 1 });
    }
}

/// The server name that is sent; empty for none. RFC 6066 §3 excludes IP addresses.
pub(crate) fn server_name<'a>(tls: &'a TlsPlan, host: &'a str) -> &'a str {
    tls.server_name.as_deref().unwrap_or(host)
}
