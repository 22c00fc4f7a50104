//! A client that does what an input says, beside a server in this process or another one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use quiche::h3::{Header, qpack};

use super::Input;
use super::response::FuzzResponse;
use crate::peers::{client_config, server_address};
use crate::{ConnectionId, MAX_DATAGRAM_BYTES};

/// Ports that the client sends from.
const PORTS: u8 = 4;

/// The client's control stream, its first unidirectional one.
const CONTROL_STREAM: u64 = 2;

/// Requests, of which some are malformed and one is too large. The paths are those of the tests of the whole program.
const HEADS: [&[(&str, &str)]; 8] = [
    &[(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/small.txt")],
    &[(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/clip.mp4")],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/clip.mp4"),
        ("range", "bytes=1000-3000"),
        ("priority", "u=1, i"),
    ],
    &[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/small.txt"),
        ("content-length", "300"),
    ],
    &[(":method", "CONNECT"), (":authority", "localhost"), (":protocol", "websocket")],
    &[(":method", "GET"), (":path", "/"), ("connection", "close")],
    &[("checksum", "1")],
    &[
        (":method", "HEAD"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/small.txt"),
        ("x-long", LONG),
    ],
];

const LONG: &str = match std::str::from_utf8(&[b'x'; 1500]) {
    Ok(text) => text,
    Err(_) => "",
};

/// What comes next.
#[derive(Debug)]
pub enum FuzzStep {
    /// The client has done it.
    Client,
    /// The server's application does something: a choice, and the place of a stream.
    Server(u8, u8),
}

/// What happens to the next datagrams.
#[derive(Debug)]
enum Fate {
    Lost,
    Twice,
    /// Behind the next one.
    Late,
    /// It ends after so many bytes.
    Short(usize),
    /// A byte of it is another one.
    Changed(usize, u8),
}

thread_local! {
    /// Of a client with usual windows, and of one with small ones.
    static CONFIGS: RefCell<[quiche::Config; 2]> = RefCell::new({
        let mut small = client_config();
        small.set_initial_max_data(3000);
        small.set_initial_max_stream_data_bidi_local(900);
        [client_config(), small]
    });
}

/// A client of QUIC that writes to its streams what an input says.
///
/// It sends from several ports, which are those of the caller. Its own address is that of the first one until it moves; a NAT may
/// change what the server sees.
pub struct FuzzClient<'i> {
    input: Input<'i>,
    quic: Box<quiche::Connection>,
    next_request: u64,
    /// Ports by which what leaves is moved.
    nat: u8,
    port: u8,
    fates: VecDeque<Fate>,
    late: Option<(u8, Vec<u8>)>,
    junk: Vec<Vec<u8>>,
    losses: u8,
    is_reading: bool,
    is_begun: bool,
    /// Whether a datagram may have been changed or lost.
    pub has_bad_link: bool,
    /// Datagrams of the server that were lost on purpose.
    pub lost: usize,
    /// What has come on each stream, and whether it has ended.
    received: BTreeMap<u64, (Vec<u8>, bool)>,
    /// Streams whose responses it does not want to the end.
    pub given_up: BTreeSet<u64>,
}

impl std::fmt::Debug for FuzzClient<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuzzClient").field("input", &self.input).finish_non_exhaustive()
    }
}

/// The client's own address with this port.
fn own_address(port: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 50_000 + u16::from(port)))
}

impl<'i> FuzzClient<'i> {
    /// A client that has said nothing yet.
    pub fn new(input: &'i [u8]) -> Self {
        let id = ConnectionId::random(0, 1);
        let mut input = Input(input);
        let kind = usize::from(input.argument() & 1);
        let quic = CONFIGS.with_borrow_mut(|configs| {
            let config = &mut configs[kind];
            quiche::connect(Some("localhost"), &id.quic(), own_address(0), server_address(), config).unwrap()
        });
        Self {
            input,
            quic: Box::new(quic),
            next_request: 0,
            nat: 0,
            port: 0,
            fates: VecDeque::new(),
            late: None,
            junk: Vec::new(),
            losses: 0,
            is_reading: true,
            is_begun: false,
            has_bad_link: false,
            lost: 0,
            received: BTreeMap::new(),
            given_up: BTreeSet::new(),
        }
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.quic.is_established()
    }

