//! A connection whose bodies need not be read by this program.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use penstock_tls::OutboundStream;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;

use crate::http::dial::{connect, shake_hands, write_all};
use crate::http::error::OriginError;
use crate::http::origin::HttpOrigin;
use crate::http::pool::Poolable;
use crate::http::server::Server;
use crate::http::stream::ServerStream;

/// A connection to a server. It counts among those of its server until it is dropped.
pub(in crate::http) struct Stream {
    transport: Transport,
    _permit: OwnedSemaphorePermit,
}

enum Transport {
    Plain(Rc<TcpStream>),
    Tls(Box<OutboundStream>),
}

impl Poolable for Stream {
    async fn open(
        origin: &HttpOrigin,
        server: &Server,
        client: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, OriginError> {
        let socket = connect(origin, server, client, origin.limits().connect).await?;
        let transport = if server.url.is_secure() {
            Transport::Tls(Box::new(shake_hands(server, socket).await?))
        } else {
            Transport::Plain(Rc::new(socket))
        };
        Ok(Self { transport, _permit: permit })
    }

    async fn ready(&mut self) -> bool {
        true
    }

    /// No call to the system as long as nothing has come: the runtime knows that.
    fn is_closed(&mut self) -> bool {
        match &mut self.transport {
            Transport::Plain(socket) => is_readable(socket),
            Transport::Tls(stream) => has_content(stream),
        }
    }
}

/// Whether bytes, the end or an error have come. Bytes that were not asked for cannot belong to the next response.
fn is_readable(socket: &TcpStream) -> bool {
    let peeked = socket.try_io(Interest::READABLE, || {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        Ok(rustix::net::recv(socket, &mut [0_u8], flags)?.0)
    });
    peeked.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |_| true)
}

/// Whether application data, the end or an error have come. Reads what belongs to TLS itself: a server may send tickets
/// at any time.
fn has_content(stream: &mut OutboundStream) -> bool {
    let read = poll_fn(|context| {
        let mut byte = [0];
        Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut byte))
    });
    // A task that has used up its budget would see nothing.
    pin!(unconstrained(read)).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

impl Stream {
    /// Writes all of `bytes`.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = match &mut self.transport {
            Transport::Plain(socket) => return write_all(socket, bytes).await,
            Transport::Tls(stream) => stream,
        };
        let mut left = bytes;
        poll_fn(|context| {
            while !left.is_empty() {
                let count = ready!(Pin::new(&mut *stream).poll_write(context, left))?;
                left = left.get(count..).filter(|_| count > 0).ok_or(io::ErrorKind::WriteZero)?;
            }
            Pin::new(&mut *stream).poll_flush(context)
        })
        .await
    }

    /// Reads what has come, up to `most` bytes; none at the end of the connection.
    pub(super) async fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        match &mut self.transport {
            Transport::Plain(socket) => read_plain(socket, most).await,
            Transport::Tls(stream) => poll_fn(|context| poll_read_tls(stream, context, most)).await,
        }
    }

    /// Reads what has come, up to `most` bytes; none at the end of the connection. For a reader that writes meanwhile.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>, most: usize) -> Poll<io::Result<Vec<u8>>> {
        match &mut self.transport {
            Transport::Plain(socket) => loop {
                ready!(socket.poll_read_ready(context))?;
                // No memory while nothing comes.
                let mut bytes = vec![0; most];
                match socket.try_read(&mut bytes) {
                    Ok(count) => {
                        bytes.truncate(count);
                        return Poll::Ready(Ok(bytes));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            },
            Transport::Tls(stream) => poll_read_tls(stream, context, most),
        }
    }

    /// Writes some of `bytes`.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(socket) => loop {
                ready!(socket.poll_write_ready(context))?;
                match socket.try_write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    written => return Poll::Ready(written),
                }
            },
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    /// Ends the sending direction, with close_notify where there is TLS.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(socket) => {
                Poll::Ready(shutdown(&**socket, Shutdown::Write).map_err(io::Error::from))
            }
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }

    /// Acknowledges at once what has come.
    pub(super) fn acknowledge(&self) {
        match &self.transport {
            Transport::Plain(socket) => socket.acknowledge(),
            Transport::Tls(stream) => stream.acknowledge(),
        }
    }

    /// The socket, if its bytes are those of the body.
    pub(super) fn socket(&self) -> Option<&Rc<TcpStream>> {
        match &self.transport {
            Transport::Plain(socket) => Some(socket),
            Transport::Tls(_) => None,
        }
    }

    /// Whether a body that ends with the connection is known to be whole.
    pub(super) fn proves_end(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }
}

/// Reads application data, up to `most` bytes; none behind close_notify.
fn poll_read_tls(
    stream: &mut OutboundStream,
    context: &mut Context<'_>,
    most: usize,
) -> Poll<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; most];
    let mut buffer = ReadBuf::new(&mut bytes);
    ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
    let count = buffer.filled().len();
    if count == 0 && !stream.is_end_confirmed() {
        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
    }
    bytes.truncate(count);
    Poll::Ready(Ok(bytes))
}

async fn read_plain(socket: &TcpStream, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most);
    loop {
        socket.readable().await?;
        let mut short = false;
        let read = socket.try_io(Interest::READABLE, || {
            let count = rustix::io::read(socket, spare_capacity(&mut bytes))?;
            // A short count also clears the readiness, which saves the call that would only say "empty". The end of
            // the connection is remembered by the runtime.
            short = count > 0 && count < most;
            if short { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match read {
            Ok(()) => return Ok(bytes),
            Err(_) if short => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
