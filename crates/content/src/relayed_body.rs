//! The body of a response that is relayed without the cache.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use penstock_egress::{ExternalBytes, Part, SocketSource};
use penstock_origin::http::RelayedResponse;

use crate::body_stream::{BodyChunk, external};
use crate::context::Context;
use crate::fault::{BodyError, FillFault};
use crate::networks::NetworkEntry;

/// A body on its way from a server to one client.
pub struct RelayedBody {
    response: RelayedResponse,
    /// Whether the carrier takes bytes from a socket.
    may_move: bool,
    /// Bytes that are still to be moved from the socket, if the body is.
    moving: Option<u64>,
    /// Bytes of the body so far.
    taken: u64,
    /// Bytes of a body of unknown length.
    taken_max: u64,
    _place: NetworkEntry,
}

impl RelayedBody {
    /// The body of a response. Without a length it is cut short behind `unannounced_max` bytes.
    pub(crate) fn new(
        response: RelayedResponse,
        may_move: bool,
        unannounced_max: u64,
        place: NetworkEntry,
    ) -> Self {
        let taken_max = response.length().map_or(unannounced_max, |_| u64::MAX);
        Self { response, may_move, moving: None, taken: 0, taken_max, _place: place }
    }

    /// The next bytes, as soon as there are any; `None` behind the last. Bytes that the kernel can move by itself are one
    /// chunk, which is complete when this is called again.
    ///
    /// # Errors
    /// [`BodyError::Gone`].
    pub(crate) async fn next(&mut self, context: &Rc<Context>) -> Result<Option<BodyChunk>, BodyError> {
        if let Some(left) = self.moving.take() {
            context.metrics.filled(left);
            self.response.end_moved();
            return Ok(None);
        }
        if self.may_move
            && let Some((read, socket, left)) = self.response.take_socket()
        {
            self.moving = Some(left);
            context.metrics.filled(read.len() as u64);
            let length = read.len() as u64 + left;
            let source = Part::Source(SocketSource::new(socket, left));
            return Ok(Some(BodyChunk::of(vec![Part::External(ExternalBytes::new(read)), source], length)));
        }
        let pieces = self.response.next().await.map_err(|error| failed(context, error.into()))?;
        let Some(pieces) = pieces else { return Ok(None) };
        let length = pieces.iter().map(|piece: &Bytes| piece.len() as u64).sum();
        context.metrics.filled(length);
        self.taken += length;
        if self.taken > self.taken_max {
            return Err(failed(context, FillFault::TooLong));
        }
        Ok(Some(BodyChunk::of(external(pieces), length)))
    }

    /// Whether the chunk before was the last, as far as that is known already.
    pub(crate) fn is_at_end(&self) -> bool {
        self.moving.is_some() || self.response.length() == Some(self.taken)
    }

    /// How long the socket may have no bytes.
    pub(crate) fn patience(&self) -> Duration {
        self.response.patience()
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
        let moved = self.moving.map_or(0, |before| before.saturating_sub(left));
        self.moving = Some(left);
        context.metrics.filled(moved);
        let moved = usize::try_from(moved).unwrap_or(usize::MAX);
        self.response.count_wait(waited, moved).map_err(|error| failed(context, error.into()))
    }
}

/// Counts a fault.
fn failed(context: &Context, fault: FillFault) -> BodyError {
    context.metrics.origin(fault.label());
    BodyError::Gone(Some(fault))
}
