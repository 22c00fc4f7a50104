//! HTTP/3 as a protocol that carries many responses at once.

use std::cell::RefCell;

use penstock_config::limits;
use penstock_egress::{SendError, Transmission};
use penstock_http::ResponseHead;
use penstock_http2::{LastHead, PriorityParameters};
use penstock_http3::{
    ContentFault, HeadFrame, HeadSent, Readiness, Schedule, ServerConnection, code, encode_head,
};
use penstock_sys::socket::Carriage;

use crate::carrier::{Multiplexer, Outgoing, Stalled, StreamCount, StreamHead};
use crate::metrics::{HttpLabel, Shard, ShortReason};

/// Content that one call gives to QUIC.
const PIECE_BYTES: usize = 64 * 1024;

/// The protocol of one connection.
pub(super) struct Http3 {
    /// Asking for space counts as a change.
    pub(super) connection: RefCell<ServerConnection>,
    pub(super) schedule: Schedule,
    /// In the order of their numbers.
    requests: Vec<OpenRequest>,
    /// Requests whose head, or end, has found too little space since packets were received.
    blocked: Vec<u64>,
    /// Where fields of heads are encoded; no memory while idle, as the next one.
    block: Vec<u8>,
    last_head: Option<Box<LastHead>>,
}

/// A request whose work has not ended.
struct OpenRequest {
    stream: u64,
    response: Response,
    /// Bytes of content that the response has left, if that is known.
    content_left: Option<u64>,
    /// Whether content has come that was not read.
    is_readable: bool,
    /// Bytes of content that were read and not used yet.
    held: usize,
    /// Bytes that are missing from the body, if its length is known.
    body_left: Option<u64>,
}

impl OpenRequest {
    fn is_ended(&self) -> bool {
        self.response == Response::Ended
    }
}

/// What was sent of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Response {
    /// Nothing, or interim responses.
    Nothing,
    /// The head of the final response.
    Head,
    /// The end of the response, or its reset.
    Ended,
}

/// A body that is longer or shorter than its Content-Length (RFC 9114 §4.1.2).
pub(super) struct WrongLength;

/// What one round gives to QUIC.
pub(super) struct Round {
    /// Bytes of content that may still be given.
    pub(super) left: usize,
}

impl Http3 {
    pub(super) fn new(connection: ServerConnection) -> Self {
        Self {
            connection: RefCell::new(connection),
            schedule: Schedule::default(),
            requests: Vec::new(),
            blocked: Vec::new(),
            block: Vec::new(),
            last_head: None,
        }
    }

    /// Called after packets were received, or timers followed.
    pub(super) fn received(&mut self) {
        self.blocked.clear();
        self.connection.get_mut().send_trains();
    }

    fn request(&mut self, stream: u64) -> Option<&mut OpenRequest> {
        let position = self.requests.binary_search_by_key(&stream, |request| request.stream).ok()?;
        self.requests.get_mut(position)
    }

    /// Adds a request, with its Content-Length and the priority that the client asks for.
    pub(super) fn add(
        &mut self,
        stream: u64,
        body_left: Option<u64>,
        PriorityParameters { urgency, incremental }: PriorityParameters,
    ) {
        if let Err(position) = self.requests.binary_search_by_key(&stream, |request| request.stream) {
            let (response, content_left) = (Response::Nothing, None);
            let added =
                OpenRequest { stream, response, content_left, is_readable: false, held: 0, body_left };
            self.requests.insert(position, added);
            self.schedule.add(stream, urgency, incremental);
        }
    }

    /// Notes that content has come.
    pub(super) fn set_readable(&mut self, stream: u64) {
        if let Some(request) = self.request(stream) {
            request.is_readable = true;
        }
    }