    /// Whether the connection has ended for this side.
    pub fn is_over(&self) -> bool {
        self.quic.is_closed() || self.quic.is_draining() || self.quic.local_error().is_some()
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn deadline(&self) -> Option<std::time::Instant> {
        self.quic.timeout_instant()
    }

    /// Follows timers.
    pub fn on_timeout(&mut self) {
        self.quic.on_timeout();
    }

    /// The number of a port by which the server reaches the client.
    pub fn port(&self) -> u8 {
        (self.port + self.nat) % PORTS
    }

    /// A datagram that has come to this port.
    pub fn receive(&mut self, datagram: &mut [u8], port: u8) {
        if self.losses > 0 {
            self.losses -= 1;
            self.lost += 1;
            return;
        }
        let to = own_address((port + PORTS - self.nat) % PORTS);
        let _not_of_this_connection =
            self.quic.recv(datagram, quiche::RecvInfo { from: server_address(), to });
        if self.is_reading {
            self.read();
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let readable: Vec<u64> = self.quic.readable().collect();
        for stream in readable {
            let (bytes, has_ended) = self.received.entry(stream).or_default();
            loop {
                match self.quic.stream_recv(stream, &mut buffer) {
                    Ok((count, end)) => {
                        bytes.extend_from_slice(&buffer[..count]);
                        *has_ended |= end;
                    }
                    Err(quiche::Error::StreamReset(_)) => {
                        self.given_up.insert(stream);
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
    }

    /// Gives the next datagrams to `sink`, with the ports that they leave from.
    pub fn send(&mut self, mut sink: impl FnMut(u8, &[u8])) {
        let mut packet = [0; MAX_DATAGRAM_BYTES];
        while let Ok((length, info)) = self.quic.send(&mut packet) {
            let port = u8::try_from(info.from.port() - own_address(0).port()).unwrap_or(0);
            let port = (port + self.nat) % PORTS;
            self.put(port, packet[..length].to_vec(), &mut sink);
            if let Some((port, late)) = self.late.take_if(|(_, late)| *late != packet[..length]) {
                sink(port, &late);
            }
            // The library acknowledges without end if an application closes a connection whose handshake waits for a probe.
            if self.quic.local_error().is_some() {
                break;
            }
        }
        let port = self.port();
        for junk in self.junk.drain(..) {
            sink(port, &junk);
        }
    }

    fn put(&mut self, port: u8, mut datagram: Vec<u8>, sink: &mut impl FnMut(u8, &[u8])) {
        match self.fates.pop_front() {
            None => sink(port, &datagram),
            Some(Fate::Lost) => {}
            Some(Fate::Twice) => {
                sink(port, &datagram);
                sink(port, &datagram);
            }
            Some(Fate::Late) => self.late = Some((port, datagram)),
            Some(Fate::Short(length)) => sink(port, &datagram[..length.min(datagram.len())]),
            Some(Fate::Changed(place, mask)) => {
                let place = place % datagram.len();
                datagram[place] ^= mask;
                sink(port, &datagram);
            }
        }
    }

    /// Takes the next step of the input, if there is one.
    pub fn step(&mut self) -> Option<FuzzStep> {
        let step = self.input.byte()?;
        let high = step >> 5;
        match step & 0x1f {
            number @ 0..=3 => self.request(usize::from(number | (high & 1) << 2), high & 2 == 0),
            4 => self.frame(high),
            5 => self.control(high),
            6 => self.unidirectional(high),
            7 => {
                let (stream, bytes) = (u64::from(self.input.argument()), self.input.bytes());
                self.write(stream, bytes, high & 1 != 0);
            }
            8 => self.shut_down(quiche::Shutdown::Write, high),
            9 => self.shut_down(quiche::Shutdown::Read, high),
            10 => {
                let _over = self.quic.send_ack_eliciting();
            }
            11 => self.spoil(high),
            12 => {
                self.losses = high;
                self.has_bad_link = true;
            }
            13 => self.send_junk(high),
            14 => {
                self.nat = (self.nat + 1) % PORTS;
                // What the server sends before it knows is lost.
                self.has_bad_link = true;
            }
            15 => self.migrate(),
            16 => self.is_reading = !self.is_reading,
            17 => {
                let _over = self.quic.close(high & 1 != 0, 0x100 + u64::from(high), b"fuzz");
            }
            18 => {
                let id = ConnectionId::random(0, 1);
                let _none_wanted = self.quic.new_scid(&id.quic(), 7, high & 1 != 0);
            }
            19 => {
                let _unknown = self.quic.retire_dcid(u64::from(high));
            }
            number => return Some(FuzzStep::Server(number - 20 + (high & 1) * 12, self.input.argument())),
        }
        Some(FuzzStep::Client)
    }

    /// Reads what has come, whatever the input said.
    pub fn read_on(&mut self) {
        self.is_reading = true;
        (self.fates, self.losses) = (VecDeque::new(), 0);
        self.read();
    }

    /// What has come of responses, by their streams.
    pub fn responses(&self) -> BTreeMap<u64, FuzzResponse> {
        let responses = self.received.iter().filter(|(stream, _)| stream.is_multiple_of(4));
        responses
            .map(|(stream, (bytes, has_ended))| (*stream, FuzzResponse::read(bytes, *has_ended)))
            .collect()
    }

    /// Begins HTTP/3 as all clients do: with the control stream and those of QPACK.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.write(CONTROL_STREAM, &[0, 4, 0], false);
            self.write(CONTROL_STREAM + 4, &[2], false);
            self.write(CONTROL_STREAM + 8, &[3], false);
        }
    }

    fn request(&mut self, head: usize, end: bool) {
        self.begin();
        let fields: Vec<Header> =
            HEADS[head].iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect();
        let mut section = vec![0; 4096];
        let length = qpack::Encoder::new().encode(&fields, &mut section).unwrap();
        let frame = frame(1, &section[..length]);
        if self.write(self.next_request, &frame, end) {
            self.next_request += 4;
        }
    }

    /// A stream of a request: one of the last, or the next.
    fn stream(&mut self) -> u64 {
        let argument = u64::from(self.input.argument());
        (self.next_request + 4).saturating_sub(4 * (argument & 7))
    }

    fn frame(&mut self, high: u8) {
        let (stream, kind) = (self.stream(), self.input.argument());
        let content = self.input.bytes();
        let kind = if high & 2 == 0 { 0 } else { kind };
        self.write(stream, &frame(kind, content), high & 1 != 0);
    }

    fn control(&mut self, high: u8) {
        self.begin();
        let frame = match high {
            0 => {
                let stream = self.stream();
                [&[0x80, 0x0f, 0x07, 0, 8][..], &(stream | 0xc0 << 56).to_be_bytes(), b"u=2,i"].concat()
            }
            // GOAWAY, MAX_PUSH_ID and CANCEL_PUSH.
            kind @ 1..=3 => frame([7, 13, 3][usize::from(kind) - 1], &[self.input.argument() & 0x3f]),
            _ => {
                let kind = self.input.argument();
                frame(kind, self.input.bytes())
            }
        };
        self.write(CONTROL_STREAM, &frame, high == 7);
    }

    fn unidirectional(&mut self, high: u8) {
        let (place, kind) = (u64::from(self.input.argument() & 7), self.input.argument());
        let bytes = self.input.bytes();
        // The type comes first, unless the stream has one.
        let bytes = if high & 2 == 0 { [&[kind & 0x3f], bytes].concat() } else { bytes.to_vec() };
        self.write(CONTROL_STREAM + 4 * place, &bytes, high & 1 != 0);
    }

    /// Returns whether all bytes were taken.
    fn write(&mut self, stream: u64, bytes: &[u8], end: bool) -> bool {
        self.quic.stream_send(stream, bytes, end).is_ok_and(|count| count == bytes.len())
    }

    fn shut_down(&mut self, direction: quiche::Shutdown, high: u8) {
        let stream = self.stream();
        self.given_up.insert(stream);
        let _gone = self.quic.stream_shutdown(stream, direction, 0x100 + u64::from(high));
    }

    fn spoil(&mut self, high: u8) {
        let argument = self.input.argument();
        let place = usize::from(argument) << (high & 3);
        self.fates.push_back(match high {
            0 => Fate::Lost,
            1 => Fate::Twice,
            2 => Fate::Late,
            3 => Fate::Short(place),
            _ => Fate::Changed(place, argument | 1),
        });
        self.has_bad_link = true;
    }

    /// A datagram of the input's bytes, behind this connection's id if `high` says so.
    fn send_junk(&mut self, high: u8) {
        let bytes = self.input.bytes();
        let id = self.quic.destination_id();
        self.junk.push(match high {
            0 => bytes.to_vec(),
            1 => [&[0x40 | (bytes.len().to_le_bytes()[0] & 0x3f)], &*id, bytes].concat(),
            _ => {
                let first = 0x80 | (high << 4) | 0x40;
                let length = id.len().to_le_bytes()[0];
                [&[first, 0, 0, 0, 1, length], &*id, bytes].concat()
            }
        });
    }

    /// Goes to the next port, with another id.
    fn migrate(&mut self) {
        let id = ConnectionId::random(0, 1);
        let _none_wanted = self.quic.new_scid(&id.quic(), 7, false);
        let port = (self.port + 1) % PORTS;
        if self.quic.migrate(own_address(port), server_address()).is_ok() {
            self.port = port;
            self.has_bad_link = true;
        }
    }
}

/// A frame of HTTP/3 whose type and content are short.
fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (u16::try_from(content.len()).unwrap_or(0x3fff) | 0x4000).to_be_bytes();
    [&[kind & 0x3f], &length[..], content].concat()
}
