//! Responses: heads, the headers of DATA, windows of the client, and whose turn it is.

use super::ServerConnection;
use super::last_head::{HeadParts, LastHead};
use crate::event::StreamId;
use crate::fields::is_connection_specific;
use crate::flood::Flood;
use crate::frame::{FrameHeader, HEADER_BYTES, flag, kind};
use crate::priority::Priority;
use crate::streams::{Outgoing, Response, StreamState};

/// Longer names are put into lowercase letters with an allocation.
const NAME_BYTES_USUAL: usize = 32;

/// WINDOW_UPDATE frames of any size that each DATA frame allows a client to send.
const UPDATES_PER_DATA: u16 = 4;

/// Windows that each sent byte is taken from: that of the connection and that of the stream.
const WINDOWS: u64 = 2;

impl ServerConnection {
    /// Appends HEADERS (and CONTINUATION) with a response head to `out`. With a status of 1xx and `end` unset a further head
    /// follows. Names may have any case; connection-specific fields are left out. Nothing is appended if
    /// the stream was reset.
    ///
    /// Field blocks change the state that both sides share: the bytes must be sent whole and in the order of the calls, even
    /// if the stream is reset in between.
    pub fn head<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        out: &mut Vec<u8>,
    ) {
        let Some(start) = self.begin_block(stream, status >= 200, end, out) else { return };
        self.encode(Some(status), fields, out);
        frame_block(stream.get(), end, start, self.frame_bytes_max(), out);
    }

    /// As [`head`](Self::head). If the last head that this function has encoded had the same status and the same `parts`, and
    /// nothing has changed since, the head is not encoded again.
    pub fn head_of<'f>(
        &mut self,
        stream: StreamId,
        (status, parts): (u16, &HeadParts<'_>),
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        out: &mut Vec<u8>,
    ) {
        let Some(start) = self.begin_block(stream, status >= 200, end, out) else { return };
        match self.last_head.as_ref().and_then(|last| last.block_of(status, parts)) {
            Some(block) => out.extend_from_slice(block),
            None => {
                if !self.encode(Some(status), fields, out) {
                    self.last_head = LastHead::new(status, parts, &out[start + HEADER_BYTES..]).map(Box::new);
                }
            }
        }
        frame_block(stream.get(), end, start, self.frame_bytes_max(), out);
    }

    /// Appends HEADERS with trailers, which end the stream. What is said of [`head`](Self::head) is true here as well.
    pub fn trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) {
        let Some(start) = self.begin_block(stream, false, true, out) else { return };
        self.encode(None, fields, out);
        frame_block(stream.get(), true, start, self.frame_bytes_max(), out);
    }

    /// Begins a field block: takes note of the head of the final response and of the end of the stream, and leaves space for the header of the frame. Returns where
    /// that is in `out`; `None` if the stream may not send.
    fn begin_block(
        &mut self,
        stream: StreamId,
        is_final_head: bool,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let state = self.streams.get_mut(stream.get()).filter(|state| state.may_send())?;
        if is_final_head {
            state.response = Response::Head;
        }
        if end {
            state.response = Response::Whole;
            state.outgoing = Outgoing::Nothing;
            if !std::mem::replace(&mut state.has_given, true) {
                self.guard.allow(Flood::Reset, 1);
            }
        }
        let start = out.len();
        out.extend([0; HEADER_BYTES]);
        Some(start)
    }

    /// Encodes a field block. Returns whether that has changed the state of the encoder.
    fn encode<'f>(
        &mut self,
        status: Option<u16>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        self.encoder.begin(out);
        if let Some(status) = status {
            self.encoder.status(status, out);
        }
        for (name, value) in fields {
            in_lowercase(name, |name| {
                if !is_connection_specific(name) {
                    self.encoder.field(name, value, out);
                }
            });
        }
        let has_changed = self.encoder.take_changed();
        if has_changed {
            self.last_head = None;
        }
        has_changed
    }

    /// The bytes that flow control lets this stream send now; 0 if it is stalled, ended or reset. The smaller of the two
    /// windows, of the stream and of the connection.
    pub fn sendable(&self, stream: StreamId) -> usize {
        let state = self.streams.get(stream.get()).filter(|state| state.may_send());
        state.map_or(0, |state| usize::try_from(state.send_window.min(self.send_window)).unwrap_or(0))
    }

    /// The bytes that the window of the connection lets all streams send now. If it is not 0 and [`sendable`](Self::sendable)
    /// is, the stream's own window is empty.
    pub fn connection_sendable(&self) -> usize {
        usize::try_from(self.send_window).unwrap_or(0)
    }

    /// Bytes that the window of this stream alone lets it send; 0 if it is empty, or negative after the client made it smaller.
    pub fn stream_window(&self, stream: StreamId) -> usize {
        let state = self.streams.get(stream.get());
        state.map_or(0, |state| usize::try_from(state.send_window).unwrap_or(0))
    }

    /// The largest payload of a frame that the client takes (`SETTINGS_MAX_FRAME_SIZE`): at least 16,384.
    pub fn frame_bytes_max(&self) -> usize {
        self.peer.frame_bytes_max as usize
    }

    /// The header of a DATA frame with `length` bytes, which are taken from both windows. `length` is at most
    /// [`sendable`](Self::sendable) and [`frame_bytes_max`](Self::frame_bytes_max). With `end` the stream has nothing more to
    /// send. Not to be called for a stream that was reset.
    pub fn data_header(&mut self, stream: StreamId, length: usize, end: bool) -> [u8; 9] {
        debug_assert!(length <= self.frame_bytes_max() && (length == 0 || length <= self.sendable(stream)));
        let taken = i64::try_from(length).unwrap_or(i64::MAX);
        self.send_window -= taken;
        self.guard.allow(Flood::WindowUpdate, UPDATES_PER_DATA);
        self.updates_credit = self.updates_credit.saturating_add(WINDOWS * length as u64);
        if let Some(state) = self.streams.get_mut(stream.get()) {
            state.send_window -= taken;
            if !std::mem::replace(&mut state.has_given, true) {
                self.guard.allow(Flood::Reset, 1);
            }
            if end {
                state.response = Response::Whole;
                state.outgoing = Outgoing::Nothing;
            } else if length > 0 && state.send_window.min(self.send_window) <= 0 {
                self.stalls = self.stalls.saturating_add(1);
            }
        }
        let flags = if end { flag::END_STREAM } else { 0 };
        FrameHeader::new(length, kind::DATA, flags, stream.get()).write()
    }

    /// Takes a DATA header back whose frame was not sent, not even in part: its `length` bytes may be sent again. If it had
    /// `end`, or the payload cannot be had at all, [`reset`](Self::reset) the stream.
    pub fn unsend(&mut self, stream: StreamId, length: usize) {
        let length = i64::try_from(length).unwrap_or(0);
        self.send_window += length;
        if let Some(state) = self.streams.get_mut(stream.get()) {
            state.send_window += length;
            state.response = Response::Head;
        }
    }

    /// Says what a stream has to send. Control frames need no call. No effect on a stream that was reset or has sent its end.
    pub fn set_outgoing(&mut self, stream: StreamId, outgoing: Outgoing) {
        if let Some(state) = self.streams.get_mut(stream.get()).filter(|state| state.may_send()) {
            state.outgoing = outgoing;
        }
    }

    /// Sets the urgency, 0 to 7, of a response for which the client said none. Urgency by content type is set here.
    pub fn set_default_urgency(&mut self, stream: StreamId, urgency: u8) {
        if let Some(state) = self.streams.get_mut(stream.get()) {
            state.default_urgency = urgency.min(Priority::URGENCY_MAX);
        }
    }

    /// As [`set_default_urgency`](Self::set_default_urgency), if there is one, and [`set_outgoing`](Self::set_outgoing).
    pub fn set_response(&mut self, stream: StreamId, urgency: Option<u8>, outgoing: Outgoing) {
        if let Some(state) = self.streams.get_mut(stream.get()).filter(|state| state.may_send()) {
            state.default_urgency =
                urgency.map_or(state.default_urgency, |urgency| urgency.min(Priority::URGENCY_MAX));
            state.outgoing = outgoing;
        }
    }

    /// The priority in force for a stream.
    pub fn priority(&self, stream: StreamId) -> Priority {
        self.streams.get(stream.get()).map(StreamState::priority).unwrap_or_default()
    }

    /// The stream whose frame is to be sent next (RFC 9218 §10), among those that have something to send and that flow
    /// control lets send. Lower urgency first. Within an urgency, streams that are not incremental are sent one after the
    /// other in the order of requests, and incremental ones in turns with each other and with the first of those.
    ///
    /// The turn of a stream ends with this call, so the caller sends a frame for it, or sets [`Outgoing::Nothing`].
    pub fn next_stream(&mut self) -> Option<StreamId> {
        self.streams.next(self.send_window).map(StreamId::new)
    }

    /// How many times a window became empty while a response was sent, since the last call.
    pub fn take_stalls(&mut self) -> u32 {
        std::mem::take(&mut self.stalls)
    }
}

