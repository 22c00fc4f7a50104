//! One connection: QUIC, and HTTP/3 on it.

mod sending;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use boring::ssl::SslRef;
use quiche::h3::{self, NameValue};

use crate::buffers::Quic;
use crate::datagram::{MAX_DATAGRAM_BYTES, NetworkPath};
use crate::id::ConnectionId;
use crate::limits::{IDS, QuicConfig};
use crate::migration::Migration;
use crate::queue::{self, Queue};
use crate::token::RetryOrigin;

pub use sending::{ContentFault, HeadFrame, HeadSent, StreamGone, encode_head};

/// Error codes of HTTP/3 (RFC 9114 §8.1).
pub mod code {
    /// No error.
    pub const NO_ERROR: u64 = 0x100;
    /// An error of this server.
    pub const INTERNAL_ERROR: u64 = 0x102;
    /// A control stream, or one of QPACK, has ended.
    pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    /// The client causes too much load.
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    /// The request was not processed.
    pub const REQUEST_REJECTED: u64 = 0x10b;
    /// The response is no longer sent.
    pub const REQUEST_CANCELLED: u64 = 0x10c;
    /// The stream ended before the head of a request.
    pub const REQUEST_INCOMPLETE: u64 = 0x10d;
    /// The request is malformed.
    pub const MESSAGE_ERROR: u64 = 0x10e;
}

/// The highest number of a stream with a request (RFC 9000 §2.1).
const REQUEST_MAX: u64 = (1 << 62) - 4;

/// More finished requests than this are looked through for those that the client has acknowledged.
const UNSETTLED: usize = 64;

/// What the library would send on a stream that is gone. It counts the bytes of the field before it looks for the stream.
const NO_FIELD: (&[u8], &[u8]) = (b"", b"");

/// Datagrams of a full train. Content waits until the congestion window lets so many leave together.
const TRAIN_DATAGRAMS: usize = 44;

/// The bit of the first byte that tells a long header, and the reserved ones of a short header (RFC 9000 §17.3.1).
const LONG_HEADER: u8 = 0x80;
const RESERVED_BITS: u8 = 0x18;

/// An error code of QUIC (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// What has happened on a stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// A request.
    Request {
        /// Its stream.
        stream: u64,
        /// Its fields. They are checked for nothing but their size.
        fields: Fields,
        /// Whether no body follows.
        end: bool,
    },
    /// Content of a request, for [`ServerConnection::read`].
    Content(u64),
    /// A request has ended.
    End(u64),
    /// The client has reset a stream, with an error code.
    Reset(u64, u64),
    /// A stream has ended, or was reset, without the head of a request. It has to be reset and [`finished`](ServerConnection::finished).
    Incomplete(u64),
    /// The client asks for another priority of a stream.
    Priority(u64, Vec<u8>),
    /// The client opens no more streams.
    GoAway,
}

/// The fields of a request in the order in which they came.
#[derive(Debug)]
pub struct Fields(Vec<h3::Header>);

impl Fields {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.0.iter().map(|field| (field.name(), field.value()))
    }
}

/// How a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// A label for counters.
    pub reason: &'static str,
    /// The error code, if there is one.
    pub code: Option<u64>,
}

/// The server's side of one connection.
pub struct ServerConnection {
    /// Boxed, as the next one: this type moves from task to task, and a future keeps the place of what has moved out of it.
    quic: Box<Quic>,
    /// `None` until the handshake lets this side send.
    http: Option<Box<h3::Connection>>,
    http_config: Rc<h3::Config>,
    /// Requests whose work has not ended.
    open: Queue,
    /// Requests whose work has ended while their streams had not.
    unsettled: Vec<u64>,
    /// One more than the number of the last request.
    next_request: u64,
    promises: [u8; 32],
    packets: u64,
    packets_max: u64,
    migration: Migration,
    /// Whether content need not fill a train now.
    may_send_little: bool,
    /// What of the congestion window has to be free for content.
    train_bytes: usize,
    /// A head that waits for the content behind it, and its stream. QUIC has space for it, and gets it before anything else changes.
    head: Option<(u64, Vec<u8>)>,
    /// What QUIC has not taken of heads that it has begun to take, by their streams.
    begun_heads: Vec<(u64, Vec<u8>)>,
    /// Streams that are to be reset, with their codes.
    resets: VecDeque<(u64, u64)>,
    /// Whether QUIC has a reset that it has not written.
    has_put_reset: bool,
    goaway: Option<u64>,
}

