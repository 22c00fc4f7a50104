//! A client that sends frame by frame what a test tells it (RFC 9113 §4.1).

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::{Client, Server, TlsOptions, TlsStream};

/// Content of a message.
pub const DATA: u8 = 0;
/// A field block.
pub const HEADERS: u8 = 1;
/// Of RFC 7540, without effect.
pub const PRIORITY: u8 = 2;
/// The end of a stream.
pub const RST_STREAM: u8 = 3;
/// A side's parameters.
pub const SETTINGS: u8 = 4;
/// Not allowed to clients.
pub const PUSH_PROMISE: u8 = 5;
/// A question whose answer has the ACK flag.
pub const PING: u8 = 6;
/// The end of a connection.
pub const GOAWAY: u8 = 7;
/// More space for content.
pub const WINDOW_UPDATE: u8 = 8;
/// The rest of a field block.
pub const CONTINUATION: u8 = 9;
/// The priority of a stream (RFC 9218 §7.1).
pub const PRIORITY_UPDATE: u8 = 16;

/// The flag of SETTINGS and PING that answer one.
pub const ACK: u8 = 1;
/// The flag of the last frame of a message.
pub const END_STREAM: u8 = 1;
/// The flag of the last frame of a field block.
pub const END_HEADERS: u8 = 4;

/// What a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS_INITIAL_WINDOW_SIZE of 0.
pub const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream, 0 for the connection.
    pub stream: u32,
    /// What follows its header.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field block that adds nothing to the table (RFC 7541 §6.2.2). Names and values have up to 126 bytes.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("short text"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The field block of a request.
pub fn request(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")])
}

/// GET on a stream.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path))
}

/// A connection that is told its frames.
pub struct Peer<S>(pub S);

impl Peer<TcpStream> {
    /// A connection without TLS, on which nothing has been said.
    pub fn plain(server: &Server) -> Self {
        Self(Client::connect(server.http()).stream)
    }
}

impl Peer<TlsStream> {
    /// A TLS connection for which both sides chose HTTP/2.
    pub fn tls(server: &Server) -> Self {
        let options = TlsOptions { alpn: &["h2", "http/1.1"], ..TlsOptions::default() };
        let stream = Client::tls_with(server, &options).stream;
        assert_eq!(stream.facts().selected_alpn_protocol(), Some(&b"h2"[..]));
        Self(stream)
    }
}

impl<S: Read + Write> Peer<S> {
    /// Sends the preface and SETTINGS with this payload.
    pub fn open(mut self, settings: &[u8]) -> Self {
        self.send(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat());
        self
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
        self.0.flush().unwrap();
    }

    /// Sends bytes to a server that may end the connection within them. Returns whether it took them all.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).is_ok()
    }

    /// The next frame; `None` at the end of the connection, however it ends.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(header[5..9].try_into().unwrap());
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }

    /// The next frame of this kind; fails at the end of the connection.
    #[track_caller]
    pub fn expect(&mut self, kind: u8) -> Frame {
        loop {
            match self.receive() {
                Some(frame) if frame.kind == kind => return frame,
                Some(_) => {}
                None => panic!("the connection ended before a frame of type {kind}"),
            }
        }
    }

    /// All frames up to the end of the connection.
    pub fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.receive()).collect()
    }

    /// The body of a response, taken as it comes, with windows given back.
    #[track_caller]
    pub fn body(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let frame = self.receive().expect("the rest of the body");
            match (frame.kind, frame.stream == stream) {
                (DATA, true) => {
                    body.extend_from_slice(&frame.payload);
                    if frame.flags & END_STREAM != 0 {
                        return body;
                    }
                    let length = u32::try_from(frame.payload.len()).unwrap();
                    self.send(&window(0, length));
                    self.send(&window(stream, length));
                }
                // The server ends the connection behind the response.
                (GOAWAY, _) if frame.payload[4..8] == [0; 4] => {}
                (RST_STREAM, true) | (GOAWAY, _) => panic!("{frame:?} within the body"),
                _ => {}
            }
        }
    }
}

/// WINDOW_UPDATE.
pub fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}
