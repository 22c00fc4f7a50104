//! The body of a stream's request.

use std::time::Instant;

use penstock_config::limits;
use penstock_http::{BodyFraming, Rejection, Request, ResponseHead, Status};
use tokio::time::timeout_at;

use super::handle::{StreamHandle, UploadRest};
use super::open_stream::BodyEnd;
use crate::carrier::multiplexer::Multiplexer;
use crate::clients::{BodyPiece, ClientBody, Upload};
use crate::settings::Settings;

/// The body of a stream's request.
pub(super) struct StreamBody<'s, M: Multiplexer> {
    stream: &'s StreamHandle<M>,
    framing: BodyFraming,
    /// Whether the client waits for the answer before it sends the body.
    is_held_back: bool,
    /// Until when a body that is not used is read past.
    deadline: Instant,
    received: u64,
    limit: u64,
}

impl<'s, M: Multiplexer> StreamBody<'s, M> {
    pub(super) fn new(
        stream: &'s StreamHandle<M>,
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
    pub(super) fn rest(stream: &'s StreamHandle<M>, received: u64, limit: u64) -> Self {
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
        self.stream.drop_body();
        Ok(())
    }
}

/// Interim responses of a stream that wait for the client at most.
const INTERIM_MAX: usize = 4;

const TOO_LARGE: Rejection =
    Rejection { status: Status::ContentTooLarge, reason: "body_too_large", close: false };
const BROKEN_OFF: Rejection =
    Rejection { status: Status::BadRequest, reason: "body_broken_off", close: false };

impl<M: Multiplexer> ClientBody for StreamBody<'_, M> {
    async fn pass_over(&mut self) -> Result<bool, Rejection> {
        match self.framing {
            BodyFraming::None => {}
            _ if self.is_held_back => {
                self.stream.drop_body();
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
        self.stream.with(|open, _| {
            if open.short.is_none() && open.body.end == BodyEnd::Open {
                open.interim.push_back(ResponseHead::new(100));
            }
        });
    }

    async fn send_interim(&mut self, head: ResponseHead) {
        self.stream.with(|open, _| {
            if open.short.is_none() && open.interim.len() < INTERIM_MAX {
                open.interim.push_back(head);
            }
        });
    }

    fn take(&mut self) -> Result<BodyPiece, Rejection> {
        let taken = self.stream.with(|open, _| {
            let piece = open.body.pieces.pop_front();
            let has_more = !open.body.pieces.is_empty();
            let is_last = open.body.end == BodyEnd::Whole && !has_more;
            let is_broken_off = match open.body.end {
                BodyEnd::Open => open.short.is_some(),
                BodyEnd::Whole => false,
                BodyEnd::BrokenOff => true,
            };
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
        self.stream.with(|open, protocol| protocol.release(open.stream, bytes));
    }

    async fn wait_for_more(&mut self, deadline: Instant) -> bool {
        let came = self
            .stream
            .until(|open| (!open.body.pieces.is_empty() || open.body.end != BodyEnd::Open).then_some(()));
        matches!(timeout_at(deadline.into(), came).await, Ok(Ok(())))
    }

    async fn departed(&self) {
        // An error: the stream was reset, or its connection has ended.
        let _gone = self.stream.until(|_| None::<()>).await;
    }

    fn go_on(&mut self, upload: Box<Upload>) {
        let Self { received, limit, .. } = *self;
        self.stream.keep_upload(UploadRest { upload, received, limit });
    }
}
