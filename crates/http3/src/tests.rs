//! A client and a server in one process, and a link between them that may lose and reorder datagrams.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::h3;

use super::*;
use crate::peers::{client_address, client_config, context, server_address};

mod ends;
mod migration;
mod probes;

/// After so long without a packet a client asks whether its server is there.
const SILENCE: Duration = Duration::from_secs(1);

/// Which datagrams of a link are lost or held back behind the next one, by their number.
#[derive(Clone, Copy, Debug)]
enum Weather {
    Fair,
    Loses(usize),
    Reorders(usize),
}

struct Link {
    weather: Weather,
    count: usize,
    held: Option<Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
}

impl Link {
    fn new(weather: Weather) -> Self {
        Self { weather, count: 0, held: None, queue: VecDeque::new() }
    }

    fn put(&mut self, datagram: &[u8]) {
        self.count += 1;
        match self.weather {
            Weather::Loses(every) if self.count.is_multiple_of(every) => {}
            Weather::Reorders(every) if self.count.is_multiple_of(every) && self.held.is_none() => {
                self.held = Some(datagram.to_vec());
            }
            _ => {
                self.queue.push_back(datagram.to_vec());
                self.queue.extend(self.held.take());
            }
        }
    }
}

/// A server that answers each request with `content`.
struct Server {
    connection: ServerConnection,
    schedule: Schedule,
    content: Vec<u8>,
    sent: Vec<(u64, usize)>,
    received: Vec<u8>,
    events: Vec<String>,
    /// Whether it reads content of requests.
    reads: bool,
    /// Whether it sends more than the head of its response.
    answers: bool,
}

impl Server {
    fn receive(&mut self, datagram: &mut [u8], client: SocketAddr) {
        self.connection.receive(datagram, NetworkPath { local: server_address(), client });
        self.connection.send_trains();
        while let Some(event) = self.connection.next_event() {
            match event {
                StreamEvent::Request { stream, fields, .. } => {
                    let path =
                        fields.iter().find(|(name, _)| *name == b":path").map(|(_, value)| value.to_vec());
                    self.events.push(format!("{stream} {}", String::from_utf8(path.unwrap()).unwrap()));
                    if self.connection.is_too_late(stream) {
                        self.connection.reset(stream, code::REQUEST_REJECTED);
                        self.connection.finished(stream);
                        continue;
                    }
                    let length = self.content.len().to_string();
                    let mut fields = Vec::new();
                    encode_head(200, [(&b"content-length"[..], length.as_bytes())].into_iter(), &mut fields);
                    let head = HeadFrame::new(&fields, None);
                    if self.connection.send_head(stream, head, false) == HeadSent::Gone {
                        self.events.push(format!("Gone({stream})"));
                        continue;
                    }
                    self.schedule.add(stream, None, true);
                    if self.answers {
                        self.schedule.set(stream, Readiness::Content);
                    }
                    self.sent.push((stream, 0));
                }
                StreamEvent::Content(stream) if self.reads => loop {
                    let bytes = self.connection.read(stream, 10_000);
                    if bytes.is_empty() {
                        break;
                    }
                    self.received.extend(bytes);
                },
                StreamEvent::Content(_) => {}
                other => self.events.push(format!("{other:?}")),
            }
        }
    }

    fn send(&mut self) {
        // A train that is not full leaves as well: nothing here is timed.
        self.connection.send_little();
        let Self { connection, schedule, .. } = self;
        while let Some(stream) = schedule.next(|stream, _| connection.content_bytes_max(stream, u64::MAX) > 0)
        {
            let (_, at) = self.sent.iter_mut().find(|(of, _)| *of == stream).unwrap();
            let space = connection.content_bytes_max(stream, u64::MAX).min(50_000);
            let length = space.min(self.content.len() - *at);
            let end = *at + length == self.content.len();
            let sent = connection.send_content(stream, length, end, |count, out| {
                out.extend_from_slice(&self.content[*at..*at + count]);
                *at += count;
                Ok::<(), ()>(())
            });
            assert_eq!(sent, Ok(()), "content_bytes_max is what the library takes");
            if end {
                schedule.remove(stream);
                connection.finished(stream);
            }
        }
    }
}

struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    local: SocketAddr,
    /// Its address as the server sees it. A NAT may change it.
    address: SocketAddr,
    content: Vec<u8>,
    finished: Vec<u64>,
    resets: Vec<u64>,
    goaway: Option<u64>,
    /// The longest datagram since its address changed.
    longest: usize,
    /// When it has heard of the server, or has asked whether that is there.
    heard: Instant,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let id = ConnectionId::random(0, 1);
        let quic =
            quiche::connect(Some("a.example"), &id.quic(), address, server_address(), &mut client_config());
        let (content, finished, resets) = (Vec::new(), Vec::new(), Vec::new());
        let local = address;
        Self {
            quic: quic.unwrap(),
            http: None,
            local,
            address,
            content,
            finished,
            resets,
            goaway: None,
            longest: 0,
            heard: Instant::now(),
        }
    }

    /// Clients that wait for a response ask from time to time whether the server is there. Without that a server which was moved
    /// knows no address to which it may send enough (RFC 9000 section 8.1).
    fn ask_after_silence(&mut self) {
        if self.heard.elapsed() > SILENCE {
            self.heard = Instant::now();
            let _ended = self.quic.send_ack_eliciting();
        }
    }

    fn receive(&mut self, datagram: &mut [u8]) {
        self.longest = self.longest.max(datagram.len());
        self.heard = Instant::now();
        let info = quiche::RecvInfo { from: server_address(), to: self.local };
        let _not_of_this_connection = self.quic.recv(datagram, info);
        if self.quic.is_established() && self.http.is_none() {
            let config = h3::Config::new().unwrap();
            self.http = Some(h3::Connection::with_transport(&mut self.quic, &config).unwrap());
        }
        let Some(http) = &mut self.http else { return };
        while let Ok((stream, event)) = http.poll(&mut self.quic) {
            match event {
                h3::Event::Data => {
                    let mut buffer = vec![0; 100_000];
                    while let Ok(count) = http.recv_body(&mut self.quic, stream, &mut buffer) {
                        self.content.extend_from_slice(&buffer[..count]);
                    }
                }
                h3::Event::Finished => self.finished.push(stream),
                h3::Event::Reset(code) => self.resets.push(code),
                h3::Event::GoAway => self.goaway = Some(stream),
                _ => {}
            }
        }
    }

    fn get(&mut self, path: &str) -> u64 {
        self.request("GET", path, true)
    }

    fn request(&mut self, method: &str, path: &str, end: bool) -> u64 {
        let head = [(":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", path)];
        self.http.as_mut().unwrap().send_request(&mut self.quic, &head, end).unwrap()
    }
}

struct Pair {
    client: Client,
    server: Server,
    to_server: Link,
    to_client: Link,
    /// The ids by which the server has sent to each address.
    ids: BTreeSet<(SocketAddr, Vec<u8>)>,
}

impl Pair {
    fn new(content: usize, weather: Weather) -> Self {
        Self::with(content, weather, &Http3Limits::default())
    }

    fn with(content: usize, weather: Weather, limits: &Http3Limits) -> Self {
        let mut config = QuicConfig::new(context(), limits).unwrap();
        let path = NetworkPath { local: server_address(), client: client_address() };
        let id = ConnectionId::random(0, 1);
        let connection = ServerConnection::accept(&mut config, (id, 7), None, path).unwrap();
        let content = (0..content).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let server = Server {
            connection,
            schedule: Schedule::default(),
            content,
            sent: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
            reads: true,
            answers: true,
        };
        let (to_server, to_client) = (Link::new(weather), Link::new(weather));
        let (client, ids) = (Client::new(client_address()), BTreeSet::new());
        let mut pair = Self { client, server, to_server, to_client, ids };
        pair.until(|pair| pair.client.http.is_some() && pair.server.connection.is_established());
        pair
    }

