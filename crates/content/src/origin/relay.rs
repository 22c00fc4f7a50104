//! A body that is for one client only. It does not enter the cache: it goes from the origin to the client through a few
//! pieces of memory, and a slow client slows its origin down.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use penstock_cache::Object;
use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::sync::{Semaphore, mpsc};

use crate::context::Context;
use crate::fault::{BodyError, FillFault};
use crate::object::ObjectMetadata;
use crate::origin::fetched_response::FetchedResponse;
use crate::origin::origin_request::{ask_for, part_request, wait_before_retry};
use crate::origins::OriginBody;
use crate::requester::Requester;

/// How a relay ended; `None` while it runs.
type RelayEnd = Rc<Cell<Option<Result<(), FillFault>>>>;

/// The sending end of a body. Dropped before [`Relay::run`] has sent all of it, the body is cut short.
pub(crate) struct BodySender {
    pieces: mpsc::Sender<Bytes>,
    space: Rc<Semaphore>,
    outcome: RelayEnd,
}

/// The receiving end of a body.
pub(crate) struct BodyReceiver {
    pieces: mpsc::Receiver<Bytes>,
    /// In bytes.
    space: Rc<Semaphore>,
    outcome: RelayEnd,
}

/// Whether a request may be sent to an origin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeatable {
    /// GET: bytes that are missing are asked for again.
    Yes,
    /// A request that may have an effect: it is sent once, and finished if the client leaves.
    No,
}

/// A body on its way from an origin to one client.
pub(crate) struct Relay<'w> {
    pub(crate) context: &'w Context,
    pub(crate) object: &'w Object<ObjectMetadata>,
    pub(crate) requester: Requester,
    pub(crate) sender: BodySender,
    pub(crate) repeatable: Repeatable,
}

/// Both ends of a body. At most [`limits::RELAY_BYTES`] and [`limits::RELAY_PIECES`] pieces are between them.
pub(crate) fn relay() -> (BodySender, BodyReceiver) {
    let (sender, receiver) = mpsc::channel(limits::RELAY_PIECES);
    let (space, outcome) = (Rc::new(Semaphore::new(limits::RELAY_BYTES as usize)), RelayEnd::default());
    let sender = BodySender { pieces: sender, space: Rc::clone(&space), outcome: Rc::clone(&outcome) };
    (sender, BodyReceiver { pieces: receiver, space, outcome })
}

/// The space that a piece takes. A piece larger than the whole space waits until it is alone.
fn space_for(piece: &Bytes) -> u32 {
    u32::try_from(piece.len()).unwrap_or(u32::MAX).min(limits::RELAY_BYTES)
}

impl BodySender {
    /// Sends a piece as soon as there is space for it; false if the receiver is gone.
    async fn send(&self, piece: Bytes) -> bool {
        match self.space.acquire_many(space_for(&piece)).await {
            // The receiver gives the space back.
            Ok(space) => space.forget(),
            Err(_) => return false,
        }
        self.pieces.send(piece).await.is_ok()
    }

    /// Sends all of a body that is not asked for again, and at most `unannounced_max` bytes of one without a length. If the
    /// receiver leaves, [`limits::RELAY_UNREAD_BYTES`] more are read.
    ///
    /// # Errors
    /// Why the rest does not come.
    pub(crate) async fn send_once(
        self,
        context: &Context,
        mut answer: Box<dyn OriginBody + '_>,
        unannounced_max: u64,
    ) -> Result<(), FillFault> {
        let outcome = self.send_pieces(context, &mut *answer, unannounced_max).await;
        // Before this is dropped, which is what the receiver sees.
        self.outcome.set(Some(outcome));
        outcome
    }

