//! Opening a connection to a server.

use std::io;
use std::net::SocketAddr;

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use penstock_http::proxy;
use penstock_tls::{OutboundError, OutboundStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;

use super::body::Outgoing;
use super::error::OriginError;
use super::origin::HttpOrigin;
use super::pool::Poolable;
use super::server::Server;
use super::stream::{CheckedStream, ConfirmedEnd, HeadBudget};

/// Sends requests on one connection.
pub(super) struct Sender {
    pub(super) requests: SendRequest<Outgoing>,
    pub(super) budget: HeadBudget,
}

impl Poolable for Sender {
    async fn open(
        origin: &HttpOrigin,
        server: &Server,
        client: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, OriginError> {
        dial(origin, server, client, Some(permit)).await
    }

    async fn ready(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }

    fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// Connects for a client, if there is one, with TLS if the URL of the server says so. The permit is given back when the
/// connection ends.
pub(super) async fn dial(
    origin: &HttpOrigin,
    server: &Server,
    client: Option<SocketAddr>,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let socket = connect(origin, server, client).await?;
    let mut builder = Builder::new();
    // Larger than a head may be: its length is compared with the limit once it is parsed.
    builder.max_buf_size(origin.limits().read_bytes).max_headers(origin.limits().head_fields);
    if !server.url.is_secure() {
        return begin(&builder, socket, permit).await;
    }
    begin(&builder, shake_hands(server, socket).await?, permit).await
}

/// A TCP connection, which begins with a PROXY header if the origin wants one.
pub(super) async fn connect(
    origin: &HttpOrigin,
    server: &Server,
    client: Option<SocketAddr>,
) -> Result<TcpStream, OriginError> {
    let dialled = TcpStream::connect((server.url.host(), server.url.port())).await;
    let socket = dialled.map_err(|error| {
        server.set_fault(format!("cannot connect: {error}"));
        let timed_out = error.kind() == io::ErrorKind::TimedOut;
        if timed_out { OriginError::Timeout } else { OriginError::Unreachable }
    })?;
    // Requests are one small packet each: nothing to gain from waiting.
    drop(socket.set_nodelay(true));
    if origin.settings.proxy_protocol {
        let addresses = client.and_then(|client| Some((client, socket.peer_addr().ok()?)));
        write_all(&socket, &proxy::v2_header(addresses)).await.map_err(|error| {
            server.set_fault(format!("cannot connect: {error}"));
            OriginError::Unreachable
        })?;
    }
    Ok(socket)
}

/// Writes all of `bytes`.
pub(super) async fn write_all(socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// TLS on a connection.
pub(super) async fn shake_hands(server: &Server, socket: TcpStream) -> Result<OutboundStream, OriginError> {
    let Some(tls) = &server.tls else {
        server.set_fault("there is no authority to verify its certificate by".to_owned());
        return Err(OriginError::Certificate);
    };
    tls.connect(socket).await.map_err(|error| {
        server.set_fault(error.to_string());
        match &error {
            OutboundError::Certificate(_) => OriginError::Certificate,
            OutboundError::Handshake(_) => OriginError::Handshake,
        }
    })
}

pub(super) async fn begin<S: AsyncRead + AsyncWrite + ConfirmedEnd + Unpin + 'static>(
    builder: &Builder,
    stream: S,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let budget = HeadBudget::default();
    let stream = CheckedStream::new(stream, budget.clone());
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (requests, connection) = handshake.map_err(|_| OriginError::Unreachable)?;
    spawn_local(async move {
        // Its errors are returned to the reader of the response.
        drop(connection.await);
        drop(permit);
    });
    Ok(Sender { requests, budget })
}