    /// Reads a piece of content of a request whose reader has used most of what was read before. More than the request
    /// announced is an error of its stream.
    pub(super) fn read(&mut self) -> Option<(u64, Result<Vec<u8>, WrongLength>)> {
        let Self { connection, requests, .. } = self;
        for request in requests {
            if request.is_readable && request.held < limits::HTTP3_BODY_BYTES {
                let bytes = connection.borrow_mut().read(request.stream, PIECE_BYTES / 4);
                if !bytes.is_empty() {
                    request.held += bytes.len();
                    if let Some(left) = &mut request.body_left {
                        let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                            request.is_readable = false;
                            return Some((request.stream, Err(WrongLength)));
                        };
                        *left = rest;
                    }
                    return Some((request.stream, Ok(bytes)));
                }
                request.is_readable = false;
            }
        }
        None
    }

    /// Follows the end of a body. Returns whether all of it has come. A client that stops its upload because of the head of the
    /// response still gets the rest.
    ///
    /// # Errors
    /// The body is too short, and nothing of its response was sent.
    pub(super) fn end_body(&mut self, stream: u64) -> Result<bool, WrongLength> {
        match self.request(stream) {
            Some(request) if !request.is_ended() && request.body_left.is_some_and(|left| left > 0) => {
                if request.response == Response::Head {
                    Ok(false)
                } else {
                    Err(WrongLength)
                }
            }
            _ => Ok(true),
        }
    }

    /// Whether something of the response was sent.
    pub(super) fn has_begun(&mut self, stream: u64) -> bool {
        self.request(stream)
            .is_some_and(|request| matches!(request.response, Response::Head | Response::Ended))
    }

    /// A request whose response the client no longer takes.
    pub(super) fn stopped(&self) -> Option<u64> {
        let mut connection = self.connection.borrow_mut();
        let mut open = self.requests.iter().filter(|request| !request.is_ended());
        open.find(|request| connection.is_stopped(request.stream)).map(|request| request.stream)
    }

    /// Whether content waits until it fills a train of datagrams.
    pub(super) fn is_held_back(&self) -> bool {
        let mut connection = self.connection.borrow_mut();
        self.schedule
            .with_content()
            .any(|stream| connection.is_held_back(stream, content_left(&self.requests, stream)))
    }

    /// Resets a request that is malformed.
    pub(super) fn refuse(&mut self, stream: u64) {
        self.connection.get_mut().reset(stream, code::MESSAGE_ERROR);
        self.end(stream);
    }

    fn end(&mut self, stream: u64) {
        if let Some(request) = self.request(stream) {
            request.response = Response::Ended;
        }
        self.schedule.set(stream, Readiness::Nothing);
    }

    /// Passes a stream over until packets are received, unless it has taken what it was given. One that is gone is found by
    /// [`Self::stopped`].
    fn block_unless(&mut self, stream: u64, is_taken: bool) -> bool {
        if !is_taken {
            self.blocked.push(stream);
        }
        is_taken
    }

    fn use_up(&mut self, stream: u64, bytes: usize) {
        if let Some(request) = self.request(stream) {
            request.held = request.held.saturating_sub(bytes);
        }
    }
}

impl Multiplexer for Http3 {
    const VERSION: HttpLabel = HttpLabel::H3;

    type StreamId = u64;

    type RequestHead = super::request::RequestHead;

    type Batch<'b> = Round;

    fn carriage(&self) -> Option<Carriage> {
        let (round_trip, delivery_rate, sent, sent_again) = self.connection.borrow().path()?;
        Some(Carriage { round_trip, delivery_rate, sent, sent_again })
    }

    fn count(shard: &Shard, count: StreamCount) {
        match count {
            StreamCount::Opened => shard.http3_stream_opened(),
            StreamCount::Closed => shard.http3_stream_closed(),
            StreamCount::Reset(cause) => shard.http3_stream_reset(cause),
        }
    }

    fn number(stream: u64) -> u64 {
        stream
    }

    fn set_outgoing(&mut self, stream: u64, outgoing: Outgoing) {
        let is_ended = self.request(stream).is_none_or(|request| request.is_ended());
        let readiness = match outgoing {
            _ if is_ended => Readiness::Nothing,
            Outgoing::Nothing => Readiness::Nothing,
            Outgoing::Frames => Readiness::Frames,
            Outgoing::Content => Readiness::Content,
        };
        self.schedule.set(stream, readiness);
    }

    fn set_default_urgency(&mut self, stream: u64, urgency: u8) {
        self.schedule.set_default_urgency(stream, urgency);
    }

    fn set_response(&mut self, stream: u64, urgency: Option<u8>, outgoing: Outgoing) {
        if let Some(urgency) = urgency {
            self.schedule.set_default_urgency(stream, urgency);
        }
        self.set_outgoing(stream, outgoing);
    }

    /// The connection's own frames are QUIC's.
    fn put_control(&mut self, _round: &mut Round) {}

    fn next_stream(&mut self, round: &Round) -> Option<u64> {
        if round.left == 0 {
            return None;
        }
        let Self { connection, schedule, requests, blocked, .. } = self;
        let connection = connection.get_mut();
        schedule.next(|stream, readiness| match readiness {
            Readiness::Nothing => false,
            Readiness::Frames => !blocked.contains(&stream),
            Readiness::Content => connection.content_bytes_max(stream, content_left(requests, stream)) > 0,
        })
    }

    fn put_interim(&mut self, stream: u64, interim: &ResponseHead, _round: &mut Round) -> bool {
        self.block.clear();
        encode_head(interim.status, interim.fields.iter(), &mut self.block);
        let head = HeadFrame::new(&self.block, None);
        let sent = self.connection.get_mut().send_head(stream, head, false);
        self.block_unless(stream, sent == HeadSent::Yes)
    }

