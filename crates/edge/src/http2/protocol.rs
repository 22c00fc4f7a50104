//! HTTP/2 as a protocol that carries many responses at once.

use std::sync::Arc;

use penstock_egress::{FrameBatch, SendError, Transmission};
use penstock_http::{BodyFraming, HttpVersion, ResponseHead, ValidatedHead};
use penstock_http2::{ErrorCode, Http2Limits, Outgoing as Frames, RequestHead, ServerConnection, StreamId};

use crate::carrier::{Multiplexer, Outgoing, Stalled, StreamCount, StreamHead, StreamRequestHead};
use crate::metrics::{HttpLabel, Shard, ShortReason};

/// Bytes of a frame's header (RFC 9113 §4.1).
const FRAME_HEADER_BYTES: usize = 9;

/// The protocol of one connection, with what puts its frames into batches.
pub(super) struct Http2 {
    pub(super) connection: ServerConnection,
    /// Where field blocks and control frames are put together; no memory while idle.
    block: Vec<u8>,
}

impl Http2 {
    pub(super) fn new(limits: &Arc<Http2Limits>) -> Self {
        Self { connection: ServerConnection::new(limits), block: Vec::new() }
    }
}

impl StreamRequestHead for RequestHead {
    fn validated(&self, body: BodyFraming) -> ValidatedHead<'_> {
        ValidatedHead {
            version: HttpVersion::Http2,
            method: self.method(),
            authority: self.authority(),
            path: self.path(),
            lines: self.lines(),
            body,
        }
    }

    fn method(&self) -> &str {
        self.method()
    }

    fn content_length(&self) -> Option<u64> {
        self.content_length()
    }
}

impl Multiplexer for Http2 {
    const VERSION: HttpLabel = HttpLabel::H2;

    type StreamId = StreamId;

    type RequestHead = RequestHead;

    type Batch<'b> = FrameBatch<'b>;

    fn count(shard: &Shard, count: StreamCount) {
        match count {
            StreamCount::Opened => shard.stream_opened(),
            StreamCount::Closed => shard.stream_closed(),
            StreamCount::Reset(cause) => shard.stream_reset(cause),
        }
    }

    fn number(stream: StreamId) -> u64 {
        stream.get().into()
    }

    fn set_outgoing(&mut self, stream: StreamId, outgoing: Outgoing) {
        self.connection.set_outgoing(stream, frames(outgoing));
    }

    fn set_default_urgency(&mut self, stream: StreamId, urgency: u8) {
        self.connection.set_default_urgency(stream, urgency);
    }

    fn set_response(&mut self, stream: StreamId, urgency: Option<u8>, outgoing: Outgoing) {
        self.connection.set_response(stream, urgency, frames(outgoing));
    }

    fn put_control(&mut self, batch: &mut FrameBatch<'_>) {
        if self.connection.has_control() {
            self.block.clear();
            self.connection.write_control(&mut self.block);
            batch.put(&self.block);
        }
    }

    fn next_stream(&mut self, batch: &FrameBatch<'_>) -> Option<StreamId> {
        if batch.space() > FRAME_HEADER_BYTES { self.connection.next_stream() } else { None }
    }

    fn put_interim(&mut self, stream: StreamId, interim: &ResponseHead, batch: &mut FrameBatch<'_>) -> bool {
        self.block.clear();
        self.connection.head(stream, interim.status, &interim.fields, false, &mut self.block);
        batch.put(&self.block);
        true
    }

    fn put_head(
        &mut self,
        stream: StreamId,
        head: &StreamHead,
        date: &[u8],
        batch: &mut FrameBatch<'_>,
    ) -> bool {
        let mut digits = itoa::Buffer::new();
        let length = head.length.map_or("", |length| digits.format(length));
        let ResponseHead { status, fields } = &head.response;
        let server = head.server();
        let own = [(&b"date"[..], date), (b"server", server), (b"content-length", length.as_bytes())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        self.block.clear();
        if server.is_empty() {
            // The parts do not tell such a head from others.
            self.connection.head(stream, *status, own.chain(fields), head.end, &mut self.block);
        } else {
            let parts = [date, length.as_bytes(), fields.as_bytes()];
            self.connection.head_of(stream, (*status, &parts), own.chain(fields), head.end, &mut self.block);
        }
        batch.put(&self.block);
        true
    }

    fn content_bytes_max(&self, stream: StreamId, batch: &FrameBatch<'_>) -> usize {
        let space = batch.space().saturating_sub(FRAME_HEADER_BYTES);
        space.min(self.connection.sendable(stream)).min(self.connection.frame_bytes_max())
    }

    fn put_content(
        &mut self,
        stream: StreamId,
        transmission: &mut Transmission,
        length: usize,
        end: bool,
        batch: &mut FrameBatch<'_>,
    ) -> Result<usize, SendError> {
        let header = self.connection.data_header(stream, length, end);
        if let Err(error) = batch.put_content(&header, transmission, length) {
            self.connection.unsend(stream, length);
            return Err(error);
        }
        Ok(length)
    }

    fn put_end(&mut self, stream: StreamId, batch: &mut FrameBatch<'_>) -> bool {
        batch.put(&self.connection.data_header(stream, 0, true));
        true
    }

    fn stalled(&self, stream: StreamId) -> Option<Stalled> {
        if self.connection.sendable(stream) > 0 {
            return None;
        }
        let is_empty = self.connection.stream_window(stream) == 0;
        Some(if is_empty { Stalled::Stream } else { Stalled::Connection })
    }

    fn reset(&mut self, stream: StreamId, why: ShortReason) {
        let code = match why {
            ShortReason::TooSlow | ShortReason::Drain => ErrorCode::CANCEL,
            _ => ErrorCode::INTERNAL_ERROR,
        };
        self.connection.reset(stream, code);
    }

    fn finished(&mut self, stream: StreamId) {
        self.connection.finished(stream);
    }

    fn release(&mut self, stream: StreamId, bytes: usize) {
        self.connection.release(stream, bytes);
    }

    fn discard(&mut self, stream: StreamId, bytes: usize) {
        self.connection.discard(stream, bytes);
    }

    fn release_memory(&mut self) {
        self.connection.release_memory();
        self.block = Vec::new();
    }
}

fn frames(outgoing: Outgoing) -> Frames {
    match outgoing {
        Outgoing::Nothing => Frames::Nothing,
        Outgoing::Frames => Frames::Frames,
        Outgoing::Content => Frames::Data,
    }
}
