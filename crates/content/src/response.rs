//! A response, without the connection that carries it.

mod bitrate;
mod coded;
mod exchange;
mod file;
mod object;
mod outdated;
mod paced;
mod representation;

pub use exchange::ClientRequest;
pub(crate) use exchange::{Exchange, GivenFields, NextObject};
pub(crate) use file::FileRepresentation;
pub(crate) use object::ObjectRepresentation;
pub(crate) use paced::BytePace;
pub use paced::PacedBody;
use paced::PacedSource;
pub(crate) use representation::Representation;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::ErrorPage;
use penstock_egress::Part;
use penstock_http::{ResponseHead, Status};
use penstock_origin::http::{OriginError, Upgraded};

use crate::cache_status::CacheStatus;
use crate::context::Context;
use crate::fault::BodyError;
use crate::fill::{BodyChunk, BodyStream, RelayedBody};
use crate::networks::NetworkEntry;
use crate::site::Permit;

/// Fields that describe the content of an error. Content-Range is not among them: that of a 416 is the length of the whole
/// (RFC 9110 §15.5.17).
const OF_CONTENT: [&str; 12] = [
    "Accept-Ranges",
    "Content-Digest",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
    "Content-MD5",
    "Content-Type",
    "Digest",
    "ETag",
    "Last-Modified",
    "Repr-Digest",
];

/// The answer to a request. A carrier (an HTTP/1 connection, a stream of HTTP/2) adds what belongs to the
/// connection: Date, Server, framing.
pub struct Response {
    /// Status and fields.
    pub head: ResponseHead,
    /// The content, which has its length.
    pub body: Body,
    /// How the cache handled the request; `None` if it was not asked.
    pub cache_status: Option<CacheStatus>,
    /// Held until the response has been sent: it counts against the limits of its site.
    pub permit: Permit,
}

/// Length of a response's content, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentLength {
    /// The status allows no content: 1xx, 204, 304 (RFC 9110 §8.6).
    None,
    /// Known before the first byte.
    Known(u64),
    /// Known only at its end.
    Unknown,
}

/// The content of a response. Only content that is still coming, or that is not sent at all, has no known length: every
/// body that a carrier frames without a length has an end that the carrier sends.
pub enum Body {
    /// The status allows no content: 1xx, 204, 304 (RFC 9110 §8.6).
    None,
    /// No bytes, and Content-Length says so.
    Empty,
    /// Content that is not sent with the response, such as that of HEAD, and its length if that is known.
    Withheld(Option<u64>),
    /// Bytes that can be sent at once.
    Part(Part),
    /// The same in several parts.
    Parts(Vec<Part>),
    /// Bytes that may still be coming: the length of all if it is known, the first of them, and the rest.
    Stream(Option<u64>, Box<(BodyChunk, ChunkSource)>),
    /// No content: behind the head the connection speaks another protocol (RFC 9110 §7.8). HTTP/1.1 only.
    Tunnel(Box<Tunnel>),
}

/// A connection with a server that has switched to the protocol for which the client had asked.
#[derive(Debug)]
pub struct Tunnel {
    /// The server's side.
    pub connection: Upgraded,
    /// Name of the protocol.
    pub protocol: Arc<str>,
    /// How long there may be no bytes.
    pub idle: Duration,
    /// Counts against the fetches of the client's network.
    pub(crate) _place: NetworkEntry,
}

impl Body {
    /// The length that the head of the response announces.
    #[inline]
    pub fn length(&self) -> ContentLength {
        match self {
            Self::None | Self::Tunnel(_) => ContentLength::None,
            Self::Empty => ContentLength::Known(0),
            Self::Withheld(length) | Self::Stream(length, _) => {
                length.map_or(ContentLength::Unknown, ContentLength::Known)
            }
            Self::Part(part) => ContentLength::Known(part.len()),
            Self::Parts(parts) => ContentLength::Known(parts.iter().map(Part::len).sum()),
        }
    }

    /// Whether the head of the response is all that is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::None | Self::Empty | Self::Withheld(_) | Self::Tunnel(_) => true,
            Self::Part(part) => part.len() == 0,
            Self::Parts(parts) => parts.iter().all(|part| part.len() == 0),
            Self::Stream(..) => false,
        }
    }
}

/// Where the chunks of a body come from.
pub enum ChunkSource {
    /// An object of the cache, or one that passes by it.
    Object(BodyStream),
    /// A server whose responses are relayed without the cache.
    Relayed(RelayedBody),
    /// One of these, or bytes that are there, no faster than its site says.
    Paced(Box<PacedBody>),
}

