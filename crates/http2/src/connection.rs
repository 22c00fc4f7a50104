//! One connection, as the server sees it.

mod control;
mod data;
mod headers;
mod receive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use receive::Reader;

use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::fields::is_connection_specific;
use crate::flood::{Flood, FloodGuard};
use crate::frame::{
    FrameHeader, HEADER_BYTES, MAX_31_BITS, PAYLOAD_BYTES_MAX, flag, kind, push_number, setting,
};
use crate::hpack::{Decoder, Encoder};
use crate::limits::Http2Limits;
use crate::priority::{Priority, PriorityParameters};
use crate::streams::{Closed, Incoming, Outgoing, StreamState, Streams};

/// What a client sends first (RFC 9113 §3.4). A plain listener recognises HTTP/2 by it.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The window of a stream and of the connection until SETTINGS and WINDOW_UPDATE change it (RFC 9113 §6.9.2).
const WINDOW_INITIAL: u32 = 65_535;

/// Longer names are put into lowercase letters with an allocation.
const NAME_BYTES_USUAL: usize = 64;

/// WINDOW_UPDATE frames that each DATA frame allows a client to send.
const UPDATES_PER_DATA: u16 = 4;

/// What the PING that follows the first GOAWAY says.
const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// A step of ending a connection in an orderly way (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// GOAWAY with 2^31-1 and a PING: new requests are still served. The acknowledgement of the PING begins `Final` by
    /// itself.
    Announce,
    /// GOAWAY with the last stream that was accepted. Later streams are ignored. The caller begins this step if no
    /// acknowledgement comes within its deadline.
    Final,
}

