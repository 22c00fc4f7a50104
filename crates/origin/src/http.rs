//! HTTP origins: other servers as a source of bytes (RFC 9110, RFC 9112).
//!
//! A [`HttpOrigin`] is what was configured; it is shared. [`Connections`] are those that one worker keeps open, so
//! that a request to an origin takes no lock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use penstock_http::OriginUrl;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// The bounds of talking to origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginLimits {
    /// From the first packet to a connection.
    pub connect: Duration,
    /// From the request to the head of the response.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub between_bytes: Duration,
    /// Bytes of a response head.
    pub head_bytes: usize,
    /// Fields of a response head.
    pub head_fields: usize,
    /// Idle connections that one worker keeps to one target.
    pub idle_connections: usize,
    /// How long an idle connection is trusted.
    pub idle: Duration,
}

/// Servers that have the same content, asked in turn.
#[derive(Debug)]
pub struct HttpOrigin {
    id: u64,
    targets: Vec<OriginUrl>,
    next: AtomicUsize,
    limits: OriginLimits,
}

/// What is asked of an origin.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Path and query, as they stand in the request line.
    pub target: String,
    /// Value of Host; the target's own name if `None`.
    pub host: Option<String>,
    /// Whether it may be asked because of a replay, which the origin is told (RFC 8470 §5.1).
    pub early: bool,
    /// First and last byte wanted; all of it if `None`.
    pub range: Option<(u64, u64)>,
    /// Validators of what is there already: If-None-Match, or If-Modified-Since.
    pub known: Option<(&'static str, String)>,
}

/// Why there is no response, or no more of it. All are the origin's or the network's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No connection to any target.
    Unreachable,
    /// A deadline passed; see [`OriginLimits`].
    Timeout,
    /// What came is not HTTP, or more than the limits allow.
    Malformed,
    /// The connection ended before the response did.
    CutShort,
}

impl OriginError {
    /// The word used in metrics and Cache-Status.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::CutShort => "cut_short",
        }
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the origin cannot be reached",
            Self::Timeout => "the origin took too long",
            Self::Malformed => "the origin's response is not HTTP/1.1 within the limits",
            Self::CutShort => "the origin ended its response too soon",
        })
    }
}

impl std::error::Error for OriginError {}

impl HttpOrigin {
    /// An origin of these targets; there is at least one.
    pub fn new(targets: Vec<OriginUrl>, limits: OriginLimits) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, targets, next: AtomicUsize::new(0), limits })
    }

    /// The targets in the order in which they are to be tried this time.
    fn in_turn(&self) -> impl Iterator<Item = (usize, &OriginUrl)> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.targets.len()).filter_map(move |step| {
            let place = (first.wrapping_add(step)) % self.targets.len();
            self.targets.get(place).map(|target| (place, target))
        })
    }
}

/// A connection that waits for its next request.
struct Idle {
    sender: SendRequest<String>,
    since: Instant,
}

/// The connections of one worker to origins.
#[derive(Default)]
pub struct Connections {
    idle: RefCell<HashMap<(u64, usize), Vec<Idle>>>,
}

/// A response, its body still on its way.
pub struct Answer<'c> {
    response: Response<Incoming>,
    connection: Option<SendRequest<String>>,
    connections: &'c Connections,
    place: (u64, usize),
    limits: OriginLimits,
}

impl Connections {
    /// Asks the next target, or another if that cannot be reached. To be called within a `LocalSet`.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn fetch(&self, origin: &HttpOrigin, fetch: &Fetch) -> Result<Answer<'_>, OriginError> {
        let mut error = OriginError::Unreachable;
        for (number, target) in origin.in_turn() {
            match self.ask(origin, (origin.id, number), target, fetch).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Forgets connections that have been idle since before `now` less the time they are trusted.
    pub fn close_idle(&self, now: Instant, idle: Duration) {
        self.idle.borrow_mut().retain(|_, waiting| {
            waiting.retain(|one| now.saturating_duration_since(one.since) < idle && !one.sender.is_closed());
            !waiting.is_empty()
        });
    }

    /// How many connections wait.
    pub fn idle(&self) -> usize {
        self.idle.borrow().values().map(Vec::len).sum()
    }

    async fn ask(
        &self,
        origin: &HttpOrigin,
        place: (u64, usize),
        target: &OriginUrl,
        fetch: &Fetch,
    ) -> Result<Answer<'_>, OriginError> {
        let limits = origin.limits;
        let answer = |response, connection| Answer {
            response,
            connection: Some(connection),
            connections: self,
            place,
            limits,
        };
        // A connection that waited may have been closed by the other side meanwhile: then a new one is tried, since
        // asking again changes nothing there (RFC 9110 §9.2.2).
        while let Some(mut waiting) = self.take_idle(place) {
            let sent = timeout(limits.first_byte, waiting.send_request(request(target, fetch)?)).await;
            match sent {
                Ok(Ok(response)) => return Ok(answer(response, waiting)),
                Ok(Err(error)) if error.is_canceled() || is_closing(&error) => {}
                Ok(Err(error)) => return Err(meaning_of(&error)),
                Err(_) => return Err(OriginError::Timeout),
            }
        }
        let mut fresh = connect(target, limits).await?;
        match timeout(limits.first_byte, fresh.send_request(request(target, fetch)?)).await {
            Ok(Ok(response)) => Ok(answer(response, fresh)),
            Ok(Err(error)) => Err(meaning_of(&error)),
            Err(_) => Err(OriginError::Timeout),
        }
    }

