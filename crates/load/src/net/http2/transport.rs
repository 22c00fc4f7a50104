//! The connection as the framing sees it: a stream of bytes that is polled.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::failure::LoadFailure;
use crate::net::link::{ClientConnection, ReadResult};

/// The bytes after which other tasks of the thread continue: without the pause, frames pile up before a stream reads them.
const BYTES_PER_TURN: usize = 256 * 1024;

/// A connection that the task of the framing and the requests share.
pub(super) struct SharedLink {
    connection: RefCell<ClientConnection>,
    ended: Cell<Option<LinkEnd>>,
}

/// How the server's side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkEnd {
    /// By FIN, in an orderly way or not.
    Closed,
    /// By RST.
    Reset,
    /// By a record that could not be opened, or an alert.
    Broken,
}

impl SharedLink {
    pub(super) fn new(connection: ClientConnection) -> Self {
        Self { connection: RefCell::new(connection), ended: Cell::new(None) }
    }

    pub(super) fn connection(&self) -> Ref<'_, ClientConnection> {
        self.connection.borrow()
    }

    pub(super) fn into_connection(self) -> ClientConnection {
        self.connection.into_inner()
    }

    /// How the server's side ended, if it has.
    pub(super) fn ended(&self) -> Option<LinkEnd> {
        self.ended.get()
    }
}

/// Reads and writes.
pub(super) struct Transport {
    link: Rc<SharedLink>,
    /// Bytes read since other tasks had their turn.
    taken: usize,
    /// Early data as it was written; the server may reject it.
    early: Vec<u8>,
    /// The bytes of `early` that must be written again.
    again: usize,
}

impl Transport {
    pub(super) fn new(link: Rc<SharedLink>) -> Self {
        Self { link, taken: 0, early: Vec::new(), again: 0 }
    }

    /// Writes rejected early data again.
    fn poll_again(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.again > 0 {
            let from = self.early.len() - self.again;
            let mut connection = self.link.connection.borrow_mut();
            match connection.write_some(&self.early[from..]) {
                Ok(Ok(count)) => self.again -= count,
                Ok(Err(waiting)) => ready!(connection.poll_ready(waiting, context)),
                Err(failure) => return Poll::Ready(Err(not_written(failure))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that the server rejected early data.
    fn reject_early(&mut self) {
        self.again = self.early.len();
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.taken >= BYTES_PER_TURN {
            this.taken = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let mut connection = this.link.connection.borrow_mut();
            let end = match connection.read(into.initialize_unfilled()) {
                ReadResult::Bytes(count) => {
                    into.advance(count);
                    this.taken += count;
                    return Poll::Ready(Ok(()));
                }
                ReadResult::Wait(waiting) => {
                    // The connection is idle: other tasks have their turn.
                    this.taken = 0;
                    ready!(connection.poll_ready(waiting, context));
                    continue;
                }
                ReadResult::EarlyDataRefused => {
                    drop(connection);
                    this.reject_early();
                    // What does not fit into the socket is written with the next frame.
                    if let Poll::Ready(Err(error)) = this.poll_again(context) {
                        return Poll::Ready(Err(error));
                    }
                    continue;
                }
                ReadResult::End | ReadResult::Cut => LinkEnd::Closed,
                ReadResult::Reset => LinkEnd::Reset,
                ReadResult::Broken => LinkEnd::Broken,
            };
            this.link.ended.set(Some(end));
            return Poll::Ready(match end {
                LinkEnd::Closed => Ok(()),
                LinkEnd::Reset => Err(io::ErrorKind::ConnectionReset.into()),
                LinkEnd::Broken => Err(io::ErrorKind::InvalidData.into()),
            });
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            ready!(this.poll_again(context))?;
            let mut connection = this.link.connection.borrow_mut();
            let is_early = connection.is_in_early_data();
            match connection.write_some(bytes) {
                Ok(Ok(0)) if !bytes.is_empty() => {
                    drop(connection);
                    this.reject_early();
                }
                Ok(Ok(count)) => {
                    if is_early {
                        this.early.extend_from_slice(&bytes[..count]);
                    }
                    return Poll::Ready(Ok(count));
                }
                Ok(Err(waiting)) => ready!(connection.poll_ready(waiting, context)),
                Err(failure) => return Poll::Ready(Err(not_written(failure))),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_again(context)
    }

    /// Does nothing: the connection is ended by its owner, in the way of the plan.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn not_written(failure: LoadFailure) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, failure.name().into_owned())
}
