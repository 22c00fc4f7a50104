//! A response, without the connection that carries it.
mod exchange;
mod file;
mod object;
mod outdated;
mod representation;

pub use exchange::ClientRequest;
pub(crate) use exchange::Exchange;
pub(crate) use file::FileRepresentation;
pub(crate) use object::ObjectRepresentation;
pub(crate) use representation::Representation;

use std::rc::Rc;
use std::time::Duration;

use penstock_egress::Part;
use penstock_http::{HeadWriter, Status};
use penstock_origin::http::OriginError;

use crate::cache_status::CacheStatus;
use crate::context::Context;
use crate::fault::BodyError;
use crate::fill::{BodyChunk, BodyStream, RelayedBody};

/// The answer to a request. A carrier (an HTTP/1 connection, a stream of HTTP/2) adds what belongs to the
/// connection: Date, Server, framing.
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields, without those of the connection.
    pub fields: Fields,
    /// The content, which has its length.
    pub body: Body,
    /// Whether the fields have the origin's Date.
    pub has_date: bool,
    /// How the cache handled the request; `None` if it was not asked.
    pub cache_status: Option<CacheStatus>,
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
}

impl Body {
    /// The length that the head of the response announces.
    #[inline]
    pub fn length(&self) -> ContentLength {
        match self {
            Self::None => ContentLength::None,
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
            Self::None | Self::Empty | Self::Withheld(_) => true,
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
        }
    }

    /// Whether the chunk before was the last, as far as that is known already.
    pub fn is_at_end(&self) -> bool {
        match self {
            Self::Object(stream) => stream.is_at_end(),
            Self::Relayed(body) => body.is_at_end(),
        }
    }

    /// Takes back the last `bytes` of the chunk before: they were not sent, and come again with the next one. False if
    /// they cannot.
    pub fn go_back(&mut self, bytes: u64) -> bool {
        match self {
            Self::Object(stream) => stream.go_back(bytes),
            Self::Relayed(_) => bytes == 0,
        }
    }

    /// How long the socket that the bytes of a chunk arrive on may have none.
    pub fn patience(&self) -> Duration {
        match self {
            Self::Object(_) => Duration::ZERO,
            Self::Relayed(body) => body.patience(),
        }
    }

    /// Counts time in which that socket had no bytes. `left` bytes of the chunk are still to be sent.
    ///
    /// # Errors
    /// [`BodyError::Gone`]: the server is too slow.
    pub fn count_wait(&mut self, context: &Context, waited: Duration, left: u64) -> Result<(), BodyError> {
        match self {
            Self::Object(_) => Ok(()),
            Self::Relayed(body) => body.count_wait(context, waited, left),
        }
    }

    /// Counts a chunk whose socket did not bring all of its bytes.
    pub fn count_fault(&self, context: &Context, error: OriginError) {
        if let Self::Relayed(_) = self {
            context.metrics.origin(error.label());
        }
    }
}

/// Space for a usual head in bytes, with what its connection adds, so that it is written without growing.
const HEAD_BYTES: usize = 704;

/// Response fields in the order they are sent.
#[derive(Debug)]
pub struct Fields {
    lines: Vec<u8>,
}

impl Fields {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::with_capacity(HEAD_BYTES) }
    }

    /// Removes the lines that begin with `start`: the name of a field, or its first letters, as origins' lines have them, in
    /// lowercase letters. Names that this server writes begin with a capital letter.
    pub(crate) fn remove(&mut self, start: &[u8]) {
        while let Some(at) = line_with(&self.lines, start) {
            let end = memchr::memchr(b'\n', &self.lines[at..]).map_or(self.lines.len(), |end| at + end + 1);
            self.lines.drain(at..end);
        }
    }

    /// Removes the lines of a field, in whatever case its name is written.
    pub(crate) fn remove_named(&mut self, name: &str) {
        let mut at = 0;
        while at < self.lines.len() {
            let line = &self.lines[at..];
            let end = memchr::memchr(b'\n', line).map_or(line.len(), |end| end + 1);
            let is_named = line.get(name.len()) == Some(&b':')
                && line[..name.len()].eq_ignore_ascii_case(name.as_bytes());
            if is_named {
                self.lines.drain(at..at + end);
            } else {
                at += end;
            }
        }
    }

    /// Appends fields.
    pub(crate) fn writer(&mut self) -> HeadWriter<'_> {
        HeadWriter::continuing(&mut self.lines)
    }

    /// The fields as lines of HTTP/1 (RFC 9112 §5), each with its line end.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Takes the lines out, to make a head of them without a copy.
    pub fn take_lines(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.lines)
    }
}

/// Where the first line begins that begins with `start`.
fn line_with(lines: &[u8], start: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(lines, start).find(|&at| at == 0 || lines[at - 1] == b'\n')
}

impl Response {
    /// A page that says no more than its status.
    pub(crate) fn page(status: Status) -> Self {
        let text = Part::Owned(status.body_text().as_bytes().to_vec());
        Self::page_of(status, "text/plain; charset=utf-8", text)
    }

    /// A page with this content.
    pub(crate) fn page_of(status: Status, content_type: &str, content: Part) -> Self {
        let mut fields = Fields::new();
        fields.writer().field("Content-Type", content_type);
        Self { status: status.code(), fields, body: Body::Part(content), has_date: false, cache_status: None }
    }

    /// A response without content.
    pub(crate) fn without_content(status: u16, fields: Fields) -> Self {
        Self { status, fields, body: Body::None, has_date: false, cache_status: None }
    }
}
