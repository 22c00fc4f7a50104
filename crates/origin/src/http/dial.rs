//! Opening a connection to a server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use penstock_http::proxy;
use penstock_metrics::{Work, doing_all};
use penstock_tls::{OutboundError, OutboundStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::body::Outgoing;
use super::error::OriginError;
use super::origin::HttpOrigin;
use super::pool::Poolable;
use super::server::Server;
use super::stream::{CheckedStream, HeadProgress, ServerStream};

/// The shortest time that one of several addresses gets for the TCP handshake: enough for a path around the world.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);

/// Sends requests on one connection.
pub(super) struct Sender {
    pub(super) requests: SendRequest<Outgoing>,
    pub(super) progress: HeadProgress,
}

impl Poolable for Sender {
    async fn open(
        origin: &HttpOrigin,
        server: &Server,
        client: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, OriginError> {
        dial(origin, server, client, Some(permit), origin.limits().connect).await
    }

    async fn ready(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }

    fn is_closed(&mut self) -> bool {
        self.requests.is_closed()
    }
}

/// Connects for a client, if there is one, with TLS if the URL of the server says so. The permit is given back when the
/// connection ends. The caller stops waiting after `within`.
pub(super) async fn dial(
    origin: &HttpOrigin,
    server: &Server,
    client: Option<SocketAddr>,
    permit: Option<OwnedSemaphorePermit>,
    within: Duration,
) -> Result<Sender, OriginError> {
    let socket = connect(origin, server, client, within).await?;
    let mut builder = Builder::new();
    // Larger than a head may be: its length is compared with the limit once it is parsed.
    builder.max_buf_size(origin.limits().read_bytes).max_headers(origin.limits().head_fields);
    if !server.url.is_secure() {
        return begin(&builder, socket, permit).await;
    }
    begin(&builder, shake_hands(server, socket).await?, permit).await
}

/// A connection, which begins with a PROXY header if the origin wants one. The caller stops waiting after `within`: that time
/// is divided among the addresses of the server.
pub(super) async fn connect(
    origin: &HttpOrigin,
    server: &Server,
    client: Option<SocketAddr>,
    within: Duration,
) -> Result<TcpStream, OriginError> {
    let deadline = Instant::now() + within;
    let dialled = match server.url.socket() {
        Some(path) => connect_to_socket(path).await.map_err(Arc::new),
        None => match server.lookups.resolve(server.url.host(), server.url.port()).await {
            Ok(addresses) => connect_to_any(&addresses, deadline).await.map_err(Arc::new),
            Err(error) => Err(error),
        },
    };
    let socket = dialled.map_err(|error| {
        server.set_fault(format!("cannot connect: {error}"));
        let timed_out = error.kind() == io::ErrorKind::TimedOut;
        if timed_out { OriginError::Timeout } else { OriginError::Unreachable }
    })?;
    // Requests are one small packet each: nothing to gain from waiting.
    drop(socket.set_nodelay(true));
    if origin.settings.proxy_protocol {
        // A Unix socket has no address that the header could name.
        let unspecified = |client: SocketAddr| match client {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
        };
        let addresses =
            client.map(|client| (client, socket.peer_addr().unwrap_or_else(|_| unspecified(client))));
        write_all(&socket, &proxy::v2_header(addresses)).await.map_err(|error| {
            server.set_fault(format!("cannot connect: {error}"));
            OriginError::Unreachable
        })?;
    }
    Ok(socket)
}

/// Connects to a Unix socket. What is called on the connection are calls of any stream socket, those that the kernel moves
/// bytes with included, so that it has the type of the others. Options of TCP fail on it, which their callers expect.
async fn connect_to_socket(path: &Path) -> io::Result<TcpStream> {
    let socket = UnixStream::connect(path).await?.into_std()?;
    TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(socket)))
}

/// Connects to the first of these addresses that accepts the connection, in their order. Each gets an equal part of the time
/// that is left, at least 250 ms; the last one has no bound of its own.
///
/// # Errors
/// That of the last address.
async fn connect_to_any(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let attempt = TcpStream::connect(address);
        let time_left = deadline.saturating_duration_since(Instant::now());
        let part = time_left / u32::try_from(left).unwrap_or(u32::MAX);
        let connected = match left {
            1 => attempt.await,
            _ => timeout(part.max(ADDRESS_TIME_MIN), attempt)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
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
            OutboundError::Certificate(_) | OutboundError::CertificateTime(_) => OriginError::Certificate,
            OutboundError::Handshake(_) => OriginError::Handshake,
        }
    })
}

pub(super) async fn begin<S: AsyncRead + AsyncWrite + ServerStream + Unpin + 'static>(
    builder: &Builder,
    stream: S,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Sender, OriginError> {
    let progress = HeadProgress::default();
    let stream = CheckedStream::new(stream, progress.clone());
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (requests, connection) = handshake.map_err(|_| OriginError::Unreachable)?;
    spawn_local(doing_all(
        Work::Filling,
        Box::pin(async move {
            // Its errors are returned to the reader of the response.
            drop(connection.await);
            drop(permit);
        }),
    ));
    Ok(Sender { requests, progress })
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// An address at which connections are never completed: its queue is full. The sockets keep it so.
    async fn blackhole() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
        }
        (address, listener, queued)
    }

    #[test]
    fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        run(async {
            let (dead, _listener, _queued) = blackhole().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let good = listener.local_addr().unwrap();
            let within = Duration::from_secs(2);
            let addresses = [dead, dead, good];
            let connected = timeout(within, connect_to_any(&addresses, Instant::now() + within)).await;
            let socket = connected.expect("the first addresses do not use up the time").unwrap();
            assert_eq!(socket.peer_addr().unwrap(), good);
            // Without any time left, each address still gets a little.
            let socket = connect_to_any(&[good, dead], Instant::now()).await.unwrap();
            assert_eq!(socket.peer_addr().unwrap(), good);
        });
    }

    #[test]
    fn addresses_that_refuse_cost_no_time_and_the_last_error_is_told() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let closed = listener.local_addr().unwrap();
            drop(listener);
            let deadline = Instant::now() + Duration::from_secs(60);
            let error = connect_to_any(&[closed, closed], deadline).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert!(connect_to_any(&[], deadline).await.is_err());
        });
    }
}