    fn take_idle(&self, place: (u64, usize)) -> Option<SendRequest<String>> {
        let mut idle = self.idle.borrow_mut();
        let waiting = idle.get_mut(&place)?;
        while let Some(one) = waiting.pop() {
            if one.sender.is_ready() {
                return Some(one.sender);
            }
        }
        None
    }

    fn give_back(&self, place: (u64, usize), sender: SendRequest<String>, idle_max: usize) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let waiting = idle.entry(place).or_default();
        if waiting.len() < idle_max {
            waiting.push(Idle { sender, since: Instant::now() });
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("idle", &self.idle()).finish()
    }
}

impl Answer<'_> {
    /// Status code.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The fields of its head.
    pub fn fields(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The one value of a field as text; `None` if there is none, several, or not in ASCII.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields().get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// The length of the body, if the head says it.
    pub fn length(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`OriginError::Timeout`] or [`OriginError::CutShort`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        loop {
            let body = self.response.body_mut();
            let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            match timeout(self.limits.between_bytes, frame).await {
                Err(_) => return Err(OriginError::Timeout),
                Ok(Some(Err(_))) => return Err(OriginError::CutShort),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    // Trailers: nobody asked for them.
                    Err(_) => {}
                },
                Ok(None) => {
                    self.finish();
                    return Ok(None);
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.connections.give_back(self.place, connection, self.limits.idle_connections);
        }
    }
}

impl fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status()).finish_non_exhaustive()
    }
}

async fn connect(target: &OriginUrl, limits: OriginLimits) -> Result<SendRequest<String>, OriginError> {
    let dial = TcpStream::connect((target.host(), target.port()));
    let stream = match timeout(limits.connect, dial).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => return Err(OriginError::Timeout),
        Ok(Err(_)) => return Err(OriginError::Unreachable),
        Err(_) => return Err(OriginError::Timeout),
    };
    // Requests are one small packet each: nothing to gain from waiting.
    drop(stream.set_nodelay(true));
    let mut builder = Builder::new();
    builder.max_buf_size(limits.head_bytes).max_headers(limits.head_fields);
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|_| OriginError::Unreachable)?;
    spawn_local(async move {
        // Its errors come out where the response is read.
        drop(connection.await);
    });
    Ok(sender)
}

fn request(target: &OriginUrl, fetch: &Fetch) -> Result<Request<String>, OriginError> {
    let mut request = Request::builder().method("GET").uri(format!("{}{}", target.base(), fetch.target));
    request = request.header(header::HOST, fetch.host.as_deref().unwrap_or_else(|| target.authority()));
    request = request.header(header::USER_AGENT, "penstock").header(header::VIA, "1.1 penstock");
    if fetch.early {
        request = request.header("early-data", "1");
    }
    if let Some((first, last)) = fetch.range {
        request = request.header(header::RANGE, format!("bytes={first}-{last}"));
    }
    if let Some((name, value)) = &fetch.known {
        let value = HeaderValue::from_str(value).map_err(|_| OriginError::Malformed)?;
        request = request.header(*name, value);
    }
    // Only a target that hyper cannot read gets here; the client's request was parsed before.
    request.body(String::new()).map_err(|_| OriginError::Malformed)
}

fn is_closing(error: &hyper::Error) -> bool {
    error.is_closed() || error.is_incomplete_message()
}

fn meaning_of(error: &hyper::Error) -> OriginError {
    if error.is_timeout() {
        OriginError::Timeout
    } else if error.is_parse() || error.is_parse_too_large() {
        OriginError::Malformed
    } else {
        OriginError::CutShort
    }
}
