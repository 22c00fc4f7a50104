//! One stream, as the task of its connection sees it: what it has to send and what has come for it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_egress::{Available, SendError, Transmission};
use penstock_http::ResponseHead;
use penstock_sys::file::Extent;

use super::detached::Detached;
use crate::carrier::drive::short_reason;
use crate::carrier::multiplexer::{Multiplexer, Outgoing, Stalled, StreamHead};
use crate::clients::ClientBudget;
use crate::metrics::ShortReason;
use crate::worker::Worker;

/// Bytes of an HTTP date (RFC 9110 §5.6.7).
const DATE_BYTES: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// One stream.
pub(crate) struct OpenStream<M: Multiplexer> {
    pub(super) stream: M::StreamId,
    /// Interim responses to be sent.
    pub(super) interim: VecDeque<ResponseHead>,
    /// The head of the response, until it is sent.
    pub(super) head: Option<StreamHead>,
    /// What is being sent.
    pub(super) transmission: Option<Transmission>,
    /// Why nothing more of it can be sent at the moment.
    pub(super) pause: Option<Pause>,
    /// Since when the client takes nothing of it.
    kept_back: Option<Instant>,
    /// Content that is still to come, if the head announced its length.
    pub(super) content_left: Option<u64>,
    /// Whether an empty frame is to end the stream.
    pub(super) end: bool,
    /// Whether the last frame of the response has been sent.
    pub(super) is_whole: bool,
    pub(super) content_sent: u64,
    pub(super) first_byte: Option<Instant>,
    /// The time of the client to open its windows.
    pub(super) budget: ClientBudget,
    /// Why the stream ends early.
    pub(super) short: Option<ShortReason>,
    pub(super) body: ReceivedBody,
    /// Set if the response has no task.
    pub(super) detached: Option<Box<Detached>>,
    /// The batch for which the file was last looked at.
    looked_at: u64,
    waker: Option<Waker>,
}

/// Whether more comes of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// More may come.
    Open,
    /// All has come.
    Whole,
    /// The client has stopped before the end, while its response is sent.
    BrokenOff,
}

/// What has come of a request's body.
pub(super) struct ReceivedBody {
    /// What its reader has not taken.
    pub(super) pieces: VecDeque<Vec<u8>>,
    pub(super) end: BodyEnd,
    /// Whether the response needs nothing of it.
    is_unused: bool,
}

impl ReceivedBody {
    fn new(is_whole: bool) -> Self {
        let end = if is_whole { BodyEnd::Whole } else { BodyEnd::Open };
        Self { pieces: VecDeque::new(), end, is_unused: false }
    }

    /// Adds what has come, and returns how many bytes of it are not used. Pieces are joined, because the client may send frames of
    /// one byte.
    pub(super) fn add(&mut self, bytes: Vec<u8>, is_last: bool) -> usize {
        if is_last {
            self.end = BodyEnd::Whole;
        }
        if self.is_unused || bytes.is_empty() {
            return bytes.len();
        }
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= limits::PASSED_PIECE_BYTES => {
                last.extend_from_slice(&bytes);
            }
            _ => self.pieces.push_back(bytes),
        }
        0
    }

    /// Drops what has come and what is still to come. Returns the bytes dropped.
    fn drop_unused(&mut self) -> usize {
        self.is_unused = true;
        std::mem::take(&mut self.pieces).iter().map(Vec::len).sum()
    }
}

/// Why nothing more of a transmission can be sent.
#[derive(Debug)]
pub(super) enum Pause {
    Done,
    /// The client has taken nothing for a while.
    Blocked,
    Cold(Extent),
    Failed(SendError),
}

impl<M: Multiplexer> OpenStream<M> {
    pub(super) fn new(stream: M::StreamId, budget: ClientBudget, is_body_whole: bool) -> Self {
        Self {
            stream,
            interim: VecDeque::new(),
            head: None,
            transmission: None,
            pause: None,
            kept_back: None,
            content_left: None,
            end: false,
            is_whole: false,
            content_sent: 0,
            first_byte: None,
            budget,
            short: None,
            body: ReceivedBody::new(is_body_whole),
            detached: None,
            looked_at: 0,
            waker: None,
        }
    }

    /// Drops the body of the request. The client may send as much on other streams, but not on this one, so that it soon stops.
    pub(super) fn drop_body(&mut self, protocol: &mut M) {
        let bytes = self.body.drop_unused();
        protocol.discard(self.stream, bytes);
    }

