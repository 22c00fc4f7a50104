//! A connection and a client that sends frames of any kind.

mod flood;
mod flow;
mod priority;
mod request;
mod rules;
mod sending;

use std::time::{Duration, Instant};

use super::*;
use crate::frame::{flag, number};
use crate::priority::Priority;

/// A client that was not written to be right.
struct Client {
    connection: ServerConnection,
    encoder: Encoder,
    now: Instant,
}

/// A frame that the server sent.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

const GET: [(&[u8], &[u8]); 4] =
    [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a.example"), (b":path", b"/")];

const POST: [(&[u8], &[u8]); 4] =
    [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"a.example"), (b":path", b"/")];

impl Client {
    /// A connection whose SETTINGS were exchanged.
    fn new(limits: &Http2Limits) -> Self {
        let mut client = Self::without_preface(limits);
        client.connection.receive(PREFACE, client.now).unwrap();
        client.frame(kind::SETTINGS, 0, 0, &[]).unwrap();
        client.frame(kind::SETTINGS, flag::ACK, 0, &[]).unwrap();
        client.connection.take_control();
        client
    }

    fn without_preface(limits: &Http2Limits) -> Self {
        Self {
            connection: ServerConnection::new(&Arc::new(limits.clone())),
            encoder: Encoder::new(),
            now: Instant::now(),
        }
    }

    fn with_defaults() -> Self {
        Self::new(&Http2Limits::default())
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut bytes = FrameHeader::new(payload.len(), kind, flags, stream).write().to_vec();
        bytes.extend(payload);
        self.connection.receive(&bytes, self.now)
    }

    fn block(&mut self, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        fields.iter().for_each(|(name, value)| self.encoder.field(name, value, &mut block));
        block
    }

    /// HEADERS with END_HEADERS.
    fn headers(&mut self, stream: u32, flags: u8, fields: &[(&[u8], &[u8])]) -> Result<(), ConnectionError> {
        let block = self.block(fields);
        self.frame(kind::HEADERS, flag::END_HEADERS | flags, stream, &block)
    }

    /// A request without a body, whose event is taken.
    fn get(&mut self, stream: u32) -> StreamId {
        self.headers(stream, flag::END_STREAM, &GET).unwrap();
        self.expect_request()
    }

    /// A request whose body follows.
    fn post(&mut self, stream: u32) -> StreamId {
        self.headers(stream, 0, &POST).unwrap();
        self.expect_request()
    }

    fn expect_request(&mut self) -> StreamId {
        match self.connection.next_event() {
            Some(StreamEvent::Request { stream, .. }) => stream,
            other => panic!("{other:?}"),
        }
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), ConnectionError> {
        let mut payload = name.to_be_bytes().to_vec();
        payload.extend(value.to_be_bytes());
        self.frame(kind::SETTINGS, 0, 0, &payload)
    }

    fn window_update(&mut self, stream: u32, increment: u32) -> Result<(), ConnectionError> {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    fn respond(&mut self, stream: StreamId, end: bool) {
        self.connection.head(stream, 200, [], end, &mut Vec::new());
    }

    /// Control frames that wait.
    fn control(&mut self) -> Vec<Frame> {
        frames(&self.connection.take_control())
    }

    /// The events that wait, as text.
    fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.connection.next_event()).map(|event| describe(&event)).collect()
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

fn describe(event: &StreamEvent) -> String {
    match event {
        StreamEvent::Request { stream, head, end } => {
            format!(
                "{stream} {} {}{}",
                head.method(),
                head.path().unwrap_or("-"),
                if *end { " end" } else { "" }
            )
        }
        StreamEvent::Rejected { stream, status, reason } => format!("{stream} rejected {status} {reason}"),
        StreamEvent::Data { stream, bytes, end } => {
            format!("{stream} data {}{}", bytes.len(), if *end { " end" } else { "" })
        }
        StreamEvent::Trailers { stream, lines } => format!("{stream} trailers {}", lines.escape_ascii()),
        StreamEvent::BrokenOff { stream } => format!("{stream} broken off"),
        StreamEvent::Reset { stream, code, reason } => format!("{stream} reset {} {reason}", code.label()),
        StreamEvent::Refused { stream, code, reason } => {
            format!("{stream} refused {} {reason}", code.label())
        }
        StreamEvent::GoAway { code } => format!("goaway {}", code.label()),
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let FrameHeader { length, kind, flags, stream } = FrameHeader::parse(header);
        let (payload, rest) = rest.split_at(length);
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        bytes = rest;
    }
    assert_eq!(bytes, [], "a frame is cut");
    frames
}

fn reset(stream: u32, code: ErrorCode) -> Frame {
    Frame { kind: kind::RST_STREAM, flags: 0, stream, payload: code.get().to_be_bytes().to_vec() }
}

fn update(stream: u32, increment: u32) -> Frame {
    Frame { kind: kind::WINDOW_UPDATE, flags: 0, stream, payload: increment.to_be_bytes().to_vec() }
}

fn error(code: ErrorCode, reason: &'static str) -> Result<(), ConnectionError> {
    Err(ConnectionError { code, reason })
}