impl std::fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConnection").field("open", &self.open).finish_non_exhaustive()
    }
}

impl AsMut<SslRef> for ServerConnection {
    fn as_mut(&mut self) -> &mut SslRef {
        (*self.quic).as_mut()
    }
}

impl ServerConnection {
    /// A connection of a client whose first packet [`receive`](Self::receive) gets next. `reset_token` is that of `id`.
    /// `None` if the library has no memory.
    pub fn accept(
        config: &mut QuicConfig,
        (id, reset_token): (ConnectionId, u128),
        origin: Option<RetryOrigin>,
        path: NetworkPath,
    ) -> Option<Self> {
        let NetworkPath { local, client } = path;
        config.quic.set_stateless_reset_token(Some(reset_token));
        let accepted = match &origin {
            None => quiche::accept_with_buf_factory(&id.quic(), None, local, client, &mut config.quic),
            Some(origin) => {
                let ids = quiche::RetryConnectionIds {
                    original_destination_cid: &origin.original.quic(),
                    retry_source_cid: &origin.retried.quic(),
                };
                quiche::accept_with_retry(&id.quic(), ids, local, client, &mut config.quic)
            }
        };
        Some(Self {
            quic: Box::new(accepted.ok()?),
            http: None,
            http_config: Rc::clone(&config.http),
            open: Queue::default(),
            unsettled: Vec::new(),
            next_request: 0,
            promises: config.promises,
            packets: 0,
            packets_max: config.packets,
            migration: Migration::new(path),
            may_send_little: false,
            train_bytes: 0,
            head: None,
            begun_heads: Vec::new(),
            resets: VecDeque::new(),
            has_put_reset: false,
            goaway: None,
        })
    }

    /// Has the library write the events of the transport (qlog, JSON-SEQ). It waits for `writer`.
    pub fn log_to(&mut self, writer: Box<dyn std::io::Write + Send + Sync>) {
        self.quic.set_qlog(writer, "penstock".to_owned(), String::new());
    }

    /// What the client remembers of this side's limits for early data ([`Http3Limits::promises`](crate::Http3Limits::promises)).
    pub fn promises(&self) -> [u8; 32] {
        self.promises
    }

    /// Takes one datagram, which is decrypted in place. One that is no packet of this connection changes nothing.
    pub fn receive(&mut self, bytes: &mut [u8], path: NetworkPath) {
        if !self.migration.takes(&self.quic, path) {
            return;
        }
        self.put_waiting_head();
        let NetworkPath { local, client } = path;
        let is_short = bytes.first().is_some_and(|first| first & LONG_HEADER == 0);
        let before = self.quic.stats().recv;
        // An error has ended the connection, which its state tells, or concerns this datagram alone.
        let _told_by_state = self.quic.recv(bytes, quiche::RecvInfo { from: client, to: local });
        // The library writes the first byte without its protection, and counts packets that are genuine.
        let has_reserved = bytes.first().is_some_and(|first| first & RESERVED_BITS != 0);
        if is_short && has_reserved && self.quic.stats().recv > before {
            self.refuse(PROTOCOL_VIOLATION);
        }
        self.open.follow_repeats(&mut self.quic);
        self.migration.follow(&mut self.quic);
        self.begin_http();
    }

    /// Whether packets that went to an address that the client has left stay without acknowledgement, although they were sent to
    /// the new one: what they carried is not sent again.
    pub fn is_stranded(&self) -> bool {
        self.migration.is_stranded()
    }

    /// Begins HTTP/3 as soon as this side may send.
    fn begin_http(&mut self) {
        if self.http.is_none() && (self.quic.is_established() || self.quic.is_in_early_data()) {
            self.http = h3::Connection::with_transport(&mut self.quic, &self.http_config).ok().map(Box::new);
            queue::put_qpack_last(&mut self.quic);
        }
    }

