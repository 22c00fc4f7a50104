//! Opening a connection to a target.

use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use penstock_tls::OutboundError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;

use super::OriginError;
use super::connections::Sender;
use super::target::{HttpOrigin, Target};

/// Connects, with TLS where the target speaks it. The permit, if it takes one, is given back when the
/// connection ends.
pub(super) async fn dial(
    origin: &HttpOrigin,
    target: &Target,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let failed = |error: OriginError, why: String| {
        target.set_fault(why);
        error
    };
    let dialled = TcpStream::connect((target.url.host(), target.url.port())).await;
    let socket = dialled.map_err(|error| {
        let timed_out = error.kind() == std::io::ErrorKind::TimedOut;
        let meaning = if timed_out { OriginError::Timeout } else { OriginError::Unreachable };
        failed(meaning, format!("cannot connect: {error}"))
    })?;
    // Requests are one small packet each: nothing to gain from waiting.
    drop(socket.set_nodelay(true));
    let mut builder = Builder::new();
    // Larger than a head may be, which is looked at when it is here.
    builder.max_buf_size(origin.limits().read_bytes).max_headers(origin.limits().head_fields);
    if !target.url.is_secure() {
        return begin(&builder, socket, permit).await;
    }
    let Some(tls) = &target.tls else {
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

pub(super) async fn begin<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    builder: &Builder,
    stream: S,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|_| OriginError::Unreachable)?;
    spawn_local(async move {
        // Its errors come out where the response is read.
        drop(connection.await);
        drop(permit);
    });
    Ok(sender)
}
