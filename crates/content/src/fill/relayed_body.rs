//! The body of a response that is relayed without the cache.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use penstock_egress::{ExternalBytes, Part, SocketSource};
use penstock_origin::http::{OriginError, RelayedResponse};

use crate::context::Context;
use crate::fault::{BodyError, FillFault};
use crate::fill::body_stream::{BodyChunk, external};
use crate::networks::NetworkEntry;
use crate::origin::BodyReceiver;

/// A body on its way from a server to one client.
pub struct RelayedBody {
    from: BodyFrom,
    /// Length of the body, if it is known.
    length: Option<u64>,
    /// Whether the carrier takes bytes from a socket.
    may_move: bool,
    /// Bytes that are still to be moved from the socket, if the body is.
    moving: Option<u64>,
    /// Bytes of the body so far.
    taken: u64,
    /// Bytes of a body of unknown length.
    taken_max: u64,
    _place: Option<NetworkEntry>,
}

/// Where a body comes from.
enum BodyFrom {
    Server(Box<RelayedResponse>),
    /// The task that forwards a request with a body.
    Task(BodyReceiver),
}

impl RelayedBody {
    /// The body of a response. Without a length it is cut short behind `unannounced_max` bytes.
    pub(crate) fn of_server(
        response: RelayedResponse,
        may_move: bool,
        unannounced_max: u64,
        place: NetworkEntry,
    ) -> Self {
        let length = response.length();
        let taken_max = length.map_or(unannounced_max, |_| u64::MAX);
        let from = BodyFrom::Server(Box::new(response));
        Self { from, length, may_move, moving: None, taken: 0, taken_max, _place: Some(place) }
    }

    /// The body of the response to a forwarded request.
    pub(crate) fn of_task(receiver: BodyReceiver, length: Option<u64>) -> Self {
        let from = BodyFrom::Task(receiver);
        Self { from, length, may_move: false, moving: None, taken: 0, taken_max: u64::MAX, _place: None }
    }

    /// The next bytes, as soon as there are any; `None` behind the last. Bytes that the kernel can move by itself are one
    /// chunk, which is complete when this is called again.
    ///
    /// # Errors
    /// [`BodyError::Gone`].
    pub(crate) async fn next(&mut self, context: &Rc<Context>) -> Result<Option<BodyChunk>, BodyError> {
        let response = match &mut self.from {
            BodyFrom::Server(response) => response,
            BodyFrom::Task(receiver) => {
                let Some(pieces) = receiver.next().await? else { return Ok(None) };
                let chunk = chunk_of(pieces);
                self.taken += chunk.length;
                return Ok(Some(chunk));
            }
        };
        if let Some(left) = self.moving.take() {
            context.metrics.filled(left);
            response.end_moved();
            return Ok(None);
        }
        if self.may_move
            && let Some((read, socket, left)) = response.take_socket()
        {
            self.moving = Some(left);
            context.metrics.filled(read.len() as u64);
            let length = read.len() as u64 + left;
            let source = Part::Source(SocketSource::new(socket, left));
            return Ok(Some(BodyChunk::of([Part::External(ExternalBytes::new(read)), source], length)));
        }
        let pieces = response.next().await.map_err(|error| failed(context, error.into()))?;
        let Some(pieces) = pieces else { return Ok(None) };
        let chunk = chunk_of(pieces);
        context.metrics.filled(chunk.length);
        self.taken += chunk.length;
        if self.taken > self.taken_max {
            return Err(failed(context, FillFault::TooLong));
        }
        Ok(Some(chunk))
    }

    /// Whether the chunk before was the last, as far as that is known already.
    pub(crate) fn is_at_end(&self) -> bool {
        self.moving.is_some() || self.length == Some(self.taken)
    }

    /// How long the socket may have no bytes.
    pub(crate) fn patience(&self) -> Duration {
        match &self.from {
            BodyFrom::Server(response) => response.patience(),
            BodyFrom::Task(_) => Duration::ZERO,
        }
    }

    /// Counts time in which the socket had no bytes. `left` bytes of the chunk are still to be sent.
    ///
    /// # Errors
    /// [`BodyError::Gone`]: the server is too slow.
    pub(crate) fn count_wait(
        &mut self,
        context: &Context,
        waited: Duration,
        left: u64,
    ) -> Result<(), BodyError> {
        let BodyFrom::Server(response) = &mut self.from else { return Ok(()) };
        let moved = self.moving.map_or(0, |before| before.saturating_sub(left));
        self.moving = Some(left);
        context.metrics.filled(moved);
        let moved = usize::try_from(moved).unwrap_or(usize::MAX);
        response.count_wait(waited, moved).map_err(|error| failed(context, error.into()))
    }
}

impl RelayedBody {
    /// Counts for its server that bytes which were to be moved did not come.
    pub(crate) fn count_fault(&mut self, error: OriginError) {
        if let BodyFrom::Server(response) = &mut self.from {
            response.count_fault(error);
        }
    }
}

fn chunk_of(pieces: Vec<Bytes>) -> BodyChunk {
    let length = pieces.iter().map(|piece| piece.len() as u64).sum();
    BodyChunk::of(external(pieces), length)
}

/// Counts a fault.
fn failed(context: &Context, fault: FillFault) -> BodyError {
    context.metrics.origin(fault.label());
    BodyError::Gone(Some(fault))
}
