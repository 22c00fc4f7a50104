//! A client that sends valid and invalid frames, and an application that calls in any order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::small_limits;
use crate::connection::{PREFACE, ServerConnection, Shutdown};
use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::frame::{FrameHeader, HEADER_BYTES, MAX_31_BITS, flag, kind, number};
use crate::hpack::{Decoder, Encoder};
use crate::streams::Outgoing;

/// Requests, of which some are malformed and one is too large.
const HEADS: [&[(&[u8], &[u8])]; 6] = [
    &[(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", b"a")],
    &[
        (b":method", b"PUT"),
        (b":scheme", b"https"),
        (b":path", b"/"),
        (b"host", b"a"),
        (b"content-length", b"300"),
    ],
    &[
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/"),
        (b":authority", b"a"),
        (b"priority", b"u=1, i"),
    ],
    &[(b":method", b"GET"), (b"connection", b"close")],
    &[(b"checksum", b"1")],
    &[
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/"),
        (b":authority", b"a"),
        (b"x", &[b'x'; 2500]),
    ],
];

/// What the application knows of a stream.
#[derive(Debug, Default)]
struct Known {
    /// Whether the client has ended the request.
    ended: bool,
    reset: bool,
    /// Whether END_STREAM was sent.
    sent: bool,
    unreleased: usize,
}

/// Both sides of a connection, and what must be true of it.
struct Sequence<'i> {
    input: &'i [u8],
    connection: ServerConnection,
    encoder: Encoder,
    /// The client's decoder.
    decoder: Decoder,
    now: Instant,
    streams: BTreeMap<u32, Known>,
    last_request: u32,
    /// The windows of the connection, as the client counts them.
    client_may_send: i64,
    server_may_send: i64,
}

/// The body of the fuzz target `h2_sequence`: each step is a byte and its arguments. No sequence may panic; events come in an
/// order that makes sense; no window is exceeded, or lost when all streams have ended; what waits is bounded; and all blocks
/// that the server sends can be decoded.
pub fn fuzz_h2_sequence(input: &[u8]) {
    let mut sequence = Sequence {
        input,
        connection: ServerConnection::new(&std::sync::Arc::new(small_limits())),
        encoder: Encoder::new(),
        decoder: Decoder::new(),
        now: Instant::now(),
        streams: BTreeMap::new(),
        last_request: 0,
        client_may_send: 65_535,
        server_may_send: 65_535,
    };
    let begun = sequence.connection.receive(PREFACE, sequence.now).is_ok()
        && sequence.frame(kind::SETTINGS, 0, 0, &[]).is_ok()
        && sequence.frame(kind::SETTINGS, flag::ACK, 0, &[]).is_ok();
    assert!(begun);
    while let Some(step) = sequence.byte() {
        if let Err(error) = sequence.step(step) {
            return sequence.check_error(error);
        }
        assert!(sequence.connection.streams() <= 4);
    }
    sequence.check_end();
}

impl Sequence<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.input.split_first()?;
        self.input = rest;
        Some(byte)
    }

    fn argument(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// A stream number: of the last requests, of the next, and now and then an even one.
    fn stream(&mut self) -> u32 {
        let argument = u32::from(self.argument());
        (self.last_request + 2).saturating_sub(argument & 0x1e) | u32::from(argument & 0xe0 != 0xe0)
    }

    /// A stream that the application knows.
    fn known(&mut self) -> Option<StreamId> {
        let place = usize::from(self.argument());
        let place = place.checked_rem(self.streams.len())?;
        self.streams.keys().nth(place).map(|id| StreamId::new(*id))
    }

    fn step(&mut self, step: u8) -> Result<(), ConnectionError> {
        match step & 0x1f {
            0..=3 => self.headers(),
            4 | 5 => self.data(),
            6 => {
                let (stream, increment) = (self.stream(), [0, 1, 5000, MAX_31_BITS][usize::from(step >> 6)]);
                self.frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())?;
                self.server_may_send += if stream == 0 { i64::from(increment) } else { 0 };
                Ok(())
            }
            7 => {
                let increment = u32::from(self.argument()) * 100;
                self.frame(kind::WINDOW_UPDATE, 0, 0, &increment.to_be_bytes())?;
                self.server_may_send += i64::from(increment);
                Ok(())
            }
            8 => {
                let stream = self.stream();
                self.frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())
            }
            9 => {
                let (name, value) = (self.argument() % 10, u32::from(self.argument()) << (step >> 5));
                self.frame(kind::SETTINGS, 0, 0, &[&[0, name][..], &value.to_be_bytes()].concat())
            }
            10 => {
                let stream = self.stream();
                self.frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=2,i"].concat())
            }
            11 => self.frame(kind::PING, step >> 7, 0, b"shutdown"),
            12 => {
                let (kind, flags, stream, length) =
                    (self.argument(), self.argument(), self.stream(), usize::from(self.argument()));
                let length = length.min(self.input.len());
                let (payload, rest) = self.input.split_at(length);
                self.input = rest;
                let is_modelled = matches!(kind, kind::WINDOW_UPDATE) && stream == 0;
                if is_modelled { Ok(()) } else { self.frame(kind, flags, stream, payload) }
            }
            13 => {
                let time = u64::from(self.argument()) * 20;
                self.now += Duration::from_millis(time);
                Ok(())
            }
            _ => {
                self.application(step);
                Ok(())
            }
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut bytes = FrameHeader::new(payload.len(), kind, flags, stream).write().to_vec();
        bytes.extend(payload);
        if kind == kind::DATA {
            self.client_may_send -= i64::try_from(payload.len()).expect("a frame is small");
        }
        let result = self.connection.receive(&bytes, self.now);
        while let Some(event) = self.connection.next_event() {
            self.event(event);
        }
        result
    }

    fn headers(&mut self) -> Result<(), ConnectionError> {
        let (stream, how) = (self.stream(), self.argument());
        let fields = HEADS[usize::from(how & 7) % HEADS.len()];
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        fields.iter().for_each(|(name, value)| self.encoder.field(name, value, &mut block));
        let end = if how & 8 == 0 { flag::END_STREAM } else { 0 };
        if how & 16 == 0 {
            return self.frame(kind::HEADERS, end | flag::END_HEADERS, stream, &block);
        }
        let (first, second) = block.split_at(block.len() / 2);
        self.frame(kind::HEADERS, end, stream, first)?;
        self.frame(kind::CONTINUATION, flag::END_HEADERS, stream, second)
    }

    /// DATA; mostly no more than the connection's window.
    fn data(&mut self) -> Result<(), ConnectionError> {
        let (stream, length, how) = (self.stream(), usize::from(self.argument()) * 2, self.argument());
        let may_send = usize::try_from(self.client_may_send).unwrap_or(0);
        let length = if how & 4 == 0 { length.min(may_send) } else { length };
        let mut payload = vec![0; length];
        if let (Some(padding), true) = (payload.first_mut(), how & 2 != 0) {
            *padding = how >> 3;
        }
        let padded = if how & 2 != 0 { flag::PADDED } else { 0 };
        self.frame(kind::DATA, how & flag::END_STREAM | padded, stream, &payload)
    }

    fn event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Request { stream, end, head } => {
                assert!(!head.method().is_empty() && head.path().is_none_or(|path| !path.is_empty()));
                self.open(stream, end);
            }
            StreamEvent::Rejected { stream, .. } => self.open(stream, true),
            StreamEvent::Refused { stream, .. } => {
                assert!(stream.get() > self.last_request);
                self.last_request = stream.get();
            }
            StreamEvent::Data { stream, bytes, end } => {
                let known = self.incoming(stream);
                known.unreleased += bytes.len();
                known.ended = end;
                assert!(end || !bytes.is_empty());
            }
            StreamEvent::Trailers { stream, .. } | StreamEvent::BrokenOff { stream } => {
                self.incoming(stream).ended = true;
            }
            StreamEvent::Reset { stream, .. } => {
                let known = self.streams.get_mut(&stream.get()).expect("a reset stream was delivered");
                assert!(!std::mem::replace(&mut known.reset, true), "a stream is reset once");
            }
            StreamEvent::GoAway { .. } => {}
        }
    }

    fn open(&mut self, stream: StreamId, ended: bool) {
        assert!(stream.get() > self.last_request && !stream.get().is_multiple_of(2));
        self.last_request = stream.get();
        self.streams.insert(stream.get(), Known { ended, ..Known::default() });
    }

    /// The stream of a body, which has not ended.
    fn incoming(&mut self, stream: StreamId) -> &mut Known {
        let known = self.streams.get_mut(&stream.get()).expect("a body follows a request");
        assert!(!known.ended && !known.reset);
        known
    }

    fn application(&mut self, step: u8) {
        if step & 0x1f == 14 {
            return self.read_control();
        }
        if step & 0x1f == 15 {
            let connection = &mut self.connection;
            return connection.shutdown(if step & 0x80 == 0 { Shutdown::Graceful } else { Shutdown::Final });
        }
        if step & 0x1f >= 28 {
            return self.send_next(step);
        }
        let Some(stream) = self.known() else { return };
        let argument = usize::from(self.argument());
        let Some(known) = self.streams.get_mut(&stream.get()) else { return };
        let mut out = Vec::new();
        match step & 0x1f {
            16 | 17 => {
                let end = step & 0x80 != 0;
                let value = [b'v', step];
                self.connection.head(stream, 200, [(&b"X-Name"[..], &value[..])], end, &mut out);
                known.sent |= end;
            }
            18 => {
                self.connection.trailers(stream, [(&b"x"[..], &b"y"[..])], &mut out);
                known.sent = true;
            }
            19 | 20 => {
                let bytes = argument.min(known.unreleased);
                known.unreleased -= bytes;
                self.connection.release(stream, bytes);
            }
            21 => {
                self.connection.reset(stream, ErrorCode::CANCEL);
                known.reset = true;
            }
            22 | 23 => {
                self.connection.finished(stream);
                self.streams.remove(&stream.get());
            }
            24 => self.connection.set_default_urgency(stream, step >> 5),
            _ => self.connection.set_outgoing(stream, [Outgoing::Data, Outgoing::Frames][argument & 1]),
        }
        self.check_block(&out);
    }

    /// Sends a frame of the stream that is chosen.
    fn send_next(&mut self, step: u8) {
        let Some(stream) = self.connection.next_stream() else { return };
        let known = self.streams.get_mut(&stream.get()).expect("a stream that is chosen was delivered");
        assert!(!known.reset && !known.sent);
        let length = usize::from(self.argument()) * 40;
        let length = length.min(self.connection.sendable(stream)).min(self.connection.frame_bytes_max());
        let header = FrameHeader::parse(&self.connection.data_header(stream, length, step & 0x80 != 0));
        assert_eq!((header.length, header.stream), (length, stream.get()));
        if step & 0x40 != 0 {
            self.connection.unsend(stream, length);
            return;
        }
        let known = self.streams.get_mut(&stream.get()).expect("it was there");
        known.sent = step & 0x80 != 0;
        self.server_may_send -= i64::try_from(length).expect("a frame is small");
        assert!(self.server_may_send >= 0, "the window of the connection is exceeded");
        assert_eq!(i64::try_from(self.connection.connection_sendable()), Ok(self.server_may_send));
    }

    /// Decodes a field block that the server made.
    fn check_block(&mut self, bytes: &[u8]) {
        let Some((header, block)) = bytes.split_first_chunk() else { return };
        let header = FrameHeader::parse(header);
        assert_eq!((header.kind, header.length), (kind::HEADERS, block.len()));
        assert_eq!(self.decoder.decode(block, &mut Vec::new(), |_, _, _| {}), Ok(()));
    }

    /// Reads what the server wants to say, and counts WINDOW_UPDATE.
    fn read_control(&mut self) {
        let control = self.connection.take_control();
        assert!(control.len() <= 1500, "what waits is bounded");
        let mut rest = &*control;
        while !rest.is_empty() {
            let header = FrameHeader::parse(rest.first_chunk::<HEADER_BYTES>().expect("a whole header"));
            let (payload, after) = rest[HEADER_BYTES..].split_at(header.length);
            rest = after;
            if (header.kind, header.stream) == (kind::WINDOW_UPDATE, 0) {
                self.client_may_send += i64::from(number(payload));
                assert!(self.client_may_send <= 65_535);
            }
        }
    }

    fn check_error(&mut self, error: ConnectionError) {
        let control = self.connection.take_control();
        let goaway = control.windows(error.reason.len()).rposition(|text| text == error.reason.as_bytes());
        assert_eq!(goaway, Some(control.len() - error.reason.len()), "GOAWAY is the last frame");
        assert_eq!(self.connection.receive(b"more", self.now), Err(error));
    }

    /// When all streams have ended, the client may send what it might at first, but for what is less than half of it.
    fn check_end(&mut self) {
        for id in std::mem::take(&mut self.streams).into_keys() {
            self.connection.finished(StreamId::new(id));
        }
        self.read_control();
        assert_eq!(self.connection.streams(), 0);
        assert!(self.client_may_send > 65_535 / 2, "{} bytes of the window were lost", self.client_may_send);
        assert_eq!(self.connection.next_stream(), None);
    }
}