    /// Passes datagrams and follows timers until `is_done`.
    fn until(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) {
        let give_up = Instant::now() + Duration::from_secs(60);
        while !is_done(self) {
            assert!(
                Instant::now() < give_up,
                "{:?}, {:?}, {} bytes of a response",
                self.to_client.weather,
                self.server.events,
                self.client.content.len()
            );
            self.client.ask_after_silence();
            let mut packet = [0; MAX_DATAGRAM_BYTES];
            while let Ok((length, info)) = self.client.quic.send(&mut packet) {
                // An address that the client has left is gone.
                if info.from == self.client.local {
                    self.to_server.put(&packet[..length]);
                }
            }
            self.server.send();
            while let Some((length, path)) = self.server.connection.packet(&mut packet) {
                // What goes to an earlier address of the client is lost.
                if packet[0] & 0x80 == 0 {
                    self.ids.insert((path.client, packet[1..=CONNECTION_ID_BYTES].to_vec()));
                }
                if path.client == self.client.address {
                    self.to_client.put(&packet[..length]);
                }
            }
            if self.to_server.queue.is_empty() && self.to_client.queue.is_empty() {
                let timers = [self.client.quic.timeout_instant(), self.server.connection.deadline()];
                let Some(due) = timers.into_iter().flatten().min() else { continue };
                std::thread::sleep(
                    due.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
                );
                if timers[0].is_some_and(|due| due <= Instant::now()) {
                    self.client.quic.on_timeout();
                }
                if timers[1].is_some_and(|due| due <= Instant::now()) {
                    self.server.connection.on_timeout();
                }
            }
            while let Some(mut datagram) = self.to_server.queue.pop_front() {
                self.server.receive(&mut datagram, self.client.address);
            }
            while let Some(mut datagram) = self.to_client.queue.pop_front() {
                self.client.receive(&mut datagram);
            }
        }
    }

    /// Passes what there is to say after the last response.
    fn settle(&mut self) {
        let mut rounds = 0..10;
        self.until(|_| rounds.next().is_none());
    }

    fn download(&mut self, path: &str) {
        self.client.content.clear();
        let stream = self.client.get(path);
        self.until(|pair| pair.client.finished.contains(&stream));
        assert!(self.client.content == self.server.content, "{} bytes", self.client.content.len());
    }
}

fn send_zeros(pair: &mut Pair, stream: u64, length: usize) {
    let sent = pair.server.connection.send_content(stream, length, false, |count, out| {
        out.resize(out.len() + count, 0);
        Ok::<(), ()>(())
    });
    assert_eq!(sent, Ok(()));
}

#[test]
fn content_arrives_whole_in_every_weather() {
    for weather in [Weather::Fair, Weather::Loses(100), Weather::Loses(20), Weather::Reorders(7)] {
        let mut pair = Pair::new(1_000_000, weather);
        pair.download("/first");
        pair.download("/second");
        assert_eq!(pair.server.events[0], "0 /first");
        assert!(pair.server.events.contains(&"4 /second".to_owned()));
        assert!(pair.server.connection.is_idle());
        let [received, sent, lost, _] = pair.server.connection.counts();
        assert!(received > 0 && sent > 1000);
        if matches!(weather, Weather::Loses(_)) {
            assert!(lost > 0);
        }
    }
}

#[test]
fn a_body_comes_as_fast_as_it_is_read() {
    let limits = Http3Limits { stream_window: 20_000, connection_window: 30_000, ..Http3Limits::default() };
    let mut pair = Pair::with(10, Weather::Fair, &limits);
    let body: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    (pair.server.reads, pair.server.answers) = (false, false);
    let stream = pair.client.request("POST", "/", false);
    let mut at = 0;
    let mut upload = |pair: &mut Pair| {
        let http = pair.client.http.as_mut().unwrap();
        at += http.send_body(&mut pair.client.quic, stream, &body[at..], true).unwrap_or(0);
        at
    };
    // Without a reader the client is stopped by its window.
    let mut rounds = 0;
    pair.until(|pair| {
        rounds += 1;
        upload(pair);
        rounds > 50
    });
    assert!(upload(&mut pair) <= 20_000);
    pair.server.reads = true;
    let first = pair.server.connection.read(stream, 100_000);
    assert!(first.len() > 10_000, "{} bytes, {:?}", first.len(), pair.server.events);
    pair.server.received.extend(first);
    pair.until(|pair| {
        upload(pair);
        pair.server.events.contains(&format!("End({stream})"))
    });
    assert!(pair.server.received == body, "{} bytes", pair.server.received.len());
}

#[test]
fn requests_under_way_are_answered_when_the_end_is_announced() {
    let mut pair = Pair::new(2_000_000, Weather::Fair);
    let first = pair.client.get("/first");
    pair.until(|pair| !pair.server.events.is_empty());
    assert!(pair.server.connection.announce_end() && pair.server.connection.has_announced_end());
    // It was sent before the client knew.
    let second = pair.client.get("/second");
    pair.until(|pair| [first, second].iter().all(|stream| pair.client.finished.contains(stream)));
    assert_eq!((pair.client.goaway, pair.client.resets.len()), (Some((1 << 62) - 4), 0));
}

