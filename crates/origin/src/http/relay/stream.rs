//! A connection whose bodies need not be read by this program.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use penstock_tls::OutboundStream;
use rustix::buffer::spare_capacity;
use rustix::net::RecvFlags;
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
            Transport::Tls(stream) => {
                let mut bytes = vec![0; most];
                let count = poll_fn(|context| {
                    let mut buffer = ReadBuf::new(&mut bytes);
                    ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
                    Poll::Ready(io::Result::Ok(buffer.filled().len()))
                })
                .await?;
                if count == 0 && !stream.is_end_confirmed() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                bytes.truncate(count);
                Ok(bytes)
            }
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
