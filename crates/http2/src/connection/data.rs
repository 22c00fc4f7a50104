//! DATA (RFC 9113 §6.1).

use super::ServerConnection;
use super::receive::DataProgress;
use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::flood::Flood;
use crate::frame::{FrameHeader, flag, kind, protocol, push_number};
use crate::streams::{Closed, Incoming, Response};

impl ServerConnection {
    /// Begins a DATA frame: takes its length from both windows, and checks that the stream may have it.
    pub(super) fn begin_data(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        // A frame is smaller than 2^14 bytes.
        let length = u32::try_from(header.length).unwrap_or(u32::MAX);
        self.receive_window -= i64::from(length);
        if self.receive_window < 0 {
            return Err(ConnectionError { code: ErrorCode::FLOW_CONTROL_ERROR, reason: "connection_window" });
        }
        self.reader.data = Some(DataProgress {
            stream: header.stream,
            left: header.length,
            padding: 0,
            padding_is_known: !header.has(flag::PADDED),
            is_empty: true,
            end: header.has(flag::END_STREAM),
        });
        if header.has(flag::PADDED) && header.length == 0 {
            return Err(crate::frame::frame_size("frame_length"));
        }
        self.check_data_stream(header.stream, length, header.has(flag::END_STREAM))?;
        if header.length == 0 { self.end_data() } else { Ok(()) }
    }

