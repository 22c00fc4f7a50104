//! A response of an origin while its body arrives.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use hyper::Response;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::dial::Sender;
use super::error::OriginError;
use super::fetch::NOT_PASSED_ON;
use super::framing::{Framing, remove_twins};
use super::pool::{PooledConnection, Pools};
use super::rate::RateMeter;
use super::redirect::Hops;
use super::relay::ActiveRequest;
use super::server::ServerId;
use super::settings::OriginLimits;
use super::validators::UrlMark;

/// A response of an origin. Dropping it before the end of its body closes its connection.
pub struct OriginResponse<'c> {
    response: Response<Incoming>,
    connection: Option<ResponseConnection<'c>>,
    server: Option<ServerId>,
    freshness_limit: Option<Duration>,
    framing: Framing,
    meter: RateMeter,
    limits: OriginLimits,
}

/// The connection that a response arrives on.
pub(super) enum ResponseConnection<'c> {
    /// One of the worker's, given back at the end of the body.
    Pooled(PooledConnection<Sender, &'c Pools<Sender>>, ActiveRequest),
    /// A connection for this response only.
    Own(#[expect(dead_code, reason = "dropping it closes the connection")] Sender),
}

impl<'c> OriginResponse<'c> {
    /// A response whose head has no [`fault`](super::framing::fault), over TLS if `secure`.
    pub(super) fn new(
        mut response: Response<Incoming>,
        connection: ResponseConnection<'c>,
        secure: bool,
        limits: &OriginLimits,
    ) -> Self {
        remove_twins(response.headers_mut(), &NOT_PASSED_ON);
        let framing = Framing::of(&response, secure);
        let server = match &connection {
            ResponseConnection::Pooled(pooled, _) => Some(pooled.server()),
            ResponseConnection::Own(_) => None,
        };
        Self {
            response,
            connection: Some(connection),
            server,
            freshness_limit: None,
            framing,
            meter: RateMeter::default(),
            limits: *limits,
        }
    }

    /// Makes it the response that redirections led to: their bounds hold for it, and its tag is that of its own URL.
    pub(super) fn follow(&mut self, hops: &Hops, mark: &UrlMark, now: SystemTime) {
        let status = self.status();
        let tag = self.field("etag").and_then(|tag| HeaderValue::try_from(mark.mark(tag)?).ok());
        let fields = self.response.headers_mut();
        match tag {
            Some(tag) => drop(fields.insert(header::ETAG, tag)),
            None => drop(fields.remove(header::ETAG)),
        }
        hops.apply(status, fields, now);
        self.freshness_limit = hops.freshness();
    }

    /// The server that sent it; `None` behind a redirection. [`Fetch::preferred`](super::Fetch::preferred) takes it for the
    /// other parts of an object.
    pub fn answered_by(&self) -> Option<ServerId> {
        self.server
    }

    /// The longest time that the response may be fresh because of the redirections that led to it, beside what its fields
    /// say; `None` without a bound.
    pub fn freshness_limit(&self) -> Option<Duration> {
        self.freshness_limit
    }

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

    /// The first value of a field as text, for fields whose first value counts; `None` if there is none, or not in ASCII.
    pub fn first_field(&self, name: &str) -> Option<&str> {
        self.fields().get(name)?.to_str().ok()
    }

    /// The length of the body, if the head says it.
    pub fn length(&self) -> Option<u64> {
        self.response.body().size_hint().exact()
    }

    /// How the end of the body is found. A body that ends without proof must not be kept.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`OriginError::Timeout`], [`OriginError::TooSlow`], [`OriginError::CutShort`], or [`OriginError::Malformed`] for
    /// broken chunks and trailers that are too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        let next = self.next_piece().await;
        if let (Err(error), Some(ResponseConnection::Pooled(_, active))) = (&next, &mut self.connection) {
            active.broke_off(*error);
        }
        next
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, OriginError> {
        loop {
            let body = self.response.body_mut();
            let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let began = Instant::now();
            let frame = timeout(self.limits.between_bytes, frame).await;
            let arrived = match &frame {
                Ok(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len),
                _ => 0,
            };
            self.meter.record(began.elapsed(), arrived, &self.limits.minimum_rate)?;
            match frame {
                Err(_) => return Err(OriginError::Timeout),
                Ok(Some(Err(error))) => return Err(OriginError::from_body(&error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    // Trailers have no use here.
                    Err(_) => {}
                },
                Ok(None) => {
                    if let Some(ResponseConnection::Pooled(connection, _)) = self.connection.take() {
                        connection.give_back();
                    }
                    return Ok(None);
                }
            }
        }
    }
}

impl fmt::Debug for OriginResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginResponse").field("status", &self.status()).finish_non_exhaustive()
    }
}
