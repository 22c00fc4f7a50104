//! Opening a connection to a server.

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use penstock_tls::OutboundError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;

use super::body::Outgoing;
use super::error::OriginError;
use super::origin::HttpOrigin;
use super::server::Server;
use super::stream::{CheckedStream, ConfirmedEnd, HeadBudget};

/// Sends requests on one connection.
pub(super) struct Sender {
    pub(super) requests: SendRequest<Outgoing>,
    pub(super) budget: HeadBudget,
}

impl Sender {
    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// Connects, with TLS if the URL of the server says so. The permit is given back when the connection ends.
pub(super) async fn dial(
    origin: &HttpOrigin,
    server: &Server,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let failed = |error: OriginError, why: String| {
        server.set_fault(why);
        error
    };
    let dialled = TcpStream::connect((server.url.host(), server.url.port())).await;
    let socket = dialled.map_err(|error| {
        let timed_out = error.kind() == std::io::ErrorKind::TimedOut;
        let meaning = if timed_out { OriginError::Timeout } else { OriginError::Unreachable };
        failed(meaning, format!("cannot connect: {error}"))
    })?;
    // Requests are one small packet each: nothing to gain from waiting.
    drop(socket.set_nodelay(true));
    let mut builder = Builder::new();
    // Larger than a head may be: its length is compared with the limit once it is parsed.
    builder.max_buf_size(origin.limits().read_bytes).max_headers(origin.limits().head_fields);
    if !server.url.is_secure() {
        return begin(&builder, socket, permit).await;
    }
    let Some(tls) = &server.tls else {
        let why = "there is no authority to verify its certificate by".to_owned();
        return Err(failed(OriginError::Certificate, why));
    };
    let stream = tls.connect(socket).await.map_err(|error| {
        let meaning = match &error {
            OutboundError::Certificate(_) => OriginError::Certificate,
            OutboundError::Handshake(_) => OriginError::Handshake,
        };
        failed(meaning, error.to_string())
    })?;
    begin(&builder, stream, permit).await
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
