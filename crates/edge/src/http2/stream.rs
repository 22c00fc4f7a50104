//! A stream as the carrier of one response, and of the request's body.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use penstock_config::limits;
use penstock_egress::{Parts, SendError, Step, Transmission};
use penstock_http::{BodyFraming, Rejection, Request, Status};
use penstock_http2::{ErrorCode, ServerConnection, StreamId};
use tokio::time::timeout_at;

use super::detached::Detached;
use super::slot::{Head, Pause, Slot};
use super::state::{Shared, discard_files};
use crate::carrier::Carrier;
use crate::clients::{BodyPiece, ClientBody, Upload};
use crate::metrics::ShortReason;
use crate::settings::Settings;

/// A stream whose work has not ended. Dropping it ends the stream.
pub(super) struct Stream {
    pub(super) shared: Rc<Shared>,
    pub(super) id: StreamId,
    /// Whether the connection ends the stream.
    is_detached: Cell<bool>,
    /// An upload that goes on while its response is sent, for the carrier of the response.
    upload: Cell<Option<Box<UploadRest>>>,
}

/// What is left of an upload.
struct UploadRest {
    upload: Box<Upload>,
    received: u64,
    limit: u64,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_detached.get() {
            return;
        }
        let unsent = self.shared.state.borrow_mut().remove(self.id);
        self.shared.set_changed();
        self.shared.worker.shard.stream_closed();
        discard_files(unsent, &self.shared);
    }
}

impl Stream {
    pub(super) fn new(shared: &Rc<Shared>, id: StreamId) -> Self {
        Self { shared: Rc::clone(shared), id, is_detached: Cell::new(false), upload: Cell::default() }
    }

    /// Leaves the response, and the end of the stream, to the task of the connection.
    pub(super) fn detach(
        &self,
        head: Head,
        transmission: Option<Transmission>,
        urgency: Option<u8>,
        detached: Box<Detached>,
    ) {
        self.is_detached.set(true);
        let mut state = self.shared.state.borrow_mut();
        state.detach(self.id, (head, transmission), urgency, detached, &self.shared);
        self.shared.set_changed();
    }

    /// Changes the slot and tells the protocol what there is to send. `None` if the slot is gone, which does not happen.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Slot, &mut ServerConnection) -> T) -> Option<T> {
        let mut state = self.shared.state.borrow_mut();
        let (slot, protocol) = state.slot(self.id)?;
        let changed = change(slot, protocol);
        protocol.set_outgoing(self.id, slot.outgoing());
        self.shared.set_changed();
        Some(changed)
    }

    /// Waits until `ready` gives something, or the stream has ended early.
    ///
    /// # Errors
    /// Why it has.
    async fn until<T>(&self, mut ready: impl FnMut(&mut Slot) -> Option<T>) -> Result<T, ShortReason> {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            let Some((slot, _)) = state.slot(self.id) else {
                return Poll::Ready(Err(ShortReason::ClientClosed));
            };
            if let Some(found) = ready(slot) {
                return Poll::Ready(Ok(found));
            }
            if let Some(short) = slot.short {
                return Poll::Ready(Err(short));
            }
            slot.wait(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Waits until the client has finished its handshake; false if the connection ended before.
    pub(super) async fn until_handshake_finished(&self) -> bool {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if state.is_handshake_finished {
                return Poll::Ready(true);
            }
            match state.slot(self.id) {
                Some((slot, _)) if slot.short.is_none() => {
                    slot.wait(context.waker());
                    Poll::Pending
                }
                _ => Poll::Ready(false),
            }
        })
        .await
    }

    /// Has the head sent with the next batch.
    pub(super) fn send_head(&self, head: Head) {
        self.with(|slot, _| {
            slot.set_head(head);
        });
    }

    /// Ends the stream behind its last byte, and waits until that was sent.
    ///
    /// # Errors
    /// Why the stream ended early.
    pub(super) async fn end(&self) -> Result<(), ShortReason> {
        self.with(|slot, _| {
            slot.transmission = None;
            slot.end =
                slot.short.is_none() && !slot.is_whole && slot.head.as_ref().is_none_or(|head| !head.end);
        });
        self.until(|slot| slot.is_whole.then_some(())).await
    }

    /// Resets the stream, if its response is not whole.
    pub(super) fn reset(&self, code: ErrorCode) {
        self.with(|slot, protocol| {
            if !slot.is_whole {
                slot.fail(ShortReason::Io);
                protocol.reset(slot.stream, code);
            }
        });
    }
}