/// How far the end of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The first GOAWAY was queued.
    Announced,
    /// The final GOAWAY was queued: later streams are ignored.
    Final,
    /// Nothing more is read.
    Closed(Option<ConnectionError>),
}

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
    encoder: Encoder,
    scratch: Vec<u8>,
    streams: Streams,
    events: VecDeque<StreamEvent>,
    control: Vec<u8>,
    guard: FloodGuard,
    peer: PeerSettings,
    phase: Phase,
    /// The highest stream that the client opened.
    last_stream: u32,
    /// Bytes that the client lets this side send.
    send_window: i64,
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
            encoder: Encoder::new(),
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
            send_window: i64::from(WINDOW_INITIAL),
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

    /// Appends HEADERS (and CONTINUATION) with a response head to `out`. With a status of 1xx and `end` unset a further head
    /// follows. Names may have any case, lowercase is faster; connection-specific fields are left out. Nothing is appended if
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
        self.fields(stream, Some(status), fields, end, out);
    }

    /// Appends HEADERS with trailers, which end the stream. What is said of [`head`](Self::head) is true here as well.
    pub fn trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.fields(stream, None, fields, true, out);
    }

    fn fields<'f>(
        &mut self,
        stream: StreamId,
        status: Option<u16>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        out: &mut Vec<u8>,
    ) {
        let Some(state) = self.streams.get_mut(stream.get()).filter(|state| state.may_send()) else { return };
        if end {
            state.is_sent = true;
            state.outgoing = Outgoing::Nothing;
        }
        let start = out.len();
        out.extend([0; HEADER_BYTES]);
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
        frame_block(stream.get(), end, start, self.frame_bytes_max(), out);
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
        if let Some(state) = self.streams.get_mut(stream.get()) {
            state.send_window -= taken;
            if end {
                state.is_sent = true;
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
            state.is_sent = false;
        }
    }

    /// The application has taken `bytes` of the stream's request body: the client may send as many again. More than was
    /// passed on counts as all of it. Bytes of a stream that is [`finished`](Self::finished) were given back by that.
    pub fn release(&mut self, stream: StreamId, bytes: usize) {
        let Some(state) = self.streams.get_mut(stream.get()) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(state.unreleased);
        state.unreleased -= bytes;
        self.give_back(stream.get(), bytes);
    }

    /// Lets the client send `bytes` again, on the connection and on the stream if it may still send there. WINDOW_UPDATE is
    /// queued for half a window at a time.
    fn give_back(&mut self, stream: u32, bytes: u32) {
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

    /// Resets a stream on behalf of the application: queues RST_STREAM. Events of the stream that were not taken remain.
    /// [`finished`](Self::finished) must follow.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(state) = self.streams.get_mut(stream.get()) else { return };
        let is_closed = state.is_sent && state.incoming == Incoming::Ended;
        if state.reset.is_none() && !is_closed {
            state.reset = Some(Closed::ByServer);
            state.outgoing = Outgoing::Nothing;
            push_number(kind::RST_STREAM, stream.get(), code.get(), &mut self.control);
        }
    }

    /// The work for a stream has ended, and its place among the concurrent streams is free. If the response was not sent
    /// whole, RST_STREAM (INTERNAL_ERROR) is queued. If the client is still sending a body that is not needed, RST_STREAM
    /// (NO_ERROR) is (RFC 9113 §8.1).
    pub fn finished(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get(stream.get()) else { return };
        let code = if state.is_sent { ErrorCode::NO_ERROR } else { ErrorCode::INTERNAL_ERROR };
        self.reset(stream, code);
        let Some(state) = self.streams.remove(stream.get()) else { return };
        self.streams.remember(state.id, state.reset.unwrap_or(Closed::Ended));
        self.give_back(state.id, state.unreleased);
    }

    /// Streams that occupy a place.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Begins a step of the orderly end. A step that was begun before has no effect.
    pub fn shutdown(&mut self, step: Shutdown) {
        match (step, self.phase) {
            (Shutdown::Announce, Phase::Open) => {
                self.phase = Phase::Announced;
                self.queue_goaway(MAX_31_BITS, ErrorCode::NO_ERROR, b"");
                self.control.extend(FrameHeader::new(8, kind::PING, 0, 0).write());
                self.control.extend(SHUTDOWN_PING);
            }
            (Shutdown::Final, Phase::Open | Phase::Announced) => {
                self.phase = Phase::Final;
                self.queue_goaway(self.last_stream, ErrorCode::NO_ERROR, b"");
            }
            _ => {}
        }
    }

    /// Ends the connection for a reason of the caller (a deadline, a fault): queues GOAWAY with this code. What the client
    /// sends is ignored from now on.
    pub fn close(&mut self, code: ErrorCode) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.queue_goaway(self.last_stream, code, b"");
            self.phase = Phase::Closed(None);
        }
    }

    fn queue_goaway(&mut self, last_stream: u32, code: ErrorCode, debug_data: &[u8]) {
        self.control.extend(FrameHeader::new(8 + debug_data.len(), kind::GOAWAY, 0, 0).write());
        self.control.extend(last_stream.to_be_bytes());
        self.control.extend(code.get().to_be_bytes());
        self.control.extend(debug_data);
    }

    /// Whether the final GOAWAY was queued and no stream is left: close when control frames have been sent.
    pub fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Final | Phase::Closed(_)) && self.streams.len() == 0
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

    /// Gives back memory that a connection without streams does not need. To be called when the connection becomes idle.
    pub fn release_memory(&mut self) {
        self.streams.shrink();
        self.events.shrink_to_fit();
        self.control.shrink_to_fit();
        self.scratch = Vec::new();
        self.decoder.shrink();
        self.encoder.shrink();
        self.early_priorities.shrink_to_fit();
        self.reader.shrink();
    }
}

/// Calls `f` with `name` in lowercase letters.
fn in_lowercase(name: &[u8], f: impl FnOnce(&[u8])) {
    if !name.iter().any(u8::is_ascii_uppercase) {
        return f(name);
    }
    let mut lower = [0; NAME_BYTES_USUAL];
    match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            f(lower);
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

#[cfg(test)]
mod tests;

// The largest frame that is taken is the initial value, so SETTINGS need not announce it.
const _: () = assert!(PAYLOAD_BYTES_MAX == 16_384);
