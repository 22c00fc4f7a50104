//! A response that is relayed: its head, and its body as pieces of memory or as bytes that stay in the socket.

mod upgraded;

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use penstock_http::BodyFraming;
use penstock_http::body::BodyDecoder;
use penstock_metrics::OriginCounters;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::head::{Delimiter, Head};
use super::stream::Stream;
use crate::http::error::OriginError;
use crate::http::fetch::{Fetch, NOT_PASSED_ON};
use crate::http::framing::remove_twins;
use crate::http::origin::HttpOrigin;
use crate::http::pool::{PooledConnection, Pools};
use crate::http::rate::RateMeter;
use crate::http::server::SiteCounters;
use crate::http::settings::OriginLimits;
use crate::http::trace::{Upstream, UpstreamTrace};

pub use self::upgraded::{Moved, Outgoing, Upgraded};

/// Bytes that one read of a body brings at most.
const PIECE_BYTES: usize = 64 * 1024;

/// 101 Switching Protocols.
const SWITCHED: u16 = 101;

/// More pieces than this are joined: one call to the system sends few pieces.
const PIECES_MAX: usize = 6;

/// A connection with its pool.
pub(in crate::http) type Pooled = PooledConnection<Stream, Rc<Pools<Stream>>>;

/// A response of an origin that is relayed. Dropping it before the end of its body closes its connection.
pub struct RelayedResponse {
    head: Head,
    /// Bytes behind the head that came with it.
    read: Bytes,
    rest: Rest,
    connection: Option<Pooled>,
    proves_end: bool,
    meter: RateMeter,
    limits: OriginLimits,
    active: ActiveRequest,
}

/// What is to come of the body.
enum Rest {
    /// So many bytes, those that have been read included.
    Length(u64),
    Chunked(BodyDecoder),
    UntilClose,
    Nothing,
}

/// Counts a request among those of a server.
pub(in crate::http) struct ActiveRequest {
    origin: Arc<HttpOrigin>,
    index: usize,
    /// The counters of the site.
    site: Option<SiteCounters>,
    /// When the request was sent to which a response has come.
    asked: Option<Instant>,
    /// Whether the body of the response has failed.
    is_incomplete: bool,
    /// Where its steps are noted, and its number there.
    trace: Option<(UpstreamTrace, u32)>,
}

impl ActiveRequest {
    pub(in crate::http) fn new(origin: &Arc<HttpOrigin>, index: usize, fetch: &Fetch) -> Self {
        let trace = fetch.trace.as_ref().zip(origin.server(index));
        let trace = trace.map(|(trace, server)| (trace.clone(), trace.begin(server.url.to_string())));
        Self::of(origin, index, fetch.counters.clone(), trace)
    }

    fn of(
        origin: &Arc<HttpOrigin>,
        index: usize,
        site: Option<SiteCounters>,
        trace: Option<(UpstreamTrace, u32)>,
    ) -> Self {
        if let Some(server) = origin.server(index) {
            server.active.fetch_add(1, Ordering::Relaxed);
        }
        Self { origin: Arc::clone(origin), index, site, asked: None, is_incomplete: false, trace }
    }

    /// Notes that a connection was opened for the request, after this time.
    pub(in crate::http) fn connected(&self, after: Option<Duration>) {
        if let Some(after) = after {
            self.count(|counters| counters.connected(after));
        }
        self.note(|seen| seen.connect = after);
    }

    /// Counts for the server, and for the site at this server.
    fn count(&self, step: impl Fn(&OriginCounters)) {
        let server = self.origin.server(self.index).map(|server| &server.counters);
        let site = self.site.as_ref().and_then(|counters| counters.of(self.index));
        server.into_iter().chain(site).for_each(step);
    }

    fn note(&self, step: impl FnOnce(&mut Upstream)) {
        if let Some((trace, attempt)) = &self.trace {
            trace.note(*attempt, step);
        }
    }