/// A stream that sends a response.
pub(super) struct StreamCarrier<'s> {
    stream: &'s Stream,
    /// What ended the last step behind the bytes that it sent.
    pause: Option<Pause>,
    /// An upload that goes on until the response has been sent.
    upload: Option<Box<(Box<Upload>, StreamBody<'s>)>>,
}

impl<'s> StreamCarrier<'s> {
    pub(super) fn new(stream: &'s Stream) -> Self {
        let upload = stream.upload.take().map(|rest| {
            let UploadRest { upload, received, limit } = *rest;
            Box::new((upload, StreamBody::rest(stream, received, limit)))
        });
        Self { stream, pause: None, upload }
    }

    /// Waits for `coming`, and sends the rest of the request's body on meanwhile.
    async fn beside_upload<T>(&mut self, coming: impl Future<Output = T>) -> T {
        let Some(rest) = &mut self.upload else { return coming.await };
        let mut coming = pin!(coming);
        let (upload, body) = &mut **rest;
        let sent = tokio::select! {
            biased;
            done = &mut coming => return done,
            sent = Box::pin(upload.run_beside_response(body)) => sent,
        };
        self.upload = None;
        if let Err(why) = sent {
            self.stream.with(|slot, _| slot.fail(why));
        }
        coming.await
    }
}

impl Carrier for StreamCarrier<'_> {
    fn frame(&self, parts: Parts, _length: u64) -> Parts {
        parts
    }

    fn end(&self) -> Parts {
        Parts::new()
    }

    /// The connection outlives its streams.
    fn finish(&self, _transmission: &mut Transmission) {}

    fn begin(&mut self, _transmission: &Transmission) {}

    /// Leaves the transmission to the task of the connection until that cannot go on with it.
    async fn advance(&mut self, transmission: &mut Transmission, _now: Instant) -> Result<Step, SendError> {
        if self.pause.is_none() && transmission.remaining() == 0 {
            return Ok(Step::Done);
        }
        if self.pause.is_none() {
            let before = transmission.remaining();
            self.stream.with(|slot, _| slot.begin(std::mem::take(transmission)));
            let stream = self.stream;
            let pause = self.beside_upload(stream.until(|slot| slot.pause.take())).await;
            self.stream.with(|slot, _| *transmission = slot.transmission.take().unwrap_or_default());
            // Told by `wait_until_writable`.
            let Ok(pause) = pause else { return Ok(Step::Blocked) };
            self.pause = Some(pause);
            let sent = usize::try_from(before - transmission.remaining()).unwrap_or(usize::MAX);
            if sent > 0 {
                return Ok(Step::Sent(sent));
            }
        }
        match self.pause.take() {
            Some(Pause::Cold(extent)) => Ok(Step::Cold(extent)),
            Some(Pause::Blocked) => Ok(Step::Blocked),
            Some(Pause::Failed(error)) => Err(error),
            Some(Pause::Done) | None => Ok(Step::Done),
        }
    }

    async fn between_steps(&mut self, _now: Instant) -> Option<ShortReason> {
        None
    }

    async fn wait_until_writable(&mut self, _sent: u64) -> Option<ShortReason> {
        // Nothing to send, but its turn comes as soon as the windows and the socket take more.
        self.stream.with(|slot, _| slot.begin(Transmission::default()));
        let stream = self.stream;
        let turn = self.beside_upload(stream.until(|slot| slot.pause.take())).await;
        self.stream.with(|slot, _| slot.transmission = None);
        turn.err()
    }

    async fn wait_for<T>(&mut self, coming: impl Future<Output = T>) -> Result<T, ShortReason> {
        let stream = self.stream;
        let coming = async {
            tokio::select! {
                biased;
                done = coming => Ok(done),
                Err(short) = stream.until(|_| None::<()>) => Err(short),
            }
        };
        self.beside_upload(coming).await
    }
}

/// The body of a stream's request.
pub(super) struct StreamBody<'s> {
    stream: &'s Stream,
    framing: BodyFraming,
    /// Whether the client waits for the answer before it sends the body.
    is_held_back: bool,
    /// Until when a body that is not used is read past.
    deadline: Instant,
    received: u64,
    limit: u64,
}