impl ChunkSource {
    /// The next bytes, as soon as there are any; `None` behind the last.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn next(&mut self, context: &Rc<Context>) -> Result<Option<BodyChunk>, BodyError> {
        match self {
            Self::Object(stream) => stream.next(context).await,
            Self::Relayed(body) => body.next(context).await,
            // Boxed: few responses are paced.
            Self::Paced(body) => Box::pin(body.next(context)).await,
        }
    }

    /// Whether the chunk before was the last, as far as that is known already.
    pub fn is_at_end(&self) -> bool {
        match self {
            Self::Object(stream) => stream.is_at_end(),
            Self::Relayed(body) => body.is_at_end(),
            Self::Paced(body) => match &body.source {
                PacedSource::Parts(parts) => parts.is_empty(),
                PacedSource::Object(stream) => stream.is_at_end(),
                PacedSource::Relayed(body) => body.is_at_end(),
            },
        }
    }

    /// Whether the next bytes may have to wait though they are there: what they come from should not be held meanwhile.
    pub fn is_paced(&self) -> bool {
        matches!(self, Self::Paced(_))
    }

    /// Takes back the last `bytes` of the chunk before: they were not sent, and come again with the next one. False if
    /// they cannot.
    pub fn go_back(&mut self, bytes: u64) -> bool {
        match self {
            Self::Object(stream) => stream.go_back(bytes),
            Self::Relayed(_) => bytes == 0,
            Self::Paced(body) => match &mut body.source {
                PacedSource::Object(stream) => stream.go_back(bytes),
                PacedSource::Parts(_) | PacedSource::Relayed(_) => bytes == 0,
            },
        }
    }

    /// How long the socket that the bytes of a chunk arrive on may have none.
    pub fn patience(&self) -> Duration {
        match self {
            // No chunk of a paced body is still arriving.
            Self::Object(_) | Self::Paced(_) => Duration::ZERO,
            Self::Relayed(body) => body.patience(),
        }
    }

    /// Counts time in which that socket had no bytes. `left` bytes of the chunk are still to be sent.
    ///
    /// # Errors
    /// [`BodyError::Gone`]: the server is too slow.
    pub fn count_wait(&mut self, context: &Context, waited: Duration, left: u64) -> Result<(), BodyError> {
        match self {
            Self::Object(_) | Self::Paced(_) => Ok(()),
            Self::Relayed(body) => body.count_wait(context, waited, left),
        }
    }

    /// Counts a chunk whose socket did not bring all of its bytes.
    pub fn count_fault(&mut self, context: &Context, error: OriginError) {
        if let Self::Relayed(body) = self {
            context.metrics.origin(error.label());
            body.count_fault(error);
        }
    }
}

impl Response {
    /// A page that says no more than its status.
    pub(crate) fn page(status: Status) -> Self {
        let mut response = Self::text(status.body_text().to_owned());
        response.head.status = status.code();
        response
    }

    /// A page with this content.
    pub(crate) fn page_of(status: Status, content_type: &str, content: Part) -> Self {
        let mut head = ResponseHead::new(status.code());
        head.fields.field("Content-Type", content_type);
        Self { head, body: Body::Part(content), cache_status: None, permit: Permit::default() }
    }

    /// 200 with a text.
    pub(crate) fn text(text: String) -> Self {
        let mut head = ResponseHead::new(Status::Ok.code());
        head.fields.fixed("Content-Type", "text/plain; charset=utf-8");
        Self {
            head,
            body: Body::Part(Part::Owned(text.into_bytes())),
            cache_status: None,
            permit: Permit::default(),
        }
    }

    /// Puts a page of the site in the place of the content, and leaves out the fields that describe it.
    pub(crate) fn replace_content(&mut self, page: &ErrorPage) {
        let fields = &mut self.head.fields;
        fields.remove(|name| OF_CONTENT.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes())));
        fields.field("Content-Type", &page.content_type);
        self.body = Body::Part(Part::Shared(Arc::clone(&page.body)));
    }

    /// Leaves out the content, whose length stays in the head (RFC 9110 §9.3.2).
    pub(crate) fn withhold_body(&mut self) {
        let length = match self.body.length() {
            ContentLength::Known(length) => Some(length),
            ContentLength::None | ContentLength::Unknown => None,
        };
        self.body = Body::Withheld(length);
    }

    /// A response without content.
    pub(crate) fn without_content(head: ResponseHead) -> Self {
        Self { head, body: Body::None, cache_status: None, permit: Permit::default() }
    }

    /// 204.
    pub(crate) fn no_content() -> Self {
        Self::without_content(ResponseHead::new(Status::NoContent.code()))
    }
}
