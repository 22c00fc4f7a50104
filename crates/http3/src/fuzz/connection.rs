//! A client that does what an input says, and an application that answers in any order.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::client::{FuzzClient, FuzzStep};
use crate::limits::{Http3Limits, IDS, QuicConfig};
use crate::peers::{client_address, context, server_address};
use crate::{
    ConnectionId, HeadFrame, HeadSent, MAX_DATAGRAM_BYTES, NetworkPath, Readiness, Schedule,
    ServerConnection, StreamEvent, code, encode_head,
};

/// Small limits, so that short inputs reach them.
fn small_limits() -> Http3Limits {
    Http3Limits {
        streams: 4,
        stream_window: 2000,
        connection_window: 5000,
        field_section_bytes: 1000,
        packets: 200,
        ..Http3Limits::default()
    }
}

thread_local! {
    static CONFIG: RefCell<QuicConfig> = RefCell::new(QuicConfig::new(context(), &small_limits()).unwrap());
}

/// What the application knows of a stream.
#[derive(Debug, Default)]
struct Known {
    has_head: bool,
    /// Bytes of content that were sent.
    sent: usize,
    /// Whether the response was sent to its end.
    has_ended: bool,
    /// Whether it was reset.
    is_reset: bool,
}

/// Both sides, and what must be true of them.
struct Scene<'i> {
    client: FuzzClient<'i>,
    connection: ServerConnection,
    schedule: Schedule,
    /// Streams whose work has not ended.
    open: BTreeMap<u64, Known>,
    /// All others.
    finished: BTreeMap<u64, Known>,
}

/// The body of the fuzz target `quic_connection`: each step is a byte and its arguments. No sequence may panic; a stream has one request,
/// whose events come while its work lasts; open requests are as many as the limit says; a client receives the content of its
/// stream in its order, and to its end where nothing has prevented that.
pub fn fuzz_quic_connection(input: &[u8]) {
    let path = NetworkPath { local: server_address(), client: client_address() };
    let connection = CONFIG.with_borrow_mut(|config| {
        ServerConnection::accept(config, (ConnectionId::random(0, 1), 7), None, path).unwrap()
    });
    let mut scene = Scene {
        client: FuzzClient::new(input),
        connection,
        schedule: Schedule::default(),
        open: BTreeMap::new(),
        finished: BTreeMap::new(),
    };
    while !(scene.client.is_established() && scene.connection.is_established()) {
        assert!(scene.exchange(), "nothing disturbs the handshake");
    }
    while let Some(step) = scene.client.step() {
        if let FuzzStep::Server(what, place) = step {
            scene.serve(what, place);
        }
        scene.exchange();
    }
    scene.check_end();
}