    fn check_data_stream(&mut self, id: u32, length: u32, end: bool) -> Result<(), ConnectionError> {
        let Some(state) = self.streams.get_mut(id) else {
            if self.is_idle(id) {
                return Err(protocol("idle_stream"));
            }
            return match self.streams.closed(id) {
                Some(Closed::ByServer) => self.guard.count(Flood::Ignored),
                Some(Closed::Answered) if end => {
                    self.streams.remember(id, Closed::Ended);
                    self.guard.count(Flood::Ignored)
                }
                Some(Closed::Answered) => {
                    self.queue_reset(id, ErrorCode::NO_ERROR);
                    self.streams.remember(id, Closed::ByServer);
                    self.guard.count(Flood::Ignored)
                }
                _ => self.stream_error(id, ErrorCode::STREAM_CLOSED, "closed_stream"),
            };
        };
        match (state.reset, state.incoming) {
            (Some(Closed::ByServer | Closed::Answered), _) => self.guard.count(Flood::Ignored),
            (Some(_), _) | (None, Incoming::Ended) => {
                self.stream_error(id, ErrorCode::STREAM_CLOSED, "closed_stream")
            }
            (None, _) => {
                state.has_content = true;
                state.receive_window -= i64::from(length);
                if state.receive_window < 0 {
                    return self.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR, "stream_window");
                }
                Ok(())
            }
        }
    }

    /// Reads on in the payload of a DATA frame.
    pub(super) fn read_data(&mut self, bytes: &mut &[u8]) -> Result<(), ConnectionError> {
        let Some(data) = &mut self.reader.data else { return Ok(()) };
        let id = data.stream;
        if !data.padding_is_known {
            let Some((&padding, rest)) = bytes.split_first() else { return Ok(()) };
            *bytes = rest;
            data.left -= 1;
            data.padding = usize::from(padding);
            data.padding_is_known = true;
            if data.padding > data.left {
                return Err(protocol("padding"));
            }
            self.give_back(id, u32::from(padding) + 1);
        }
        let Some(data) = &mut self.reader.data else { return Ok(()) };
        let (body, rest) = bytes.split_at((data.left - data.padding).min(bytes.len()));
        data.left -= body.len();
        data.is_empty &= body.is_empty();
        let padding = if data.left == data.padding { data.padding.min(rest.len()) } else { 0 };
        data.left -= padding;
        data.padding -= padding;
        let is_whole = data.left == 0;
        *bytes = &rest[padding..];
        self.deliver(id, body)?;
        if is_whole { self.end_data() } else { Ok(()) }
    }

    /// Passes a part of a body on, or discards it.
    fn deliver(&mut self, id: u32, body: &[u8]) -> Result<(), ConnectionError> {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let state = self.streams.get_mut(id);
        let Some(state) = state.filter(|state| state.reset.is_none() && state.incoming == Incoming::Body)
        else {
            self.give_back(id, length);
            return Ok(());
        };
        if body.is_empty() {
            return Ok(());
        }
        if let Some(left) = &mut state.body_left {
            let Some(rest) = left.checked_sub(u64::from(length)) else {
                self.give_back(id, length);
                return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, "content_length");
            };
            *left = rest;
        }
        state.unreleased += length;
        match self.events.back_mut() {
            Some(StreamEvent::Data { stream, bytes, end: false }) if stream.get() == id => {
                bytes.extend_from_slice(body)
            }
            _ => {
                let stream = StreamId::new(id);
                self.events.push_back(StreamEvent::Data { stream, bytes: body.to_vec(), end: false });
            }
        }
        Ok(())
    }

    fn end_data(&mut self) -> Result<(), ConnectionError> {
        let Some(data) = self.reader.data.take() else { return Ok(()) };
        if data.end {
            return self.end_body(data.stream);
        }
        if data.is_empty { self.guard.count(Flood::EmptyData) } else { Ok(()) }
    }

    /// The client has ended the body of a request with DATA.
    fn end_body(&mut self, id: u32) -> Result<(), ConnectionError> {
        let state = self.streams.get_mut(id).filter(|state| state.reset.is_none());
        let Some(state) = state else { return Ok(()) };
        let is_delivered = state.incoming == Incoming::Body;
        state.incoming = Incoming::Ended;
        if state.body_left.is_some_and(|left| left > 0) {
            return self.end_short_body(id);
        }
        if is_delivered {
            match self.events.back_mut() {
                Some(StreamEvent::Data { stream, end, .. }) if stream.get() == id => *end = true,
                _ => {
                    let stream = StreamId::new(id);
                    self.events.push_back(StreamEvent::Data { stream, bytes: Vec::new(), end: true });
                }
            }
        }
        Ok(())
    }

    /// The client has ended the body of a request before its Content-Length. That is an error of the stream (RFC 9113
    /// §8.1.1), unless the response is under way: the reset would cut it off.
    pub(super) fn end_short_body(&mut self, id: u32) -> Result<(), ConnectionError> {
        if self.streams.get(id).is_some_and(|state| state.response == Response::Head && state.may_send()) {
            self.events.push_back(StreamEvent::BrokenOff { stream: StreamId::new(id) });
            return Ok(());
        }
        self.stream_error(id, ErrorCode::PROTOCOL_ERROR, "content_length")
    }

    /// The application has taken `bytes` of the stream's request body: the client may send as many again. More than was
    /// passed on counts as all of it. Bytes of a stream that is [`finished`](Self::finished) were given back by that.
    pub fn release(&mut self, stream: StreamId, bytes: usize) {
        let Some(state) = self.streams.get_mut(stream.get()) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(state.unreleased);
        state.unreleased -= bytes;
        self.give_back(stream.get(), bytes);
    }

    /// Lets the client send as many bytes of a body on other streams as the caller has dropped of this one. Nothing more of it is
    /// wanted.
    pub fn discard(&mut self, stream: StreamId, bytes: usize) {
        let Some(state) = self.streams.get_mut(stream.get()) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(state.unreleased);
        state.unreleased -= bytes;
        // Of no stream.
        self.give_back(0, bytes);
    }

    /// Lets the client send `bytes` again, on the connection and on the stream if it may still send there. WINDOW_UPDATE is
    /// queued for half a window at a time.
    pub(super) fn give_back(&mut self, stream: u32, bytes: u32) {
        self.released += bytes;
        if self.released >= self.receive_window_max() / 2 {
            self.receive_window += i64::from(self.released);
            push_number(kind::WINDOW_UPDATE, 0, self.released, &mut self.control);
            self.released = 0;
        }
        let Some(state) = self.streams.get_mut(stream) else { return };
        if state.incoming == Incoming::Ended || state.reset.is_some() {
            return;
        }
        state.released += bytes;
        if state.released >= (self.stream_window / 2).max(1) {
            state.receive_window += i64::from(state.released);
            push_number(kind::WINDOW_UPDATE, stream, state.released, &mut self.control);
            state.released = 0;
        }
    }
}
