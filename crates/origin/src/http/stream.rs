//! Connections with origins as hyper reads them: an end that TLS does not confirm is an error, the bytes before the end of a
//! response head are bounded, and a head that comes without its body is acknowledged at once.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use penstock_sys::ssl::end::has_received_close_notify;
use penstock_tls::OutboundStream;
use rustix::net::sockopt::set_tcp_quickack;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What TCP and TLS do differently.
pub(super) trait ServerStream {
    /// Whether the end of the stream is the end that its other side intended. Called after a read that returned no bytes.
    fn is_end_confirmed(&self) -> bool;

    /// Acknowledges at once what has come. A server that writes head and body apart, with Nagle's algorithm, keeps the body
    /// back until the head is acknowledged, and the kernel delays that by up to 40 ms.
    fn acknowledge(&self);
}

impl ServerStream for TcpStream {
    /// Plain TCP cannot tell.
    fn is_end_confirmed(&self) -> bool {
        true
    }

    fn acknowledge(&self) {
        // Without it the body comes later.
        let _acknowledged = set_tcp_quickack(self, true);
    }
}

impl ServerStream for OutboundStream {
    /// A FIN without close_notify may come from an attacker (RFC 9112 §9.8).
    fn is_end_confirmed(&self) -> bool {
        has_received_close_notify(self.ssl())
    }

    fn acknowledge(&self) {
        self.get_ref().acknowledge();
    }
}

/// Where the response on a connection is.
#[derive(Clone, Default)]
pub(super) struct HeadProgress(Rc<Cell<Progress>>);

#[derive(Clone, Copy, Default)]
enum Progress {
    /// No head is awaited.
    #[default]
    Elsewhere,
    /// Bytes that may still arrive before the end of a head. Interim responses count, since HTTP does not bound their number.
    Head {
        left: usize,
        /// Whether the last read ended with a head behind which something has to come.
        is_bare: bool,
    },
    /// Too many bytes came before the end of a head.
    Exceeded,
}

impl HeadProgress {
    /// Begins to count before a request.
    pub(super) fn begin(&self, bytes: usize) {
        self.0.set(Progress::Head { left: bytes, is_bare: false });
    }

    /// Stops counting at the end of a head. Returns whether too many bytes came before.
    pub(super) fn end(&self) -> bool {
        matches!(self.0.replace(Progress::Elsewhere), Progress::Exceeded)
    }

    /// Counts bytes; false if they are too many.
    fn take(&self, bytes: &[u8]) -> bool {
        if let Progress::Head { left, .. } = self.0.get() {
            let counted = left.checked_sub(bytes.len());
            let is_bare = is_bare_head(bytes);
            self.0.set(counted.map_or(Progress::Exceeded, |left| Progress::Head { left, is_bare }));
        }
        !matches!(self.0.get(), Progress::Exceeded)
    }

    /// Notes that a read has to wait. Returns whether it is the first one behind a head that came alone.
    fn wait(&self) -> bool {
        match self.0.get() {
            Progress::Head { left, is_bare: true } => {
                self.0.set(Progress::Head { left, is_bare: false });
                true
            }
            _ => false,
        }
    }
}

/// Whether bytes that were read end with a head, unless its status says that no body follows.
fn is_bare_head(bytes: &[u8]) -> bool {
    const STATUS_AT: usize = "HTTP/1.1 ".len();
    let status = bytes.get(STATUS_AT..STATUS_AT + 3).unwrap_or_default();
    bytes.ends_with(b"\r\n\r\n") && !matches!(status, b"204" | b"304")
}

/// A stream that checks its end, and the bytes before the end of a head.
pub(super) struct CheckedStream<S> {
    stream: S,
    progress: HeadProgress,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S, progress: HeadProgress) -> Self {
        Self { stream, progress }
    }
}

impl<S: AsyncRead + ServerStream + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, space) = (buffer.filled().len(), buffer.remaining());
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            if self.progress.wait() {
                self.stream.acknowledge();
            }
            return Poll::Pending;
        };
        read?;
        let new = &buffer.filled()[before..];
        if new.is_empty() && space > 0 && !self.stream.is_end_confirmed() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        if !self.progress.take(new) {
            return Poll::Ready(Err(io::Error::other("too many bytes before the end of a head")));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