/// Calls `f` with `name` in lowercase letters.
fn in_lowercase(name: &[u8], f: impl FnOnce(&[u8])) {
    let mut lower = [0; NAME_BYTES_USUAL];
    match lower.get_mut(..name.len()) {
        Some(space) => {
            space.copy_from_slice(name);
            // All of it, because a length that is known makes this a few instructions.
            lower.make_ascii_lowercase();
            f(&lower[..name.len()]);
        }
        None => f(&name.to_ascii_lowercase()),
    }
}

/// Writes the header of HEADERS in front of the field block that begins nine bytes behind `start`, and divides the block into
/// CONTINUATION frames if it is larger than a frame.
fn frame_block(stream: u32, end: bool, start: usize, frame_bytes_max: usize, out: &mut Vec<u8>) {
    let end_stream = if end { flag::END_STREAM } else { 0 };
    let length = out.len() - start - HEADER_BYTES;
    if length <= frame_bytes_max {
        let header = FrameHeader::new(length, kind::HEADERS, end_stream | flag::END_HEADERS, stream);
        out[start..start + HEADER_BYTES].copy_from_slice(&header.write());
        return;
    }
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let mut fragments = block.chunks(frame_bytes_max).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, end_stream);
    while let Some(fragment) = fragments.next() {
        let end_headers = if fragments.peek().is_none() { flag::END_HEADERS } else { 0 };
        out.extend(FrameHeader::new(fragment.len(), kind, flags | end_headers, stream).write());
        out.extend(fragment);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}
