//! One connection, as the server sees it.

mod control;
mod data;
mod ending;
mod headers;
mod last_head;
mod last_request;
mod receive;
mod sending;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ending::Phase;
pub use ending::Shutdown;
pub use last_head::{HeadParts, LastHead};
use last_request::LastRequest;
use receive::Reader;

use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::flood::FloodGuard;
use crate::frame::{FrameHeader, MAX_31_BITS, PAYLOAD_BYTES_MAX, kind, push_number, setting};
use crate::hpack::{Decoder, Encoder};
use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;
use crate::streams::{Closed, Incoming, Outgoing, Streams};

/// What a client sends first (RFC 9113 §3.4). A plain listener recognises HTTP/2 by it.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The window of a stream and of the connection until SETTINGS and WINDOW_UPDATE change it (RFC 9113 §6.9.2).
const WINDOW_INITIAL: u32 = 65_535;

/// What the client announced in SETTINGS.
#[derive(Debug)]
struct PeerSettings {
    stream_window: u32,
    frame_bytes_max: u32,
    /// `SETTINGS_NO_RFC7540_PRIORITIES`, which must not change.
    no_rfc7540_priorities: Option<u32>,
    is_received: bool,
    has_acknowledged: bool,
}

/// One connection. It does no input and output.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Arc<Http2Limits>,
    reader: Reader,
    decoder: Decoder,
    last_request: Option<Box<LastRequest>>,
    encoder: Encoder,
    last_head: Option<Box<LastHead>>,
    scratch: Vec<u8>,
    streams: Streams,
    events: VecDeque<StreamEvent>,
    control: Vec<u8>,
    guard: FloodGuard,
    peer: PeerSettings,
    phase: Phase,
    /// The highest stream that the client opened.
    last_stream: u32,
    /// The last stream of the last GOAWAY; the highest number before the first one.
    goaway_stream: u32,
    /// Bytes that the client lets this side send.
    send_window: i64,
    /// Bytes that WINDOW_UPDATE frames may give back without being counted.
    updates_credit: u64,
    /// Bytes that the client may send, on the connection.
    receive_window: i64,
    /// Bytes of the connection's window that were released and not yet announced.
    released: u32,
    /// The window that new streams have for bodies: it changes when the client acknowledges the SETTINGS.
    stream_window: u32,
    /// PRIORITY_UPDATE for streams that are not open yet.
    early_priorities: Vec<(u32, PriorityParameters)>,
    stalls: u32,
}

impl ServerConnection {
    /// The most bytes that a connection without streams holds after [`release_memory`](Self::release_memory): this type,
    /// what the client stored in the table for decoding (5 KiB with the default limit of 4096), and the table for encoding
    /// (2.5 KiB). A usual client holds a third of it.
    pub const IDLE_BYTES_MAX: usize = 9 * 1024;

    /// Queues SETTINGS, and WINDOW_UPDATE for the connection.
    pub fn new(limits: &Arc<Http2Limits>) -> Self {
        let mut connection = Self {
            limits: Arc::clone(limits),
            reader: Reader::default(),
            decoder: Decoder::new(),
            last_request: None,
            encoder: Encoder::new(),
            last_head: None,
            scratch: Vec::new(),
            streams: Streams::default(),
            events: VecDeque::new(),
            control: Vec::new(),
            guard: FloodGuard::new(&limits.floods),
            peer: PeerSettings {
                stream_window: WINDOW_INITIAL,
                frame_bytes_max: 16_384,
                no_rfc7540_priorities: None,
                is_received: false,
                has_acknowledged: false,
            },
            phase: Phase::Open,
            last_stream: 0,
            goaway_stream: MAX_31_BITS,
            send_window: i64::from(WINDOW_INITIAL),
            updates_credit: 0,
            receive_window: i64::from(limits.connection_window.clamp(WINDOW_INITIAL, MAX_31_BITS)),
            released: 0,
            stream_window: WINDOW_INITIAL,
            early_priorities: Vec::new(),
            stalls: 0,
        };
        connection.queue_settings();
        connection
    }

    fn queue_settings(&mut self) {
        let settings = [
            (setting::HEADER_TABLE_SIZE, self.limits.header_table_bytes),
            (setting::MAX_CONCURRENT_STREAMS, self.limits.streams),
            (setting::INITIAL_WINDOW_SIZE, self.limits.stream_window.min(MAX_31_BITS)),
            (setting::MAX_HEADER_LIST_SIZE, self.limits.header_list_bytes),
            (setting::NO_RFC7540_PRIORITIES, 1),
        ];
        self.control.extend(FrameHeader::new(6 * settings.len(), kind::SETTINGS, 0, 0).write());
        for (name, value) in settings {
            self.control.extend(name.to_be_bytes());
            self.control.extend(value.to_be_bytes());
        }
        let increment = self.receive_window_max() - WINDOW_INITIAL;
        if increment > 0 {
            push_number(kind::WINDOW_UPDATE, 0, increment, &mut self.control);
        }
    }