    async fn send_pieces(
        &self,
        context: &Context,
        answer: &mut (dyn OriginBody + '_),
        unannounced_max: u64,
    ) -> Result<(), FillFault> {
        let (mut sent, mut unread) = (0, 0);
        while let Some(piece) = answer.next().await? {
            let length = piece.len() as u64;
            context.metrics.filled(length);
            sent += length;
            if answer.length().is_none() && sent > unannounced_max {
                return Err(FillFault::TooLong);
            }
            if length > 0 && !self.send(piece).await {
                unread += length;
                if unread > limits::RELAY_UNREAD_BYTES {
                    return Err(FillFault::NoReaders);
                }
            }
        }
        Ok(())
    }
}

impl Drop for BodyReceiver {
    fn drop(&mut self) {
        self.space.close();
    }
}

impl BodyReceiver {
    /// The pieces that have come, at least one; `None` at the end of the body.
    ///
    /// # Errors
    /// [`BodyError::Gone`] if the body was cut short.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, BodyError> {
        let mut pieces = Vec::with_capacity(limits::RELAY_PIECES);
        match self.pieces.recv_many(&mut pieces, limits::RELAY_PIECES).await {
            0 => match self.outcome.get() {
                Some(Ok(())) => Ok(None),
                Some(Err(fault)) => Err(BodyError::Gone(Some(fault))),
                None => Err(BodyError::Gone(None)),
            },
            _ => {
                self.space.add_permits(pieces.iter().map(space_for).sum::<u32>() as usize);
                Ok(Some(pieces))
            }
        }
    }
}

impl<'w> Relay<'w> {
    /// Sends all of an object, of which `first` brings the beginning. The rest, and bytes lost with a broken connection,
    /// are asked for from where the last response ended.
    ///
    /// # Errors
    /// Why the rest does not come.
    pub(crate) async fn run(self, first: FetchedResponse<'w>) -> Result<(), FillFault> {
        let outcome = self.send_object(first).await;
        // Before the sender is dropped, which is what the receiver sees.
        self.sender.outcome.set(Some(outcome));
        outcome
    }

    async fn send_object(&self, first: FetchedResponse<'w>) -> Result<(), FillFault> {
        let Self { context, object, .. } = self;
        let (mut at, mut attempts, mut is_continued) = (0, 0, false);
        let mut outcome = self.send_all(first, 0, &mut at).await;
        let mut before = 0;
        loop {
            if at > before {
                // Progress: later faults have their own attempts.
                (attempts, before) = (0, at);
            } else if is_continued {
                // A part without bytes.
                outcome = outcome.and_then(|()| Err(OriginError::CutShort.into()));
            }
            let site = &object.metadata().site;
            let rest: Option<Range<u64>> =
                object.length().map(|length| at..site.end_of_block(at).min(length));
            match outcome {
                Ok(()) if rest.as_ref().is_none_or(Range::is_empty) => {
                    return Ok(());
                }
                // A part, as it was asked for.
                Ok(()) => {}
                Err(fault) => {
                    attempts += 1;
                    let is_final = !fault.may_be_retried() || self.repeatable == Repeatable::No;
                    if is_final || attempts > limits::ORIGIN_ATTEMPTS {
                        return Err(fault);
                    }
                    context.metrics.origin(fault.label());
                    wait_before_retry(attempts - 1).await;
                }
            }
            // Without a length it is not known which bytes are missing.
            let Some(rest) = rest else { return Err(OriginError::CutShort.into()) };
            is_continued = true;
            let fetch = part_request(object.metadata(), &rest);
            outcome = match ask_for(context, object, self.requester, &fetch, &rest).await {
                Ok((answer, from)) => self.send_all(FetchedResponse::unread(answer), from, &mut at).await,
                Err(fault) => Err(fault),
            };
        }
    }

    /// Sends the body of one response, which begins at byte `from`. Bytes before `at` have been sent already.
    async fn send_all(
        &self,
        mut response: FetchedResponse<'_>,
        from: u64,
        at: &mut u64,
    ) -> Result<(), FillFault> {
        let (pieces, finishes) = (&self.sender.pieces, self.repeatable == Repeatable::No);
        let mut known = at.saturating_sub(from);
        let mut unread = 0;
        loop {
            let piece = tokio::select! {
                biased;
                () = pieces.closed(), if !finishes => return Err(FillFault::NoReaders),
                piece = response.next() => piece?,
            };
            let Some(mut piece) = piece else { return Ok(()) };
            self.context.metrics.filled(piece.len() as u64);
            let skipped = usize::try_from(known).unwrap_or(usize::MAX).min(piece.len());
            drop(piece.split_to(skipped));
            known -= skipped as u64;
            let length = piece.len() as u64;
            *at += length;
            if self.object.length().is_none() && *at > self.object.metadata().site.max_unannounced {
                return Err(FillFault::TooLong);
            }
            if length > 0 && !self.sender.send(piece).await {
                unread += length;
                if !finishes || unread > limits::RELAY_UNREAD_BYTES {
                    return Err(FillFault::NoReaders);
                }
            }
        }
    }
}
