//! Connects to the store.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use penstock_sys::traffic::Secret;
use penstock_tls::Outbound;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Where the store is.
#[derive(Clone)]
pub enum StoreAddress {
    /// Over TCP.
    Tcp {
        /// A host name or IP address.
        host: String,
        /// The port.
        port: u16,
        /// TLS; `None` is plain.
        tls: Option<Arc<Outbound>>,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// How the store lets this program in.
#[derive(Clone)]
pub struct StoreLogin {
    /// The user; `None` is the default user.
    pub user: Option<String>,
    /// The password; `None` if it asks for none.
    pub password: Option<Secret>,
    /// The number of the database.
    pub database: u32,
}

/// Bytes that may wait to be written to the store.
const UNWRITTEN_BYTES: usize = 256 * 1024;

/// Requests that may wait for the connection's task.
const QUEUED: usize = 256;

/// Moves the bytes of a connection until it ends.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()>>>;

/// Connects and logs in. The second value drives the connection and has to be polled.
pub(crate) async fn connect(
    address: &StoreAddress,
    login: &StoreLogin,
    meter: &Arc<Meter>,
    answer_bytes_max: usize,
) -> Result<(MultiplexedConnection, Driver), String> {
    let stream = open(address).await?;
    meter.answered();
    let bounded = Bounded { stream, meter: Arc::clone(meter), most: answer_bytes_max };
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name().set_db(login.database.into());
    if let Some(user) = &login.user {
        info = info.set_username(user);
    }
    if let Some(password) = &login.password {
        let text =
            std::str::from_utf8(password.expose()).map_err(|_| "the password is no text".to_owned())?;
        info = info.set_password(text);
    }
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUED)
        .set_write_backpressure_boundary(UNWRITTEN_BYTES);
    let made = MultiplexedConnection::new_with_config(&info, bounded, config).await;
    let (connection, driver) = made.map_err(|error| error.to_string())?;
    Ok((connection, Box::pin(driver)))
}

async fn open(address: &StoreAddress) -> Result<Box<dyn Stream>, String> {
    match address {
        StoreAddress::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
            Ok(Box::new(stream))
        }
        StoreAddress::Tcp { host, port, tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(tls) => Ok(Box::new(tls.connect(stream).await.map_err(|error| error.to_string())?)),
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Counts what the store sends between two probes. Answers come in the order of the requests, so no part of one that is
/// older than the last answered probe is still kept.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicUsize,
    exceeded: AtomicBool,
}

impl Meter {
    /// A probe was answered.
    pub(crate) fn answered(&self) {
        self.bytes.store(0, Relaxed);
    }

    /// Whether a connection ended because of its answers; the next call says no.
    pub(crate) fn take_exceeded(&self) -> bool {
        self.exceeded.swap(false, Relaxed)
    }
}

/// Ends a connection whose other side sends more than can be an answer: the library would keep all of it.
struct Bounded {
    stream: Box<dyn Stream>,
    meter: Arc<Meter>,
    most: usize,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        if self.meter.bytes.fetch_add(read, Relaxed) + read > self.most {
            self.meter.exceeded.store(true, Relaxed);
            return Poll::Ready(Err(io::Error::other("the store sends more than was asked for")));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