    /// Counts the head of the response to a request that was sent at `asked`.
    pub(in crate::http) fn answered(&mut self, asked: Instant) {
        self.asked = Some(asked);
        self.count(|counters| counters.answered(asked.elapsed()));
        self.note(|seen| seen.first_byte = Some(asked.elapsed()));
    }

    /// Counts that the body of the response has failed, once.
    pub(in crate::http) fn broke_off(&mut self, error: OriginError) {
        if !std::mem::replace(&mut self.is_incomplete, true) {
            self.count(|counters| counters.incomplete(error.label()));
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(server) = self.origin.server(self.index) {
            server.active.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(asked) = self.asked {
            self.count(|counters| counters.ended(asked.elapsed()));
            self.note(|seen| seen.whole = Some(asked.elapsed()));
        }
    }
}

impl RelayedResponse {
    pub(in crate::http) fn new(
        mut head: Head,
        read: Vec<u8>,
        connection: Pooled,
        limits: &OriginLimits,
        active: ActiveRequest,
    ) -> Self {
        remove_twins(&mut head.fields, &NOT_PASSED_ON);
        let rest = match head.delimiter {
            Delimiter::Length(length) => Rest::Length(length),
            Delimiter::Chunked => Rest::Chunked(BodyDecoder::new(BodyFraming::Chunked, u64::MAX)),
            Delimiter::Close => Rest::UntilClose,
        };
        let proves_end = connection.connection.proves_end();
        let mut response = Self {
            head,
            read: read.into(),
            rest,
            connection: Some(connection),
            proves_end,
            meter: RateMeter::default(),
            limits: *limits,
            active,
        };
        // The connection of a 101 is no connection of HTTP any more.
        if matches!(response.rest, Rest::Length(0)) && response.head.status != SWITCHED {
            response.end(response.read.is_empty());
        }
        response
    }

    /// The connection, if the server has switched it to the protocol that was asked for. Nothing else comes on it then.
    pub fn take_switched(&mut self) -> Option<Upgraded> {
        let connection = self.connection.take_if(|_| self.head.status == SWITCHED)?;
        let active = ActiveRequest::of(&self.active.origin, self.active.index, None, None);
        Some(Upgraded::new(connection, std::mem::take(&mut self.read), active))
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The fields of its head.
    pub fn fields(&self) -> &HeaderMap {
        &self.head.fields
    }

    /// The length that the head announces, also of a response without a body.
    pub fn announced_length(&self) -> Option<u64> {
        self.head.announced
    }

    /// Length of the body in bytes; `None` if only its end tells.
    pub fn length(&self) -> Option<u64> {
        match self.head.delimiter {
            Delimiter::Length(length) => Some(length),
            Delimiter::Chunked | Delimiter::Close => None,
        }
    }

    /// Whether the end of the body proves that it is complete.
    pub fn proves_completeness(&self) -> bool {
        self.head.delimiter != Delimiter::Close || self.proves_end
    }

    /// The bytes of a body of known length that came with the head, and the socket on which the others arrive, so many
    /// and unchanged. They are moved from there, with [`Self::count_wait`] for each pause and [`Self::end_moved`] at the end.
    /// `None` if the body is encrypted, in chunks, of unknown length, or here already: [`Self::next`] reads those.
    pub fn take_socket(&mut self) -> Option<(Bytes, Rc<TcpStream>, u64)> {
        let socket = self.connection.as_ref()?.connection.socket()?;
        match self.rest {
            Rest::Length(length) if length > self.read.len() as u64 => {
                let left = length - self.read.len() as u64;
                Some((std::mem::take(&mut self.read), Rc::clone(socket), left))
            }
            _ => None,
        }
    }

    /// How long the origin may pause.
    pub fn patience(&self) -> Duration {
        self.limits.between_bytes
    }

    /// Counts time in which bytes were waited for, and the bytes that were moved since.
    ///
    /// # Errors
    /// [`OriginError::TooSlow`].
    pub fn count_wait(&mut self, waited: Duration, moved: usize) -> Result<(), OriginError> {
        let counted = self.meter.record(waited, moved, &self.limits.minimum_rate);
        counted.inspect_err(|error| self.active.broke_off(*error))
    }

    /// Counts that bytes which were to be moved from the socket did not come.
    pub fn count_fault(&mut self, error: OriginError) {
        self.active.broke_off(error);
    }

    /// Notes that all bytes have been moved from the socket.
    pub fn end_moved(&mut self) {
        self.end(true);
    }

    /// The next pieces of the body; `None` at its end.
    ///
    /// # Errors
    /// [`OriginError::Timeout`], [`OriginError::TooSlow`], [`OriginError::CutShort`], or [`OriginError::Malformed`] and
    /// [`OriginError::TrailerTooLarge`] for broken chunks.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, OriginError> {
        let next = self.next_pieces().await;
        next.inspect_err(|error| self.active.broke_off(*error))
    }

    async fn next_pieces(&mut self) -> Result<Option<Vec<Bytes>>, OriginError> {
        loop {
            if matches!(self.rest, Rest::Nothing) {
                return Ok(None);
            }
            let bytes = match std::mem::take(&mut self.read) {
                none if none.is_empty() => self.read_more().await?,
                read => read,
            };
            let pieces = self.take_content(bytes)?;
            if !pieces.is_empty() {
                return Ok(Some(pieces));
            }
        }
    }

    /// The content of bytes that have come; none at the end of the connection.
    fn take_content(&mut self, mut bytes: Bytes) -> Result<Vec<Bytes>, OriginError> {
        match &mut self.rest {
            Rest::Nothing => Ok(Vec::new()),
            Rest::UntilClose if bytes.is_empty() => {
                self.end(false);
                Ok(Vec::new())
            }
            Rest::UntilClose => Ok(vec![bytes]),
            Rest::Length(_) | Rest::Chunked(_) if bytes.is_empty() => Err(OriginError::CutShort),
            Rest::Length(left) => {
                // Bytes behind the body answer no request.
                let is_exact = bytes.len() as u64 <= *left;
                bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes.len() as u64;
                if *left == 0 {
                    self.end(is_exact);
                }
                Ok(vec![bytes])
            }
            Rest::Chunked(decoder) => {
                let mut pieces = Vec::new();
                let decoded = decoder.read(&bytes, |content| {
                    if !content.is_empty() {
                        pieces.push(bytes.slice_ref(content));
                    }
                });
                let decoded = decoded.map_err(|rejection| match rejection.reason {
                    "trailer_too_large" => OriginError::TrailerTooLarge,
                    _ => OriginError::Malformed,
                })?;
                if decoded.done {
                    self.end(decoded.consumed == bytes.len());
                }
                if pieces.len() > PIECES_MAX { Ok(vec![pieces.concat().into()]) } else { Ok(pieces) }
            }
        }
    }

    async fn read_more(&mut self) -> Result<Bytes, OriginError> {
        let Some(pooled) = &mut self.connection else { return Err(OriginError::CutShort) };
        let began = Instant::now();
        let read = timeout(self.limits.between_bytes, pooled.connection.read(PIECE_BYTES)).await;
        let arrived = read.as_ref().map_or(0, |read| read.as_ref().map_or(0, Vec::len));
        self.meter.record(began.elapsed(), arrived, &self.limits.minimum_rate)?;
        match read {
            Ok(Ok(bytes)) => Ok(bytes.into()),
            Ok(Err(_)) => Err(OriginError::CutShort),
            Err(_) => Err(OriginError::Timeout),
        }
    }

    /// Gives the connection back, or closes it.
    fn end(&mut self, is_exact: bool) {
        self.rest = Rest::Nothing;
        if let Some(connection) = self.connection.take().filter(|_| is_exact && self.head.keeps_connection) {
            connection.give_back();
        }
    }
}

impl fmt::Debug for RelayedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedResponse").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Whether an error says that the connection was closed.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
    )
}
