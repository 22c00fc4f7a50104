//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10, §8.1).

use std::ops::Range;

use super::ServerConnection;
use super::last_request::LastRequest;
use super::receive::UnfinishedBlock;
use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::flood::Flood;
use crate::frame::{FrameHeader, PAYLOAD_BYTES_MAX, calm, flag, frame_size, protocol, without_padding};
use crate::limits::Http2Limits;
use crate::priority::{Priority, PriorityParameters};
use crate::request_head::{FieldSection, HeadBuilder, HeadFault, RequestHead};
use crate::streams::{Closed, Incoming, Outgoing, Response, StreamState};

/// CONTINUATION frames of one field block. Clients that fill their frames need two for the largest block that is allowed.
const CONTINUATIONS_MAX: u32 = 16;

/// The priority fields of RFC 7540 in HEADERS, in bytes.
const PRIORITY_BYTES: usize = 5;

impl ServerConnection {
    pub(super) fn headers(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut fragment = without_padding(header, payload)?;
        if header.stream.is_multiple_of(2) {
            return Err(protocol("stream_id"));
        }
        if header.has(flag::PRIORITY) {
            fragment = fragment.get(PRIORITY_BYTES..).ok_or(frame_size("frame_length"))?;
        }
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.field_block(header.stream, end, fragment);
        }
        let bytes = fragment.to_vec();
        self.reader.block = Some(Box::new(UnfinishedBlock { stream: header.stream, end, frames: 0, bytes }));
        Ok(())
    }

    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let Some(mut block) = self.reader.block.take() else { return Err(protocol("continuation")) };
        block.frames += 1;
        block.bytes.extend_from_slice(payload);
        if block.frames > CONTINUATIONS_MAX || block.bytes.len() > block_bytes_max(&self.limits) {
            return Err(calm("continuation_flood"));
        }
        if header.has(flag::END_HEADERS) {
            return self.field_block(block.stream, block.end, &block.bytes);
        }
        self.reader.block = Some(block);
        Ok(())
    }

    /// Takes a whole field block. Each is decoded, since all blocks share one state.
    fn field_block(&mut self, id: u32, end: bool, block: &[u8]) -> Result<(), ConnectionError> {
        if id > self.last_stream {
            return self.new_stream(id, end, block);
        }
        let Some(state) = self.streams.get(id) else {
            return match self.streams.closed(id) {
                Some(Closed::Ended) => Err(closed_stream()),
                Some(Closed::ByServer | Closed::Answered) => {
                    self.guard.count(Flood::Ignored)?;
                    self.decode_ignored(block)
                }
                Some(Closed::ByClient) => {
                    self.decode_ignored(block)?;
                    self.stream_error(id, ErrorCode::STREAM_CLOSED, "closed_stream")
                }
                // The stream was skipped, or it was closed long ago (RFC 9113 §5.1.1).
                None => Err(protocol("stream_id")),
            };
        };
        match (state.reset, state.incoming) {
            (Some(Closed::ByServer | Closed::Answered), _) => {
                self.guard.count(Flood::Ignored)?;
                self.decode_ignored(block)
            }
            (None, Incoming::Ended) if state.is_sent() => Err(closed_stream()),
            (Some(_), _) | (None, Incoming::Ended) => {
                self.decode_ignored(block)?;
                self.stream_error(id, ErrorCode::STREAM_CLOSED, "closed_stream")
            }
            (None, _) => self.request_trailers(id, end, block),
        }
    }

    /// Decodes a block, and gives what `finish` makes of its fields.
    fn decode<'s, T>(
        &'s mut self,
        section: FieldSection,
        block: &[u8],
        finish: impl FnOnce(HeadBuilder<'s>) -> T,
    ) -> Result<T, ConnectionError> {
        let mut builder = HeadBuilder::new(section, &self.limits);
        let sink = |name: &[u8], value: &[u8], at: Range<usize>| builder.field_at(name, value, at);
        let decoded = self.decoder.decode(block, &mut self.scratch, sink);
        decoded.map_err(|error| ConnectionError { code: ErrorCode::COMPRESSION_ERROR, reason: error.0 })?;
        Ok(finish(builder))
    }

    /// Decodes the block of a request.
    fn decode_request(
        &mut self,
        block: &[u8],
    ) -> Result<Result<(RequestHead, PriorityParameters), HeadFault>, ConnectionError> {
        if self.decoder.take_changed() {
            self.last_request = None;
        }
        let last = self.last_request.as_ref();
        if let Some(known) = last.and_then(|last| last.decode(block, &self.limits, &mut self.scratch)) {
            return Ok(Ok(known));
        }
        let finish = |builder: HeadBuilder<'_>| {
            let (path_at, list_bytes) = (builder.path_at(), builder.list_bytes());
            builder.into_head().map(|head| (head, path_at, list_bytes))
        };
        let decoded = self.decode(FieldSection::Head, block, finish)?;
        Ok(decoded.map(|(head, path_at, list_bytes)| {
            let is_lasting = !self.decoder.take_changed();
            let last = is_lasting.then(|| LastRequest::new(block, path_at, &head, list_bytes)).flatten();
            self.last_request = last.map(Box::new);
            head
        }))
    }

    fn decode_ignored(&mut self, block: &[u8]) -> Result<(), ConnectionError> {
        match self.decode(FieldSection::Ignored, block, HeadBuilder::into_trailers)? {
            Err(HeadFault::Flood) => Err(calm("field_section_flood")),
            _ => Ok(()),
        }
    }

    fn request_trailers(&mut self, id: u32, end: bool, block: &[u8]) -> Result<(), ConnectionError> {
        let lines = match self.decode(FieldSection::Trailers, block, HeadBuilder::into_trailers)? {
            Ok(lines) => lines,
            Err(HeadFault::Flood) => return Err(calm("field_section_flood")),
            Err(HeadFault::TooLarge { reason, .. }) => {
                return self.stream_error(id, ErrorCode::ENHANCE_YOUR_CALM, reason);
            }
            Err(HeadFault::Malformed(reason)) => {
                return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, reason);
            }
        };
        let Some(state) = self.streams.get_mut(id) else { return Ok(()) };
        if !end {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, "trailers_without_end");
        }
        let is_delivered = state.incoming == Incoming::Body;
        state.incoming = Incoming::Ended;
        if state.body_left.is_some_and(|left| left > 0) {
            return self.end_short_body(id);
        }
        if is_delivered {
            self.events.push_back(StreamEvent::Trailers { stream: StreamId::new(id), lines });
        }
        Ok(())
    }

    /// Opens a stream, or refuses it.
    fn new_stream(&mut self, id: u32, end: bool, block: &[u8]) -> Result<(), ConnectionError> {
        self.last_stream = id;
        let asked_early = self.take_early_priority(id);
        if self.phase == super::Phase::Final {
            self.streams.remember(id, Closed::ByServer);
            self.guard.count(Flood::Ignored)?;
            return self.decode_ignored(block);
        }
        let result = self.decode_request(block)?;
        let has_place = self.streams.len() < self.limits.streams as usize;
        let held_bytes = result.as_ref().map_or(0, |(head, _)| head.held_bytes());
        let refusal = match (&result, has_place) {
            (Err(HeadFault::Flood), _) => return Err(calm("field_section_flood")),
            (Err(HeadFault::Malformed(reason)), _) => Some((ErrorCode::PROTOCOL_ERROR, *reason)),
            (_, false) => Some((ErrorCode::REFUSED_STREAM, "too_many_streams")),
            (Ok((head, _)), true) if end && head.content_length().is_some_and(|length| length > 0) => {
                Some((ErrorCode::PROTOCOL_ERROR, "content_length"))
            }
            _ if self.streams.held_bytes().saturating_add(held_bytes) > self.limits.held_header_bytes => {
                Some((ErrorCode::REFUSED_STREAM, "held_field_bytes"))
            }
            _ => None,
        };
        if let Some((code, reason)) = refusal {
            return self.refuse(id, code, reason);
        }
        let stream = StreamId::new(id);
        let (asked, body_left, event) = match result {
            Ok((head, asked)) => (
                asked_early.unwrap_or(asked),
                head.content_length(),
                StreamEvent::Request { stream, head, end },
            ),
            Err(HeadFault::TooLarge { status, reason }) => {
                (PriorityParameters::default(), None, StreamEvent::Rejected { stream, status, reason })
            }
            Err(_) => return Ok(()),
        };
        let incoming = match event {
            _ if end => Incoming::Ended,
            StreamEvent::Rejected { .. } => Incoming::Discarded,
            _ => Incoming::Body,
        };
        self.events.push_back(event);
        self.streams.push(StreamState {
            id,
            send_window: i64::from(self.peer.stream_window),
            receive_window: i64::from(self.stream_window),
            unreleased: 0,
            released: 0,
            has_content: false,
            body_left,
            held_bytes,
            incoming,
            response: Response::Nothing,
            has_given: false,
            reset: None,
            outgoing: Outgoing::Nothing,
            asked,
            default_urgency: Priority::DEFAULT_URGENCY,
            turn: 0,
        });
        Ok(())
    }

    /// Resets a stream that was never delivered.
    fn refuse(&mut self, id: u32, code: ErrorCode, reason: &'static str) -> Result<(), ConnectionError> {
        let flood = match code {
            ErrorCode::REFUSED_STREAM => Flood::RefusedStream,
            _ => Flood::ProvokedReset,
        };
        self.queue_reset(id, code);
        self.streams.remember(id, Closed::ByServer);
        self.events.push_back(StreamEvent::Refused { stream: StreamId::new(id), code, reason });
        self.guard.count(flood)
    }
}

/// Bytes of one field block, encoded. A block whose fields are small enough is not larger.
fn block_bytes_max(limits: &Http2Limits) -> usize {
    PAYLOAD_BYTES_MAX.max(limits.header_list_bytes as usize)
}

const fn closed_stream() -> ConnectionError {
    ConnectionError { code: ErrorCode::STREAM_CLOSED, reason: "closed_stream" }
}