#[test]
fn requests_behind_the_last_goaway_are_refused_and_those_before_it_answered() {
    let mut pair = Pair::new(2_000_000, Weather::Fair);
    let first = pair.client.get("/first");
    pair.until(|pair| !pair.server.events.is_empty());
    assert!(pair.server.connection.announce_end() && pair.server.connection.announce_last());
    // It was sent before the client knew.
    let second = pair.client.get("/second");
    pair.until(|pair| pair.client.finished.contains(&first) && !pair.client.resets.is_empty());
    assert_eq!((pair.client.goaway, &pair.client.resets[..]), (Some(second), &[code::REQUEST_REJECTED][..]));
    assert!(pair.client.content == pair.server.content);
    pair.server.connection.close(code::NO_ERROR);
    pair.until(|pair| pair.client.quic.peer_error().is_some());
    let error = pair.client.quic.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, code::NO_ERROR));
}

#[test]
fn a_client_that_stops_or_resets_a_stream_is_noticed() {
    let mut pair = Pair::new(50_000_000, Weather::Fair);
    let stopped = pair.client.get("/stopped");
    pair.until(|pair| pair.client.content.len() > 10_000);
    assert!(!pair.server.connection.is_stopped(stopped));
    pair.client.quic.stream_shutdown(stopped, quiche::Shutdown::Read, 0x10c).unwrap();
    pair.server.schedule.remove(stopped);
    pair.until(|pair| pair.server.connection.is_stopped(stopped));
    let sent = pair.server.connection.send_content(stopped, 4, false, |_, _| Ok::<(), ()>(()));
    assert_eq!(sent, Err(ContentFault::Gone));
    assert_eq!(pair.server.connection.send_end(stopped), Err(StreamGone));
    pair.server.connection.reset(stopped, code::REQUEST_CANCELLED);
    pair.server.connection.finished(stopped);
    let upload = pair.client.request("POST", "/reset", false);
    pair.server.schedule.remove(upload);
    pair.until(|pair| pair.server.events.contains(&format!("{upload} /reset")));
    pair.server.schedule.remove(upload);
    pair.client.quic.stream_shutdown(upload, quiche::Shutdown::Write, 0x10c).unwrap();
    pair.until(|pair| pair.server.events.contains(&format!("Reset({upload}, {})", 0x10c)));
}

#[test]
fn a_request_whose_response_was_stopped_before_it_came_is_noticed() {
    let mut pair = Pair::new(1000, Weather::Fair);
    // A frame of an unknown type.
    pair.client.quic.stream_send(0, &[0x21, 0], false).unwrap();
    pair.client.quic.stream_shutdown(0, quiche::Shutdown::Read, 0x10c).unwrap();
    pair.settle();
    pair.client.quic.stream_send(0, &[1, 4, 0, 0, 0xd1, 0xc1], true).unwrap();
    pair.until(|pair| pair.server.events.contains(&"Gone(0)".to_owned()));
    assert!(pair.server.connection.is_stopped(0));
    pair.server.connection.finished(0);
    assert!(pair.server.connection.is_idle());
}

#[test]
fn the_library_remembers_no_request_whose_response_was_acknowledged() {
    let mut pair = Pair::new(3000, Weather::Fair);
    for _ in 0..100 {
        pair.download("/content");
    }
    pair.until(|pair| pair.server.connection.is_settled());
    assert!((0..400).step_by(4).all(|stream| !pair.server.connection.remembers(stream)));
}

#[test]
fn streams_that_end_without_a_request_make_place_for_others() {
    let mut pair = Pair::new(3000, Weather::Fair);
    for number in 0..2 * Http3Limits::default().streams {
        let stream = 4 * number;
        pair.until(|pair| pair.client.quic.peer_streams_left_bidi() > 0);
        // A frame of an unknown type.
        pair.client.quic.stream_send(stream, &[0x21, 0], true).unwrap();
        pair.until(|pair| {
            pair.server.events.pop().is_some_and(|event| event == format!("Incomplete({stream})"))
        });
        pair.server.connection.reset(stream, code::REQUEST_INCOMPLETE);
        pair.server.connection.finished(stream);
        assert!(pair.server.connection.is_idle() && pair.server.events.is_empty());
    }
}

#[test]
fn a_connection_is_worn_long_before_its_keys_are() {
    let mut pair = Pair::with(10_000, Weather::Fair, &Http3Limits { packets: 100, ..Http3Limits::default() });
    while !pair.server.connection.is_worn() {
        assert!(!pair.server.connection.is_worn_out());
        pair.download("/");
    }
    assert!(!pair.server.connection.is_worn_out());
    while !pair.server.connection.is_worn_out() {
        pair.download("/");
    }
    let [_, sent, ..] = pair.server.connection.counts();
    assert!((150..250).contains(&sent), "{sent}");
}