    fn receive_window_max(&self) -> u32 {
        self.limits.connection_window.clamp(WINDOW_INITIAL, MAX_31_BITS)
    }

    /// Takes bytes that the client sent, all of them, in pieces of any length. An unfinished frame is kept (at most 16 KiB,
    /// only DATA is passed on in parts), and an unfinished field block. Take the events before the next call: they are
    /// bounded by the bytes given, and by the bounds of [`Http2Limits`] for field sections.
    ///
    /// # Errors
    /// The connection ends: send [`take_control`](Self::take_control), which contains GOAWAY, then close. Every further call
    /// returns the same error.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Result<(), ConnectionError> {
        match self.phase {
            Phase::Closed(None) => return Ok(()),
            Phase::Closed(Some(error)) => return Err(error),
            _ => {}
        }
        self.guard.advance(now);
        let result = self.read(bytes);
        if let Err(error) = result {
            self.queue_goaway(self.last_stream, error.code, error.reason.as_bytes());
            self.phase = Phase::Closed(result.err());
        }
        result
    }

    /// The next thing that the client did.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Whether the preface is missing, or a frame or field block has begun and its rest is missing: the caller gives the
    /// client a deadline for it. A DATA frame is not counted: a body has deadlines of its own.
    pub fn is_unfinished(&self) -> bool {
        self.reader.is_unfinished()
    }

    /// As [`is_unfinished`](Self::is_unfinished), with a number that stays the same while the rest of that frame or field block
    /// is missing: a deadline begins again when the number changes.
    pub fn unfinished(&self) -> Option<u32> {
        self.reader.unfinished()
    }

    /// Whether control frames wait to be sent.
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Control frames that are ready to be sent (acknowledgements, WINDOW_UPDATE, RST_STREAM, GOAWAY). Send them behind the
    /// frames that were made before this call: RST_STREAM may follow a response. Call it only when what was taken before was
    /// given to the socket: the bound for a client that does not read counts what waits here.
    pub fn take_control(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.control)
    }

    /// As [`take_control`](Self::take_control), but appends the frames to `out` and allocates nothing here.
    pub fn write_control(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.control);
    }

    /// Resets a stream on behalf of the application: queues RST_STREAM, unless both sides have ended the stream. Events of
    /// the stream that were not taken remain, and no others follow. [`finished`](Self::finished) must follow.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(state) = self.streams.get_mut(stream.get()) else { return };
        let is_closed = state.is_sent() && state.incoming == Incoming::Ended;
        if state.reset.is_some() {
            return;
        }
        state.reset = Some(if is_closed { Closed::Ended } else { Closed::ByServer });
        state.outgoing = Outgoing::Nothing;
        if !is_closed {
            push_number(kind::RST_STREAM, stream.get(), code.get(), &mut self.control);
        }
    }

    /// The work for a stream has ended, and its place among the concurrent streams is free. If the response was not sent
    /// whole, RST_STREAM (INTERNAL_ERROR) is queued. If the client is still sending a body that is not needed, RST_STREAM
    /// (NO_ERROR) is (RFC 9113 §8.1); before the first frame of a body it is not: the body may be one frame, and some clients
    /// take the reset for a failure of their request.
    pub fn finished(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get(stream.get()) else { return };
        if state.is_sent() && state.reset.is_none() && state.incoming == Incoming::Body && !state.has_content
        {
            self.streams.remove(stream.get());
            return self.streams.remember(stream.get(), Closed::Answered);
        }
        let code = if state.is_sent() { ErrorCode::NO_ERROR } else { ErrorCode::INTERNAL_ERROR };
        self.reset(stream, code);
        let Some(state) = self.streams.remove(stream.get()) else { return };
        self.streams.remember(state.id, state.reset.unwrap_or(Closed::Ended));
        self.give_back(state.id, state.unreleased);
    }

    /// Streams that occupy a place.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Gives back memory that a connection without streams does not need. To be called when the connection becomes idle.
    pub fn release_memory(&mut self) {
        self.streams.shrink();
        self.events.shrink_to_fit();
        self.control.shrink_to_fit();
        self.scratch = Vec::new();
        self.decoder.shrink();
        self.encoder.shrink();
        (self.last_request, self.last_head) = (None, None);
        self.early_priorities.shrink_to_fit();
        self.reader.shrink();
    }
}

#[cfg(test)]
mod tests;

// The largest frame that is taken is the initial value, so SETTINGS need not announce it.
const _: () = assert!(PAYLOAD_BYTES_MAX == 16_384);