impl<'s> StreamBody<'s> {
    pub(super) fn new(
        stream: &'s Stream,
        request: &Request<'_>,
        started: Instant,
        settings: &Settings,
    ) -> Self {
        Self {
            stream,
            framing: request.body(),
            is_held_back: request.expect_continue() || request.has_unknown_expectation(),
            deadline: started + settings.limits.head_deadline,
            received: 0,
            limit: settings.limits.body_bytes,
        }
    }

    /// What is left of a body that is sent on.
    fn rest(stream: &'s Stream, received: u64, limit: u64) -> Self {
        let (framing, deadline) = (BodyFraming::Chunked, Instant::now());
        Self { stream, framing, is_held_back: false, deadline, received, limit }
    }

    /// Reads past a short body; a long one is dropped as it comes.
    ///
    /// # Errors
    /// The body has broken off.
    async fn read_past(&mut self) -> Result<(), Rejection> {
        self.limit = limits::DROPPED_BODY_BYTES;
        while self.check().is_ok() {
            let piece = match self.take() {
                Err(rejection) if rejection.status == Status::ContentTooLarge => break,
                taken => taken?,
            };
            self.taken(piece.content.len());
            if piece.is_last {
                return Ok(());
            }
            if !piece.has_more && !self.wait_for_more(self.deadline).await {
                // The next piece tells whether the stream has ended.
                self.take()?;
                break;
            }
        }
        self.stream.with(Slot::drop_body);
        Ok(())
    }
}

/// Interim responses of a stream that wait for the client at most.
const INTERIM_MAX: usize = 4;

const TOO_LARGE: Rejection =
    Rejection { status: Status::ContentTooLarge, reason: "body_too_large", close: false };
const BROKEN_OFF: Rejection =
    Rejection { status: Status::BadRequest, reason: "body_broken_off", close: false };

impl ClientBody for StreamBody<'_> {
    async fn pass_over(&mut self) -> Result<bool, Rejection> {
        match self.framing {
            BodyFraming::None => {}
            _ if self.is_held_back => {
                self.stream.with(Slot::drop_body);
            }
            // Boxed: few requests have a body.
            BodyFraming::Length(_) | BodyFraming::Chunked => Box::pin(self.read_past()).await?,
        }
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Rejection> {
        let is_too_large = matches!(self.framing, BodyFraming::Length(length) if length > self.limit);
        if is_too_large { Err(TOO_LARGE) } else { Ok(()) }
    }

    async fn send_continue(&mut self) {
        self.stream.with(|slot, _| {
            if slot.short.is_none() && !slot.body.is_whole {
                slot.interim.push_back((100, Vec::new()));
            }
        });
    }

    async fn send_interim(&mut self, status: u16, lines: Vec<u8>) {
        self.stream.with(|slot, _| {
            if slot.short.is_none() && slot.interim.len() < INTERIM_MAX {
                slot.interim.push_back((status, lines));
            }
        });
    }

    fn take(&mut self) -> Result<BodyPiece, Rejection> {
        let taken = self.stream.with(|slot, _| {
            let piece = slot.body.pieces.pop_front();
            let has_more = !slot.body.pieces.is_empty();
            let is_last = slot.body.is_whole && !has_more;
            let is_broken_off = slot.short.is_some() && !slot.body.is_whole;
            (piece.unwrap_or_default(), has_more, is_last, is_broken_off)
        });
        let Some((content, has_more, is_last, false)) = taken else { return Err(BROKEN_OFF) };
        let received = content.len() as u64;
        self.received += received;
        if self.received > self.limit {
            return Err(TOO_LARGE);
        }
        Ok(BodyPiece { content, received, is_last, has_more })
    }

    fn taken(&mut self, bytes: usize) {
        self.stream.with(|slot, protocol| protocol.release(slot.stream, bytes));
    }

    async fn wait_for_more(&mut self, deadline: Instant) -> bool {
        let came =
            self.stream.until(|slot| (!slot.body.pieces.is_empty() || slot.body.is_whole).then_some(()));
        matches!(timeout_at(deadline.into(), came).await, Ok(Ok(())))
    }

    async fn departed(&self) {
        // An error: the stream was reset, or its connection has ended.
        let _gone = self.stream.until(|_| None::<()>).await;
    }

    fn go_on(&mut self, upload: Box<Upload>) {
        let Self { received, limit, .. } = *self;
        self.stream.upload.set(Some(Box::new(UploadRest { upload, received, limit })));
    }
}
