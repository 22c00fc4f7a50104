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
) -> Result<(MultiplexedConnection, Driver), String> {
    let stream = open(address).await?;
    meter.answered();
    let bounded = Bounded { stream, meter: Arc::clone(meter) };
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

/// How much the store may send between two answered probes. The largest sessions of all handshakes at once are half of the bytes;
/// sealed records have a line feed in 256 bytes.
pub(crate) const ANSWERS: AnswerLimits = AnswerLimits { bytes: 16 << 20, lines: 256 << 10 };

/// How much a store may send between two answered probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerLimits {
    /// Bytes.
    pub(crate) bytes: usize,
    /// Line feeds. Each element of an answer has one at least, and takes more memory than bytes.
    pub(crate) lines: usize,
}

/// Counts what the store sends between two probes. Answers come in the order of the requests, so no part of one that is
/// older than the last answered probe is still kept.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: AnswerLimits,
    bytes: AtomicUsize,
    lines: AtomicUsize,
    exceeded: AtomicBool,
}

impl Meter {
    pub(crate) fn new(limits: AnswerLimits) -> Self {
        Self {
            limits,
            bytes: AtomicUsize::new(0),
            lines: AtomicUsize::new(0),
            exceeded: AtomicBool::new(false),
        }
    }

    /// A probe was answered.
    pub(crate) fn answered(&self) {
        self.bytes.store(0, Relaxed);
        self.lines.store(0, Relaxed);
    }

    /// Whether a connection ended because of its answers; the next call says no.
    pub(crate) fn take_exceeded(&self) -> bool {
        self.exceeded.swap(false, Relaxed)
    }

    /// Counts what was read; returns whether that is still an answer.
    fn fits(&self, read: &[u8]) -> bool {
        let feeds = read.iter().filter(|byte| **byte == b'\n').count();
        let bytes = self.bytes.fetch_add(read.len(), Relaxed) + read.len();
        let lines = self.lines.fetch_add(feeds, Relaxed) + feeds;
        let fits = bytes <= self.limits.bytes && lines <= self.limits.lines;
        if !fits {
            self.exceeded.store(true, Relaxed);
        }
        fits
    }
}

/// Ends a connection whose other side sends more than can be an answer: the library would keep all of it.
struct Bounded {
    stream: Box<dyn Stream>,
    meter: Arc<Meter>,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.meter.fits(&buffer.filled()[before..]) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::Error::other("the store sends more than was asked for")))
        }
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