#[test]
fn a_field_section_that_is_too_large_ends_the_connection() {
    let limits = Http3Limits { field_section_bytes: 1000, ..Http3Limits::default() };
    let mut pair = Pair::with(10, Weather::Fair, &limits);
    pair.client.get(&format!("/{}", "a".repeat(5000)));
    pair.until(|pair| pair.client.quic.peer_error().is_some());
    assert_eq!(pair.client.quic.peer_error().unwrap().error_code, code::EXCESSIVE_LOAD);
    assert!(pair.server.events.is_empty());
}

#[test]
fn a_retry_proves_the_address_and_costs_no_connection() {
    let key = IdKey::random();
    let mut client = Client::new(client_address());
    let mut packet = [0; MAX_DATAGRAM_BYTES];
    let (length, _) = client.quic.send(&mut packet).unwrap();
    let Datagram::Initial(first) = Datagram::parse(&mut packet[..length]) else { panic!("no Initial") };
    assert!(first.can_begin && first.token.is_empty());
    assert_eq!(key.origin(&first, client_address(), 5), None);
    let id = ConnectionId::random(0, 1);
    let mut retry = key.retry(&first, &id, client_address(), 5).unwrap();
    client.receive(&mut retry);
    let (length, _) = client.quic.send(&mut packet).unwrap();
    let Datagram::Initial(second) = Datagram::parse(&mut packet[..length]) else { panic!("no Initial") };
    assert_eq!(second.destination, id);
    let origin = key.origin(&second, client_address(), 6).unwrap();
    let mut config = QuicConfig::new(context(), &Http3Limits::default()).unwrap();
    let path = NetworkPath { local: server_address(), client: client_address() };
    let own = (ConnectionId::random(0, 1), 9);
    let mut connection = ServerConnection::accept(&mut config, own, Some(origin), path).unwrap();
    connection.receive(&mut packet[..length], path);
    for _ in 0..10 {
        while let Some((length, _)) = connection.packet(&mut packet) {
            client.receive(&mut packet[..length]);
        }
        while let Ok((length, _)) = client.quic.send(&mut packet) {
            connection.receive(&mut packet[..length], path);
        }
    }
    assert!(connection.is_established() && client.quic.is_established());
}

#[test]
fn a_stateless_reset_ends_the_connection_of_a_client() {
    let mut pair = Pair::new(10, Weather::Fair);
    // The connection of the pair was accepted with the token 7.
    let mut packet = vec![0x41; 40];
    packet[24..].copy_from_slice(&7_u128.to_be_bytes());
    pair.client.receive(&mut packet);
    assert!(pair.client.quic.is_draining() || pair.client.quic.is_closed());
}

#[test]
fn datagrams_are_told_apart() {
    assert!(matches!(Datagram::parse(&mut []), Datagram::Ignored));
    assert!(matches!(Datagram::parse(&mut [0x40; 10]), Datagram::Ignored), "no whole id");
    let mut short = [0x40; 30];
    short[1..17].copy_from_slice(&[9; 16]);
    assert!(matches!(Datagram::parse(&mut short), Datagram::Known(id) if id.as_bytes() == [9; 16]));
    let other = |bytes| {
        let mut datagram = vec![0xc0, 0xba, 0xba, 0xba, 0xba, 3, 1, 2, 3, 2, 8, 9];
        datagram.resize(bytes, 0);
        Datagram::parse(&mut datagram)
    };
    assert!(matches!(other(1199), Datagram::Ignored), "the answer would be longer than it may");
    let Datagram::OtherVersion { destination, source, version } = other(1200) else {
        panic!("{:?}", other(1200))
    };
    assert_eq!(version, "reserved");
    let mut out = [0; 64];
    let length = version_negotiation(&destination, &source, &mut out).unwrap();
    assert_eq!(out[1..5], [0; 4], "version 0");
    assert_eq!(out[5..12], [2, 8, 9, 3, 1, 2, 3], "the ids change places");
    assert!(out[12..length].chunks(4).any(|version| version == 1_u32.to_be_bytes()));
    assert!(matches!(Datagram::parse(&mut out[..length]), Datagram::Ignored));
}