impl Scene<'_> {
    /// Passes datagrams in both directions once. Returns whether there was any.
    fn exchange(&mut self) -> bool {
        let mut datagrams = Vec::new();
        self.client.send(|port, datagram| datagrams.push((port, datagram.to_vec())));
        let mut has_any = !datagrams.is_empty();
        for (port, mut datagram) in datagrams {
            let client = client_address().port() + u16::from(port);
            let path =
                NetworkPath { local: server_address(), client: (client_address().ip(), client).into() };
            self.connection.receive(&mut datagram, path);
            self.follow_events();
        }
        self.follow_stops();
        while self.connection.ids_wanted() > 0 && self.connection.add_id(&ConnectionId::random(0, 1), 7) {}
        assert!(self.connection.ids_wanted() <= IDS);
        while self.connection.retired_id().is_some() {}
        self.connection.send_little();
        let mut packet = [0; MAX_DATAGRAM_BYTES];
        while let Some((length, path)) = self.connection.packet(&mut packet) {
            has_any = true;
            assert!(path.local == server_address() && path.client.ip() == client_address().ip());
            if path.client.port() == client_address().port() + u16::from(self.client.port()) {
                let port = self.client.port();
                self.client.receive(&mut packet[..length], port);
            } else {
                self.client.lost += 1;
            }
        }
        if self.connection.end().is_some() {
            assert!(self.connection.packet(&mut packet).is_none());
        }
        has_any
    }

    fn follow_events(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                StreamEvent::Request { stream, fields, .. } => {
                    self.begin(stream);
                    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
                    assert!(bytes as u64 <= small_limits().field_section_bytes);
                    if self.connection.is_too_late(stream) {
                        self.reset(stream, code::REQUEST_REJECTED);
                    }
                }
                StreamEvent::Incomplete(stream) => {
                    self.begin(stream);
                    self.reset(stream, code::REQUEST_INCOMPLETE);
                }
                StreamEvent::Content(stream) => assert!(self.has_begun(stream)),
                StreamEvent::End(stream) => assert!(self.open.contains_key(&stream)),
                StreamEvent::Reset(stream, _) => {
                    assert!(self.open.contains_key(&stream));
                    self.reset(stream, code::REQUEST_CANCELLED);
                }
                StreamEvent::Priority(stream, value) => {
                    assert!(value.len() <= 64);
                    self.schedule.update(stream, Some(2), true);
                }
                StreamEvent::GoAway => {}
            }
        }
    }

    fn has_begun(&self, stream: u64) -> bool {
        self.open.contains_key(&stream) || self.finished.contains_key(&stream)
    }

    fn begin(&mut self, stream: u64) {
        assert!(stream.is_multiple_of(4) && !self.has_begun(stream), "one request a stream");
        self.open.insert(stream, Known::default());
        self.schedule.add(stream, None, stream.is_multiple_of(8));
        self.schedule.set(stream, Readiness::Content);
    }

    /// As the sessions of the server do: what a client takes no more of ends.
    fn follow_stops(&mut self) {
        let streams: Vec<u64> = self.open.keys().copied().collect();
        for stream in streams {
            if self.connection.is_stopped(stream) {
                self.reset(stream, code::REQUEST_CANCELLED);
            }
        }
        assert!(self.open.len() as u64 <= small_limits().streams);
    }

    fn reset(&mut self, stream: u64, code: u64) {
        self.connection.reset(stream, code);
        if let Some(known) = self.open.get_mut(&stream) {
            known.is_reset = true;
        }
        self.finish(stream);
    }

    fn finish(&mut self, stream: u64) {
        self.connection.finished(stream);
        self.schedule.remove(stream);
        let known = self.open.remove(&stream).unwrap();
        self.finished.insert(stream, known);
        assert_eq!(self.connection.is_idle(), self.open.is_empty());
    }

    fn serve(&mut self, what: u8, place: u8) {
        match what {
            10 => drop(self.connection.announce_end()),
            11 => drop(self.connection.announce_last()),
            12 => self.connection.close(code::NO_ERROR),
            13 => self.connection.on_timeout(),
            14 => self.connection.send_trains(),
            15 => self.send_by_turns(usize::from(place)),
            _ => {
                let at = usize::from(place).checked_rem(self.open.len());
                let stream = at.and_then(|at| self.open.keys().nth(at).copied());
                if let Some(stream) = stream {
                    self.serve_stream(stream, what, usize::from(place));
                }
            }
        }
    }

    fn serve_stream(&mut self, stream: u64, what: u8, place: usize) {
        match what {
            0..=2 => self.send_head(stream, place.is_multiple_of(2)),
            3..=5 => self.send_content(stream, 1 + place * 20, what == 5),
            6 => {
                let known = self.open.get_mut(&stream).unwrap();
                if known.has_head && self.connection.send_end(stream) == Ok(true) {
                    known.has_ended = true;
                    self.finish(stream);
                }
            }
            7 => self.reset(stream, code::INTERNAL_ERROR),
            8 => assert!(self.connection.read(stream, place * 10).len() <= place * 10),
            _ => self.connection.set_priority(stream, (place & 7).to_le_bytes()[0], place & 8 != 0),
        }
    }

    fn send_head(&mut self, stream: u64, knows_length: bool) {
        let known = self.open.get_mut(&stream).unwrap();
        if known.has_head {
            return;
        }
        let mut fields = Vec::new();
        encode_head(200, [(&b"x-stream"[..], stream.to_string().as_bytes())].into_iter(), &mut fields);
        let head = HeadFrame::new(&fields, knows_length.then_some(100));
        known.has_head = self.connection.send_head(stream, head, false) == HeadSent::Yes;
    }

    fn send_content(&mut self, stream: u64, most: usize, end: bool) {
        let known = self.open.get_mut(&stream).unwrap();
        let length = self.connection.content_bytes_max(stream, most as u64).min(most);
        if !known.has_head || length == 0 {
            return;
        }
        let mut at = known.sent;
        let result = self.connection.send_content(stream, length, end, |count, out| {
            out.extend((at..at + count).map(|at| content(stream, at)));
            at += count;
            Ok::<(), ()>(())
        });
        assert_eq!(result, Ok(()), "content_bytes_max is what the library takes");
        assert_eq!(at, known.sent + length);
        known.sent = at;
        if end {
            known.has_ended = true;
            self.finish(stream);
        }
    }

    /// Sends heads and content of several streams as their priorities say.
    fn send_by_turns(&mut self, rounds: usize) {
        for _ in 0..=rounds % 8 {
            let Some(stream) = self.schedule.next(|_, _| true) else { return };
            assert!(self.open.contains_key(&stream));
            self.send_head(stream, true);
            self.send_content(stream, 1000, false);
        }
    }

    /// Sends what is left, and compares what the client has received.
    fn check_end(mut self) {
        self.client.read_on();
        while self.exchange() {
            self.client.read_on();
        }
        let is_sound =
            !(self.client.has_bad_link || self.client.is_over() || self.connection.end().is_some())
                && self.connection.local_error().is_none()
                && self.connection.counts()[3] == 0;
        self.finished.append(&mut self.open);
        let mut responses = self.client.responses();
        for (stream, known) in &self.finished {
            let response = responses.remove(stream).unwrap_or_default();
            let (received, has_ended) = (response.content.len(), response.has_ended);
            let number = response.field(b"x-stream");
            assert!(number.is_none_or(|number| number == stream.to_string().as_bytes()));
            assert!(received <= known.sent);
            assert!(response.content.iter().copied().eq((0..received).map(|at| content(*stream, at))));
            // The library may send the end of a stream that was reset alone, if several packets with resets were lost.
            let may_mislead = known.is_reset && self.client.lost > 1;
            assert!(
                !has_ended || may_mislead || known.has_ended && received == known.sent,
                "{stream}: {known:?}, {received}"
            );
            let has_given_up = self.client.given_up.contains(stream);
            assert!(!(is_sound && known.is_reset) || has_given_up, "{stream} was reset");
            let is_whole = known.has_ended && !known.is_reset && !has_given_up;
            assert!(!(is_sound && is_whole) || has_ended, "{stream}: {known:?}, {received}");
        }
        assert!(responses.is_empty(), "responses without requests");
    }
}

/// The byte at a place of the content of a stream.
fn content(stream: u64, at: usize) -> u8 {
    (at % 251).to_le_bytes()[0] ^ stream.to_le_bytes()[0]
}
