//! A stream as the task that answers its request sees it.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use penstock_egress::Transmission;

use super::detached::Detached;
use super::open_stream::OpenStream;
use super::open_streams::{SharedConnection, discard_files};
use crate::carrier::multiplexer::{Multiplexer, StreamCount, StreamHead};
use crate::clients::Upload;
use crate::metrics::ShortReason;

/// A stream whose work has not ended. Dropping it ends the stream.
pub(crate) struct StreamHandle<M: Multiplexer> {
    pub(super) shared: Rc<SharedConnection<M>>,
    pub(super) id: M::StreamId,
    /// Whether the connection ends the stream.
    is_detached: Cell<bool>,
    /// An upload that goes on while its response is sent, for the carrier of the response.
    upload: Cell<Option<Box<UploadRest>>>,
}

/// What is left of an upload.
pub(super) struct UploadRest {
    pub(super) upload: Box<Upload>,
    pub(super) received: u64,
    pub(super) limit: u64,
}

impl<M: Multiplexer> Drop for StreamHandle<M> {
    fn drop(&mut self) {
        if self.is_detached.get() {
            return;
        }
        let unsent = self.shared.state.borrow_mut().remove(self.id);
        self.shared.set_changed();
        M::count(&self.shared.worker.shard, StreamCount::Closed);
        discard_files(unsent, &self.shared.worker);
    }
}

impl<M: Multiplexer> StreamHandle<M> {
    pub(super) fn new(shared: &Rc<SharedConnection<M>>, id: M::StreamId) -> Self {
        Self { shared: Rc::clone(shared), id, is_detached: Cell::new(false), upload: Cell::default() }
    }

    /// Leaves the response, and the end of the stream, to the task of the connection.
    pub(super) fn detach(
        &self,
        head: StreamHead,
        transmission: Option<Transmission>,
        urgency: Option<u8>,
        detached: Box<Detached>,
    ) {
        self.is_detached.set(true);
        let mut state = self.shared.state.borrow_mut();
        state.detach(self.id, (head, transmission), urgency, detached, &self.shared);
        self.shared.set_changed();
    }

    /// Changes the open stream and tells the protocol what there is to send. `None` if the stream is not open, which does not
    /// happen.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut OpenStream<M>, &mut M) -> T) -> Option<T> {
        let mut state = self.shared.state.borrow_mut();
        let (open, protocol) = state.stream(self.id)?;
        let changed = change(open, protocol);
        protocol.set_outgoing(self.id, open.outgoing());
        self.shared.set_changed();
        Some(changed)
    }

    /// Waits until `ready` gives something, or the stream has ended early.
    ///
    /// # Errors
    /// Why it has.
    pub(super) async fn until<T>(
        &self,
        mut ready: impl FnMut(&mut OpenStream<M>) -> Option<T>,
    ) -> Result<T, ShortReason> {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            let Some((open, _)) = state.stream(self.id) else {
                return Poll::Ready(Err(ShortReason::ClientClosed));
            };
            if let Some(found) = ready(open) {
                return Poll::Ready(Ok(found));
            }
            if let Some(short) = open.short {
                return Poll::Ready(Err(short));
            }
            open.wait(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Waits until the client has finished its handshake; false if the connection ended before.
    pub(super) async fn until_handshake_finished(&self) -> bool {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if state.is_handshake_finished() {
                return Poll::Ready(true);
            }
            match state.stream(self.id) {
                Some((open, _)) if open.short.is_none() => {
                    open.wait(context.waker());
                    Poll::Pending
                }
                _ => Poll::Ready(false),
            }
        })
        .await
    }

    /// Has the head sent with the next batch.
    pub(super) fn send_head(&self, head: StreamHead) {
        self.with(|open, _| {
            open.set_head(head);
        });
    }

    /// Ends the stream behind its last byte, and waits until that was sent.
    ///
    /// # Errors
    /// Why the stream ended early.
    pub(super) async fn end(&self) -> Result<(), ShortReason> {
        self.with(|open, _| {
            open.transmission = None;
            open.end =
                open.short.is_none() && !open.is_whole && open.head.as_ref().is_none_or(|head| !head.end);
        });
        self.until(|open| open.is_whole.then_some(())).await
    }

    /// Resets the stream for this reason, if its response is not whole.
    pub(super) fn reset(&self, why: ShortReason) {
        self.with(|open, protocol| {
            if !open.is_whole {
                open.fail(ShortReason::Io);
                protocol.reset(open.stream, why);
            }
        });
    }

    /// Drops the body of the request, also what is still to come.
    pub(super) fn drop_body(&self) {
        self.with(OpenStream::drop_body);
    }

    /// Leaves the rest of an upload to the carrier of the response.
    pub(super) fn keep_upload(&self, rest: UploadRest) {
        self.upload.set(Some(Box::new(rest)));
    }

    /// Takes the rest of an upload that goes on while the response is sent.
    pub(super) fn take_upload(&self) -> Option<Box<UploadRest>> {
        self.upload.take()
    }
}
