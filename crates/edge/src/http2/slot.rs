//! One stream, as the task of its connection sees it: what it has to send and what has come for it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::Fields;
use penstock_egress::{Available, FrameBatch, SendError, Transmission};
use penstock_http::response::written_fields;
use penstock_http2::{ErrorCode, Outgoing, ServerConnection, StreamId};
use penstock_sys::file::Extent;

use super::detached::Detached;
use crate::carrier::short_reason;
use crate::clients::ClientBudget;
use crate::metrics::ShortReason;
use crate::worker::Worker;

/// Bytes of an HTTP date (RFC 9110 §5.6.7).
const DATE_BYTES: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// Bytes of a frame's header (RFC 9113 §4.1).
pub(super) const FRAME_HEADER_BYTES: usize = 9;

/// One stream.
pub(super) struct Slot {
    pub(super) stream: StreamId,
    /// Interim responses to be sent: status, and fields as lines.
    pub(super) interim: VecDeque<(u16, Vec<u8>)>,
    /// The head of the response, until it is sent.
    pub(super) head: Option<Head>,
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

/// What has come of a request's body.
pub(super) struct ReceivedBody {
    /// What its reader has not taken.
    pub(super) pieces: VecDeque<Vec<u8>>,
    pub(super) is_whole: bool,
    /// Whether the response needs nothing of it.
    is_unused: bool,
}

impl ReceivedBody {
    fn new(is_whole: bool) -> Self {
        Self { pieces: VecDeque::new(), is_whole, is_unused: false }
    }

    /// Adds what has come, and returns how many bytes of it are not used. Pieces are joined, because the client may send frames of
    /// one byte.
    pub(super) fn add(&mut self, bytes: Vec<u8>, is_last: bool) -> usize {
        self.is_whole |= is_last;
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

/// The head of a response, before it is encoded.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) fields: Option<Fields>,
    pub(super) length: Option<u64>,
    /// Whether the fields have the origin's Date.
    pub(super) has_date: bool,
    /// Whether the stream ends with it.
    pub(super) end: bool,
}

impl Slot {
    pub(super) fn new(stream: StreamId, budget: ClientBudget, is_body_whole: bool) -> Self {
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
    pub(super) fn drop_body(&mut self, protocol: &mut ServerConnection) {
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
    pub(super) fn set_head(&mut self, head: Head) {
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
            Outgoing::Data
        } else {
            Outgoing::Nothing
        }
    }

    /// Whether flow control keeps content back.
    pub(super) fn is_stalled(&self, protocol: &ServerConnection) -> bool {
        self.head.is_none() && self.is_sending() && protocol.sendable(self.stream) == 0
    }

    /// Whether the stream's own window is empty, not only that of the connection.
    pub(super) fn is_stalled_itself(&self, protocol: &ServerConnection) -> bool {
        self.is_stalled(protocol) && protocol.stream_window(self.stream) == 0
    }

    /// Puts the next frame into the batch.
    pub(super) fn put_next(
        &mut self,
        batch: &mut FrameBatch<'_>,
        protocol: &mut ServerConnection,
        worker: &Worker,
        (field_block, batch_number, now): (&mut Vec<u8>, u64, Instant),
    ) {
        if let Some((status, lines)) = self.interim.pop_front() {
            field_block.clear();
            protocol.head(self.stream, status, written_fields(&lines), false, field_block);
            batch.put(field_block);
        } else if let Some(head) = self.head.take() {
            self.first_byte.get_or_insert(now);
            self.is_whole = head.end;
            field_block.clear();
            head.encode(self.stream, protocol, worker, now, field_block);
            batch.put(field_block);
            if head.end {
                self.wake();
            } else if self.detached.is_some()
                && batch.space() > FRAME_HEADER_BYTES
                && protocol.sendable(self.stream) > 0
            {
                // What makes it the next for its head makes it the next for its content.
                self.put_content(batch, protocol, batch_number);
            }
        } else if self.transmission.is_some() {
            self.put_content(batch, protocol, batch_number);
        } else if std::mem::take(&mut self.end) {
            self.is_whole = true;
            batch.put(&protocol.data_header(self.stream, 0, true));
            self.wake();
        }
    }

    fn put_content(
        &mut self,
        batch: &mut FrameBatch<'_>,
        protocol: &mut ServerConnection,
        batch_number: u64,
    ) {
        let Some(transmission) = &mut self.transmission else { return };
        let space = batch.space().saturating_sub(FRAME_HEADER_BYTES);
        let limit = space.min(protocol.sendable(self.stream)).min(protocol.frame_bytes_max());
        let length = match transmission.available(limit) {
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
        let header = protocol.data_header(self.stream, length, end);
        if let Err(error) = batch.put_content(&header, transmission, length) {
            protocol.unsend(self.stream, length);
            return self.set_pause(Pause::Failed(error));
        }
        self.is_whole = end;
        self.kept_back = None;
        self.content_sent += length as u64;
        self.content_left = self.content_left.map(|left| left.saturating_sub(length as u64));
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

/// The error code for a response that ends early.
pub(super) fn code_of(why: ShortReason) -> ErrorCode {
    match why {
        ShortReason::TooSlow | ShortReason::Drain => ErrorCode::CANCEL,
        _ => ErrorCode::INTERNAL_ERROR,
    }
}

impl Head {
    fn encode(
        &self,
        stream: StreamId,
        protocol: &mut ServerConnection,
        worker: &Worker,
        now: Instant,
        field_block: &mut Vec<u8>,
    ) {
        let mut digits = itoa::Buffer::new();
        let length = self.length.map_or("", |length| digits.format(length));
        let lines = self.fields.as_ref().map_or(&[][..], Fields::lines);
        let mut text = [0; DATE_BYTES];
        let date: &[u8] = if self.has_date {
            &[]
        } else {
            worker.date.with_date(now, |date| {
                if let Ok(date) = date.as_bytes().try_into() {
                    text = date;
                }
            });
            &text
        };
        let own = [(&b"date"[..], date), (b"server", b"penstock"), (b"content-length", length.as_bytes())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let fields = own.chain(written_fields(lines));
        let parts = [date, length.as_bytes(), lines];
        protocol.head_of(stream, (self.status, &parts), fields, self.end, field_block);
    }
}
