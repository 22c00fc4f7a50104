//! A stream as the carrier of one response.

use std::pin::pin;
use std::time::Instant;

use penstock_egress::{Parts, SendError, Step, Transmission};

use super::body::StreamBody;
use super::handle::{StreamHandle, UploadRest};
use super::open_stream::{BodyEnd, Pause};
use crate::carrier::drive::Carrier;
use crate::carrier::multiplexer::Multiplexer;
use crate::clients::Upload;
use crate::metrics::ShortReason;

/// A stream that sends a response.
pub(super) struct StreamCarrier<'s, M: Multiplexer> {
    stream: &'s StreamHandle<M>,
    /// What ended the last step behind the bytes that it sent.
    pause: Option<Pause>,
    /// An upload that goes on until the response has been sent.
    upload: Option<Box<(Box<Upload>, StreamBody<'s, M>)>>,
}

impl<'s, M: Multiplexer> StreamCarrier<'s, M> {
    pub(super) fn new(stream: &'s StreamHandle<M>) -> Self {
        let upload = stream.take_upload().map(|rest| {
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
        match sent {
            // Without its sender the request to the origin would end, and the response with it.
            Err(_) if self.stream.with(|open, _| open.body.end) == Some(BodyEnd::BrokenOff) => {}
            Err(why) => {
                self.upload = None;
                self.stream.with(|open, _| open.fail(why));
            }
            Ok(()) => self.upload = None,
        }
        coming.await
    }
}

impl<M: Multiplexer> Carrier for StreamCarrier<'_, M> {
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
            self.stream.with(|open, _| open.begin(std::mem::take(transmission)));
            let stream = self.stream;
            let pause = self.beside_upload(stream.until(|open| open.pause.take())).await;
            self.stream.with(|open, _| *transmission = open.transmission.take().unwrap_or_default());
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
        self.stream.with(|open, _| open.begin(Transmission::default()));
        let stream = self.stream;
        let turn = self.beside_upload(stream.until(|open| open.pause.take())).await;
        self.stream.with(|open, _| open.transmission = None);
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