    /// Has the stream's task run when something changes.
    pub(super) fn wait(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ends the stream. Nothing more is sent for it.
    pub(super) fn fail(&mut self, why: ShortReason) {
        self.short.get_or_insert(why);
        self.interim.clear();
        self.head = None;
        self.end = false;
        self.wake();
    }

    /// Has the head sent with the next batch.
    pub(super) fn set_head(&mut self, head: StreamHead) {
        if self.short.is_none() {
            self.content_left = head.length.filter(|_| !head.end);
            self.head = Some(head);
        }
    }

    /// Begins to send. Without bytes the pause comes when the client takes more.
    pub(super) fn begin(&mut self, transmission: Transmission) {
        (self.pause, self.kept_back) = (None, None);
        self.transmission = Some(transmission);
    }

    /// Called while nothing can be sent. Pauses a transmission of which the client has taken nothing for `limit`. Returns
    /// when that will be otherwise.
    pub(super) fn pause_if_blocked(&mut self, limit: Duration, now: Instant) -> Option<Instant> {
        let has_bytes = self.transmission.as_ref().is_some_and(|transmission| transmission.remaining() > 0);
        if !has_bytes || !self.is_sending() {
            return None;
        }
        let until = *self.kept_back.get_or_insert(now) + limit;
        if now < until {
            return Some(until);
        }
        self.set_pause(Pause::Blocked);
        None
    }

    fn is_sending(&self) -> bool {
        self.short.is_none() && self.pause.is_none() && self.transmission.is_some()
    }

    /// What is to be sent next.
    pub(super) fn outgoing(&self) -> Outgoing {
        if !self.interim.is_empty() || self.head.is_some() || (self.end && self.transmission.is_none()) {
            Outgoing::Frames
        } else if self.is_sending() {
            Outgoing::Content
        } else {
            Outgoing::Nothing
        }
    }

    /// The window that keeps back what is to be sent next.
    pub(super) fn stalled(&self, protocol: &M) -> Option<Stalled> {
        if self.outgoing() == Outgoing::Nothing { None } else { protocol.stalled(self.stream) }
    }

    /// Puts the next frame into the batch.
    pub(super) fn put_next(
        &mut self,
        batch: &mut M::Batch<'_>,
        protocol: &mut M,
        worker: &Worker,
        (batch_number, now): (u64, Instant),
    ) {
        if let Some(interim) = self.interim.front() {
            if protocol.put_interim(self.stream, interim, batch) {
                self.interim.pop_front();
            }
        } else if let Some(head) = self.head.take() {
            if !put_head(&head, self.stream, batch, protocol, worker, now) {
                self.head = Some(head);
                return;
            }
            self.first_byte.get_or_insert(now);
            self.is_whole = head.end;
            if head.end {
                self.wake();
            } else if self.detached.is_some() && protocol.content_bytes_max(self.stream, batch) > 0 {
                // What makes it the next for its head makes it the next for its content.
                self.put_content(batch, protocol, batch_number);
            }
        } else if self.transmission.is_some() {
            self.put_content(batch, protocol, batch_number);
        } else if self.end && protocol.put_end(self.stream, batch) {
            self.end = false;
            self.is_whole = true;
            self.wake();
        }
    }

    fn put_content(&mut self, batch: &mut M::Batch<'_>, protocol: &mut M, batch_number: u64) {
        let Some(transmission) = &mut self.transmission else { return };
        let length = match transmission.available(protocol.content_bytes_max(self.stream, batch)) {
            Available::Bytes(length) => length,
            Available::Cold(extent) => return self.set_pause(Pause::Cold(extent)),
            Available::Done => return self.set_pause(Pause::Done),
            Available::Unknown => return self.set_pause(Pause::Failed(SendError::Internal)),
        };
        // Once in a batch, because it is a system call.
        if std::mem::replace(&mut self.looked_at, batch_number) != batch_number
            && transmission.has_changed_while_sent()
        {
            return self.set_pause(Pause::Failed(SendError::Truncated));
        }
        let end = self.content_left == Some(length as u64);
        let taken = match protocol.put_content(self.stream, transmission, length, end, batch) {
            Ok(taken) => taken,
            Err(error) => return self.set_pause(Pause::Failed(error)),
        };
        self.is_whole = end && taken == length;
        if taken > 0 {
            self.kept_back = None;
        }
        self.content_sent += taken as u64;
        self.content_left = self.content_left.map(|left| left.saturating_sub(taken as u64));
        if transmission.remaining() == 0 {
            self.set_pause(Pause::Done);
        }
    }

    fn set_pause(&mut self, pause: Pause) {
        match pause {
            // There is no task to be told.
            Pause::Failed(error) if self.detached.is_some() => self.fail(short_reason(&error)),
            pause => {
                self.pause = Some(pause);
                self.wake();
            }
        }
    }
}

/// Puts a head with its Date.
fn put_head<M: Multiplexer>(
    head: &StreamHead,
    stream: M::StreamId,
    batch: &mut M::Batch<'_>,
    protocol: &mut M,
    worker: &Worker,
    now: Instant,
) -> bool {
    if head.response.fields.has_date() {
        return protocol.put_head(stream, head, &[], batch);
    }
    let mut text = [0; DATE_BYTES];
    worker.date.with_date(now, |date| {
        if let Ok(date) = date.as_bytes().try_into() {
            text = date;
        }
    });
    protocol.put_head(stream, head, &text, batch)
}