    fn put_head(&mut self, stream: u64, head: &StreamHead, date: &[u8], _round: &mut Round) -> bool {
        let mut length = itoa::Buffer::new();
        let length = head.length.map_or("", |bytes| length.format(bytes)).as_bytes();
        let content = head.length.filter(|_| !head.end);
        let ResponseHead { status, fields } = &head.response;
        let (server, parts) = (head.server(), [date, length, fields.as_bytes()]);
        // The parts do not tell a head without this Server from others.
        let last = self.last_head.as_ref().filter(|_| !server.is_empty());
        let frame = match last.and_then(|last| last.block_of(*status, &parts)) {
            Some(block) => HeadFrame::new(block, content),
            None => {
                let own = [(&b"date"[..], date), (b"server", server), (b"content-length", length)];
                let own = own.into_iter().filter(|(_, value)| !value.is_empty());
                self.block.clear();
                encode_head(*status, own.chain(fields), &mut self.block);
                if !server.is_empty() {
                    self.last_head = LastHead::new(*status, &parts, &self.block).map(Box::new);
                }
                HeadFrame::new(&self.block, content)
            }
        };
        let (urgency, incremental) = self.schedule.priority(stream);
        let sent = self.connection.get_mut().send_head(stream, frame, head.end);
        self.connection.get_mut().set_priority(stream, urgency, incremental);
        if let (HeadSent::Yes, Some(request)) = (sent, self.request(stream)) {
            (request.response, request.content_left) = (Response::Head, head.length);
        }
        if sent == HeadSent::Yes && head.end {
            self.end(stream);
        }
        self.block_unless(stream, sent == HeadSent::Yes)
    }

    fn content_bytes_max(&self, stream: u64, round: &Round) -> usize {
        let left = content_left(&self.requests, stream);
        self.connection.borrow_mut().content_bytes_max(stream, left).min(round.left).min(PIECE_BYTES)
    }

    fn put_content(
        &mut self,
        stream: u64,
        transmission: &mut Transmission,
        length: usize,
        end: bool,
        round: &mut Round,
    ) -> Result<usize, SendError> {
        let read = |count, out: &mut Vec<u8>| transmission.copy_next(count, out);
        match self.connection.get_mut().send_content(stream, length, end, read) {
            Ok(()) => {}
            Err(ContentFault::Gone) => return Err(SendError::Gone),
            Err(ContentFault::Unread(error)) => return Err(error),
        }
        round.left = round.left.saturating_sub(length);
        if let Some(left) = self.request(stream).and_then(|request| request.content_left.as_mut()) {
            *left = left.saturating_sub(length as u64);
        }
        if end {
            self.end(stream);
        }
        Ok(length)
    }

    fn put_end(&mut self, stream: u64, _round: &mut Round) -> bool {
        let is_sent = self.connection.get_mut().send_end(stream) == Ok(true);
        if is_sent {
            self.end(stream);
        }
        self.block_unless(stream, is_sent)
    }

    fn stalled(&self, stream: u64) -> Option<Stalled> {
        let mut connection = self.connection.borrow_mut();
        match (connection.space(stream), connection.shared_space()) {
            (0, 0) => Some(Stalled::Connection),
            (0, _) => Some(Stalled::Stream),
            _ => None,
        }
    }

    fn reset(&mut self, stream: u64, why: ShortReason) {
        let code = match why {
            ShortReason::TooSlow | ShortReason::Drain | ShortReason::ClientClosed => code::REQUEST_CANCELLED,
            _ => code::INTERNAL_ERROR,
        };
        self.connection.get_mut().reset(stream, code);
        self.end(stream);
    }

    fn finished(&mut self, stream: u64) {
        if self.request(stream).is_some_and(|request| !request.is_ended()) {
            self.connection.get_mut().reset(stream, code::REQUEST_CANCELLED);
        }
        self.connection.get_mut().finished(stream);
        self.requests.retain(|request| request.stream != stream);
        self.schedule.remove(stream);
    }

    fn release(&mut self, stream: u64, bytes: usize) {
        self.use_up(stream, bytes);
    }

    fn discard(&mut self, stream: u64, bytes: usize) {
        self.use_up(stream, bytes);
    }

    fn release_memory(&mut self) {
        self.schedule.shrink();
        (self.block, self.last_head) = (Vec::new(), None);
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
    }
}

/// Bytes of content that a response has left, as far as is known.
fn content_left(requests: &[OpenRequest], stream: u64) -> u64 {
    let found = requests.binary_search_by_key(&stream, |request| request.stream);
    found.ok().and_then(|at| requests[at].content_left).unwrap_or(u64::MAX)
}
