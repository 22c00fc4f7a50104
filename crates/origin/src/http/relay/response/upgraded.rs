//! A connection that has switched to another protocol (RFC 9110 §7.8): bytes both ways, until each side has ended its own.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use hyper::body::Bytes;

use super::{ActiveRequest, Pooled};

/// A connection with a server that speaks another protocol now. It carries no further request; dropping it closes it.
pub struct Upgraded {
    connection: Pooled,
    /// Bytes that came behind the head of the response.
    read: Bytes,
    /// Whether reading comes first at the next call, so that neither direction keeps the other waiting.
    reads_first: bool,
    _active: ActiveRequest,
}

/// What a server is sent next.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'b> {
    /// Nothing for the moment.
    Nothing,
    /// These bytes, or some of them. A call that was dropped is repeated with the same bytes.
    Bytes(&'b [u8]),
    /// The end of this direction.
    End,
}

/// What has happened on such a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many of the bytes were sent.
    Sent(usize),
    /// The end was sent.
    SentEnd,
    /// The server takes no more bytes. It may still send some.
    Refused,
    /// These bytes came.
    Came(Vec<u8>),
    /// The server has ended its direction.
    Ended,
}

impl Upgraded {
    pub(super) fn new(connection: Pooled, read: Bytes, active: ActiveRequest) -> Self {
        Self { connection, read, reads_first: true, _active: active }
    }

    /// Waits until something of `outgoing` is sent, or, if `read_max` is not zero, until at most so many bytes come. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// The connection broke off.
    pub async fn moved(&mut self, outgoing: Outgoing<'_>, read_max: usize) -> io::Result<Moved> {
        if read_max > 0 && !self.read.is_empty() {
            let first = self.read.split_to(read_max.min(self.read.len()));
            return Ok(Moved::Came(first.to_vec()));
        }
        let moved = poll_fn(|context| {
            if self.reads_first
                && let Poll::Ready(came) = self.poll_read(context, read_max)
            {
                return Poll::Ready(came);
            }
            if let Poll::Ready(sent) = self.poll_send(context, outgoing) {
                return Poll::Ready(Ok(sent));
            }
            if self.reads_first { Poll::Pending } else { self.poll_read(context, read_max) }
        })
        .await?;
        self.reads_first = !matches!(moved, Moved::Came(_));
        Ok(moved)
    }

    fn poll_read(&mut self, context: &mut Context<'_>, most: usize) -> Poll<io::Result<Moved>> {
        if most == 0 {
            return Poll::Pending;
        }
        let bytes = ready!(self.connection.connection.poll_read(context, most))?;
        Poll::Ready(Ok(if bytes.is_empty() { Moved::Ended } else { Moved::Came(bytes) }))
    }

    /// An error of sending is no error of the connection: its last bytes may not have been read.
    fn poll_send(&mut self, context: &mut Context<'_>, outgoing: Outgoing<'_>) -> Poll<Moved> {
        let stream = &mut self.connection.connection;
        let sent = match outgoing {
            Outgoing::Nothing | Outgoing::Bytes([]) => return Poll::Pending,
            Outgoing::Bytes(bytes) => ready!(stream.poll_write(context, bytes)).map(Moved::Sent),
            Outgoing::End => ready!(stream.poll_end(context)).map(|()| Moved::SentEnd),
        };
        Poll::Ready(sent.unwrap_or(Moved::Refused))
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").field("read", &self.read.len()).finish_non_exhaustive()
    }
}