    /// The next event of what was received.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        loop {
            let http = self.http.as_mut()?;
            let (stream, event) = match http.poll(&mut self.quic) {
                Ok(event) => event,
                // Of a stream that must not end (RFC 9114 §6.2.1): the library tells that of another one by an event.
                Err(h3::Error::TransportError(quiche::Error::StreamReset(_))) => {
                    self.close(code::CLOSED_CRITICAL_STREAM);
                    return None;
                }
                // An error has closed the connection.
                Err(_) => return None,
            };
            match event {
                h3::Event::Headers { list, more_frames } => {
                    if self.open.add(stream) {
                        self.next_request = self.next_request.max(stream + 4);
                        return Some(StreamEvent::Request {
                            stream,
                            fields: Fields(list),
                            end: !more_frames,
                        });
                    }
                    // Trailers.
                }
                h3::Event::Data => return Some(StreamEvent::Content(stream)),
                h3::Event::Finished if self.open.has(stream) => {
                    return Some(StreamEvent::End(stream));
                }
                h3::Event::Reset(code) if self.open.has(stream) => {
                    return Some(StreamEvent::Reset(stream, code));
                }
                h3::Event::PriorityUpdate => {
                    if let Ok(value) = http.take_last_priority_update(stream) {
                        return Some(StreamEvent::Priority(stream, value));
                    }
                }
                h3::Event::GoAway => return Some(StreamEvent::GoAway),
                h3::Event::Finished | h3::Event::Reset(_) if self.is_unknown(stream) => {
                    self.open.add(stream);
                    return Some(StreamEvent::Incomplete(stream));
                }
                h3::Event::Finished | h3::Event::Reset(_) => {}
            }
        }
    }

    /// Whether a stream could have a request and had none yet.
    fn is_unknown(&mut self, stream: u64) -> bool {
        let is_gone = matches!(self.quic.stream_capacity(stream), Err(quiche::Error::InvalidStreamState(_)));
        stream.is_multiple_of(4) && !is_gone && !self.open.has(stream) && !self.unsettled.contains(&stream)
    }

    /// Takes up to `most` bytes of the content of a request. The client may send as many again.
    pub fn read(&mut self, stream: u64, most: usize) -> Vec<u8> {
        let Some(http) = self.http.as_mut() else { return Vec::new() };
        let mut bytes = vec![0; most];
        let count = http.recv_body(&mut self.quic, stream, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Lets content leave until packets are received, even if it fills no train.
    pub fn send_little(&mut self) {
        self.may_send_little = true;
    }

    /// Content that leaves from now on fills trains of datagrams. Called after packets were received: to send on each
    /// acknowledgement what it allows makes many trains of one datagram.
    pub fn send_trains(&mut self) {
        self.may_send_little = false;
        let window = self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd);
        // While the rest of the window is under way, its acknowledgements are to come.
        self.train_bytes = (window / 4).min(TRAIN_DATAGRAMS * MAX_DATAGRAM_BYTES);
    }

    /// Sets urgency and kind of a stream for what the library has taken (RFC 9218 §4).
    pub fn set_priority(&mut self, stream: u64, urgency: u8, incremental: bool) {
        self.open.set_priority(&mut self.quic, stream, (urgency, incremental));
    }

    /// Resets a response that ends early.
    pub fn reset(&mut self, stream: u64, code: u64) {
        self.put_waiting_head();
        self.forget_head(stream);
        self.resets.push_back((stream, code));
    }

    /// The work for a request has ended: what still comes of it is not read. A response that was not sent to its end has to be
    /// reset before.
    pub fn finished(&mut self, stream: u64) {
        if !self.open.remove(stream) {
            return;
        }
        self.forget_head(stream);
        self.unsettled.push(stream);
        if self.unsettled.len() > UNSETTLED {
            // Most have been acknowledged.
            let Self { quic, http, unsettled, .. } = self;
            unsettled.retain(|stream| !is_gone(quic, http, *stream));
        }
        if !self.quic.stream_finished(stream) {
            let _gone = self.quic.stream_shutdown(stream, quiche::Shutdown::Read, code::NO_ERROR);
        }
    }

    /// Whether the client was told which requests are still answered.
    pub fn has_announced_end(&self) -> bool {
        self.goaway.is_some()
    }

    /// Tells the client that the connection ends (RFC 9114 §5.2). Requests are answered until [`Self::announce_last`]: some may be
    /// under way. Returns false if that has to be tried again.
    pub fn announce_end(&mut self) -> bool {
        self.goaway.is_some() || self.send_goaway(REQUEST_MAX)
    }

    /// Tells the client which requests are answered: all that have come. Returns false if that has to be tried again.
    pub fn announce_last(&mut self) -> bool {
        self.send_goaway(self.next_request)
    }

    fn send_goaway(&mut self, first_refused: u64) -> bool {
        self.put_waiting_head();
        let Some(http) = &mut self.http else { return false };
        let is_sent = http.send_goaway(&mut self.quic, first_refused).is_ok();
        if is_sent {
            // Not without bytes: an empty stream at the front would hold up all others.
            queue::put_control_first(&mut self.quic);
            self.goaway = Some(first_refused);
        }
        is_sent
    }

    /// Whether a request came too late for the last GOAWAY that was sent.
    pub fn is_too_late(&self, stream: u64) -> bool {
        self.goaway.is_some_and(|first| stream >= first)
    }

    /// Ends the connection with an error code of HTTP/3. The next packet tells the client.
    pub fn close(&mut self, code: u64) {
        let _gone = self.quic.close(true, code, b"");
    }

    /// Ends the connection with an error code of QUIC (RFC 9000 §20.1).
    pub fn refuse(&mut self, code: u64) {
        let _gone = self.quic.close(false, code, b"");
    }

    /// Has QUIC reset the next stream, unless the packet of the one before is still to be written. A packet has the end of one stream.
    fn put_next_reset(&mut self) {
        while !self.has_put_reset
            && let Some((stream, code)) = self.resets.pop_front()
        {
            // Not if it is gone, or the client has stopped it.
            self.has_put_reset = self.quic.stream_shutdown(stream, quiche::Shutdown::Write, code).is_ok();
            if self.has_put_reset {
                queue::put_reset_first(&mut self.quic, stream);
            }
        }
    }

    /// Writes the next datagram, if there is one to send; returns its length and where it goes.
    pub fn packet(&mut self, out: &mut [u8]) -> Option<(usize, NetworkPath)> {
        self.put_waiting_head();
        self.put_next_reset();
        let longest = out.len().min(self.migration.datagram_bytes());
        let out = &mut out[..longest];
        let (length, path) = match self.open.packet(&mut self.quic, out) {
            Ok((length, info)) => (length, NetworkPath { local: info.from, client: info.to }),
            Err(quiche::Error::Done) => self.migration.packet(&mut self.quic, out)?,
            Err(_) => return None,
        };
        self.packets += 1;
        self.has_put_reset = false;
        self.begin_http();
        Some((length, path))
    }

    /// When the next datagram is due, if the pace of the connection does not let it leave now: later than `horizon` from `now`.
    /// Those that are due before leave together, because timers are no finer than that.
    pub fn due(&self, now: Instant, horizon: Duration) -> Option<Instant> {
        if !self.quic.pacing_enabled() || self.quic.local_error().is_some() {
            return None;
        }
        let release = self.quic.get_next_release_time()?;
        release.time(now).filter(|due| !release.can_burst() && *due > now + horizon)
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.quic.timeout_instant()
    }

    /// Follows timers that are due: losses, acknowledgements, the idle timeout.
    pub fn on_timeout(&mut self) {
        self.put_waiting_head();
        self.quic.on_timeout();
        self.open.follow_repeats(&mut self.quic);
        self.migration.follow(&mut self.quic);
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.quic.is_established()
    }

    /// Whether the client's early data is taken and its handshake is not complete: it may be a replay.
    pub fn is_in_early_data(&self) -> bool {
        self.quic.is_in_early_data()
    }

    /// Whether the client has acknowledged the responses of all requests whose work has ended.
    pub fn is_settled(&mut self) -> bool {
        let Self { quic, http, unsettled, .. } = self;
        // One that is not says enough.
        while unsettled.pop_if(|stream| is_gone(quic, http, *stream)).is_some() {}
        unsettled.is_empty()
    }

    /// Whether the library's HTTP/3 knows a stream that is gone.
    #[cfg(test)]
    pub(crate) fn remembers(&mut self, stream: u64) -> bool {
        let Self { quic, http, .. } = self;
        let http = http.as_mut().unwrap();
        http.send_response(quic, stream, &[NO_FIELD], true) != Err(h3::Error::FrameUnexpected)
    }

    /// Whether there is no request whose work has not ended.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the connection has sent so many packets that it has to end soon.
    pub fn is_worn(&self) -> bool {
        self.packets >= self.packets_max
    }

    /// Whether it has sent so many that it has to end now.
    pub fn is_worn_out(&self) -> bool {
        self.packets >= self.packets_max + self.packets_max / 2
    }

    /// How the connection has ended, if it has: nothing more is received or sent.
    pub fn end(&self) -> Option<ConnectionEnd> {
        if !(self.quic.is_closed() || self.quic.is_draining()) {
            return None;
        }
        let of =
            |reason, error: &quiche::ConnectionError| ConnectionEnd { reason, code: Some(error.error_code) };
        Some(match (self.quic.is_timed_out(), self.quic.peer_error(), self.quic.local_error()) {
            (true, _, _) => ConnectionEnd { reason: "idle", code: None },
            (_, Some(error), _) => of("closed_by_client", error),
            (_, _, Some(error)) => of("closed", error),
            (false, None, None) => ConnectionEnd { reason: "lost", code: None },
        })
    }

    /// The error that this side closes the connection with, if it does: of QUIC, or of TLS from 0x100 on.
    pub fn local_error(&self) -> Option<u64> {
        self.quic.local_error().map(|error| error.error_code)
    }

    /// How many more ids the client takes, for migration.
    pub fn ids_wanted(&self) -> usize {
        let more = IDS.saturating_sub(self.quic.active_scids());
        if self.quic.is_established() { self.quic.scids_left().min(more) } else { 0 }
    }

    /// Gives the client another id, with the token of its stateless reset. Returns whether it was taken.
    pub fn add_id(&mut self, id: &ConnectionId, reset_token: u128) -> bool {
        self.quic.new_scid(&id.quic(), reset_token, false).is_ok()
    }

    /// The next id that the client has given up.
    pub fn retired_id(&mut self) -> Option<ConnectionId> {
        self.quic.retired_scid_next().and_then(|id| ConnectionId::new(&id))
    }

    /// The client's address in use.
    pub fn client(&self) -> Option<SocketAddr> {
        self.quic.path_stats().find(|path| path.active).map(|path| path.peer_addr)
    }

    /// Packets received, sent and lost, and how often the client went to another address.
    pub fn counts(&self) -> [u64; 4] {
        let stats = self.quic.stats();
        [stats.recv as u64, stats.sent as u64, stats.lost as u64, self.migration.count()]
    }

    /// How the path in use carries what is sent: round-trip time, delivery rate in bytes per second, bytes sent, and bytes lost.
    pub fn path(&self) -> Option<(Duration, u64, u64, u64)> {
        let path = self.quic.path_stats().find(|path| path.active)?;
        Some((path.rtt, path.delivery_rate, path.sent_bytes, path.lost_bytes))
    }

    /// The round-trip time.
    pub fn round_trip(&self) -> Option<Duration> {
        self.quic.path_stats().find(|path| path.active).map(|path| path.rtt)
    }
}

/// Whether both sides have the end of a stream, so that QUIC has forgotten it.
fn is_gone(quic: &mut Quic, http: &mut Option<Box<h3::Connection>>, stream: u64) -> bool {
    let is_gone = matches!(quic.stream_capacity(stream), Err(quiche::Error::InvalidStreamState(_)));
    if is_gone && let Some(http) = http {
        // The library's HTTP/3 forgets it when it finds it gone while it is to send on it.
        let _gone = http.send_response(quic, stream, &[NO_FIELD], true);
    }
    is_gone
}
