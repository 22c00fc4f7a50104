//! Connections with origins as hyper reads them: an end that TLS does not confirm is an error, and the bytes before
//! the end of a response head are bounded.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use penstock_sys::ssl::end::has_received_close_notify;
use penstock_tls::OutboundStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the end of a stream is the end that its other side intended.
pub(super) trait ConfirmedEnd {
    /// Called after a read that returned no bytes.
    fn is_end_confirmed(&self) -> bool;
}

impl ConfirmedEnd for TcpStream {
    /// Plain TCP cannot tell.
    fn is_end_confirmed(&self) -> bool {
        true
    }
}

impl ConfirmedEnd for OutboundStream {
    /// A FIN without close_notify may come from an attacker (RFC 9112 §9.8).
    fn is_end_confirmed(&self) -> bool {
        has_received_close_notify(self.ssl())
    }
}

/// Bytes that may still arrive before the end of a response head. Interim responses count, since HTTP does not
/// bound their number.
#[derive(Clone, Default)]
pub(super) struct HeadBudget(Rc<Cell<Budget>>);

#[derive(Clone, Copy, Default)]
enum Budget {
    /// No head is awaited.
    #[default]
    Unlimited,
    Left(usize),
    Exceeded,
}

impl HeadBudget {
    /// Begins to count before a request.
    pub(super) fn begin(&self, bytes: usize) {
        self.0.set(Budget::Left(bytes));
    }

    /// Stops counting at the end of a head. Returns whether too many bytes came before.
    pub(super) fn end(&self) -> bool {
        matches!(self.0.replace(Budget::Unlimited), Budget::Exceeded)
    }

    /// Counts bytes; false if they are too many.
    fn take(&self, bytes: usize) -> bool {
        let next = match self.0.get() {
            Budget::Unlimited => return true,
            Budget::Left(left) => left.checked_sub(bytes).map_or(Budget::Exceeded, Budget::Left),
            Budget::Exceeded => Budget::Exceeded,
        };
        self.0.set(next);
        !matches!(next, Budget::Exceeded)
    }
}

/// A stream that checks its end and its budget.
pub(super) struct CheckedStream<S> {
    stream: S,
    budget: HeadBudget,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S, budget: HeadBudget) -> Self {
        Self { stream, budget }
    }
}

impl<S: AsyncRead + ConfirmedEnd + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, space) = (buffer.filled().len(), buffer.remaining());
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        if count == 0 && space > 0 && !self.stream.is_end_confirmed() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        if !self.budget.take(count) {
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
