//! Responses from a representation: preconditions, ranges, multipart, 304 and 416, in one place for files, cached objects
//! and relayed bodies (RFC 9110 §13, §14).

use std::ops::Range;

use futures_util::FutureExt as _;
use penstock_config::limits;
use penstock_egress::Part;
use penstock_http::conditional::{Precondition, Validators, evaluate};
use penstock_http::multipart::{Boundary, Multipart};
use penstock_http::range::{Ranges, select};
use penstock_http::{ResponseHead, Status};
use penstock_sys::file::Extent;

use crate::fault::BodyError;
use crate::fill::{Piece, Pieces};
use crate::requester::Requester;
use crate::response::exchange::Exchange;
use crate::response::file::{FileBytes, FileRepresentation};
use crate::response::object::{ObjectRepresentation, Waited};
use crate::response::outdated::Outdated;
use crate::response::{Body, ContentLength, Response};
use crate::site::Permit;

/// A representation that a request has selected.
pub(crate) enum Representation {
    /// A file of a directory site.
    File(FileRepresentation),
    /// A cached object, or a response that is relayed to one client.
    Object(ObjectRepresentation),
}

/// The least number of bytes at the beginning of an object that is still being made for which a client does not wait: the
/// smallest slice that another cache may ask for.
const LONG_RANGE_BYTES: u64 = limits::SLICE_BYTES_MIN;

/// The content of a response to be.
struct Content {
    status: u16,
    pieces: Pieces,
    length: ContentLength,
    /// Content-Type, if it is not that of the representation.
    content_type: Option<String>,
    range: ContentRange,
}

/// Content-Range of a response to be.
enum ContentRange {
    None,
    /// One range of a representation of this length.
    Of(Range<u64>, u64),
    /// A range of a representation of unknown length.
    Growing(String),
}

impl Representation {
    /// The response to a request: conditional, in parts, or whole.
    ///
    /// # Errors
    /// [`Outdated`]: the object changed before its first byte was sent. Its new version can be looked up.
    pub(crate) async fn respond(mut self, exchange: &Exchange<'_>) -> Result<Response, Outdated> {
        let status = self.status();
        if status != 200 {
            return self.whole(exchange, status).await;
        }
        let range = match evaluate(exchange.request, &self.validators()) {
            Precondition::NotModified => return Ok(self.not_modified(exchange)),
            Precondition::Failed => return Ok(exchange.page(Status::PreconditionFailed)),
            Precondition::Serve { ranges_allowed } => {
                exchange.request.range().filter(|_| ranges_allowed && self.has_ranges())
            }
        };
        let length = match self.length() {
            Some(length) => length,
            // Boxed: few objects are growing.
            None => match Box::pin(self.while_growing(range)).await {
                Growing::Ended(length) => length,
                Growing::Whole => return self.whole(exchange, 200).await,
                Growing::Range(content) => return self.send(exchange, content).await,
                Growing::Broken => return Ok(exchange.page(Status::BadGateway)),
            },
        };
        match self.selected(exchange, range, length) {
            Ok(content) => self.send(exchange, content).await,
            Err(page) => Ok(page),
        }
    }

    /// The whole representation with its own status, whatever the request asks for.
    ///
    /// # Errors
    /// As [`Self::respond`].
    pub(crate) async fn whole(&mut self, exchange: &Exchange<'_>, status: u16) -> Result<Response, Outdated> {
        let content = self.whole_content(status);
        self.send(exchange, content).await
    }

    fn whole_content(&mut self, status: u16) -> Content {
        let piece = match self {
            Self::File(file) => Piece::Range(0..file.length()),
            Self::Object(object) => object.whole_piece(),
        };
        let length = self.length().map_or(ContentLength::Unknown, ContentLength::Known);
        // These have no content (RFC 9110 §8.6).
        let length = if matches!(status, 204 | 304) { ContentLength::None } else { length };
        Content { status, pieces: Pieces::One(piece), length, content_type: None, range: ContentRange::None }
    }

    /// What a request selects of `length` bytes.
    ///
    /// # Errors
    /// The page for a range outside of them.
    fn selected(
        &mut self,
        exchange: &Exchange<'_>,
        range: Option<&str>,
        length: u64,
    ) -> Result<Content, Response> {
        match select(range, length, limits::RANGES_PER_REQUEST) {
            Ranges::Whole => Ok(self.whole_content(200)),
            Ranges::One(range) => Ok(Content {
                status: 206,
                pieces: Pieces::One(Piece::Range(range.clone())),
                length: ContentLength::Known(range.end - range.start),
                content_type: None,
                range: ContentRange::Of(range, length),
            }),
            Ranges::Many(ranges) => Ok(self.multipart(exchange, &ranges, length)),
            // A node that does not know the object asks for its first bytes, of which an empty one has none.
            Ranges::Unsatisfiable if length == 0 && matches!(exchange.requester, Requester::Peer(_)) => {
                Ok(self.whole_content(200))
            }
            Ranges::Unsatisfiable => Err(exchange.page_with(Status::RangeNotSatisfiable, |head| {
                head.content_range_unsatisfied(length);
            })),
        }
    }

    fn multipart(&self, exchange: &Exchange<'_>, ranges: &[Range<u64>], length: u64) -> Content {
        // Unpredictable, so that it does not occur in the content.
        let boundary = Boundary::new((exchange.context.random)());
        let multipart = Multipart::new(boundary, self.content_type(), length, ranges);
        let mut pieces = Vec::with_capacity(2 * ranges.len() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let mut head = Vec::new();
            multipart.write_part_head(&mut head, index);
            pieces.push(Piece::Bytes(head));
            pieces.push(Piece::Range(range.clone()));
        }
        let mut closing = Vec::new();
        multipart.write_closing(&mut closing);
        pieces.push(Piece::Bytes(closing));
        Content {
            status: 206,
            pieces: Pieces::Many(pieces),
            length: ContentLength::Known(multipart.content_length()),
            content_type: Some(multipart.content_type()),
            range: ContentRange::None,
        }
    }

    /// A range of an object that is still being made. A range with an end is answered when its bytes have come. A range
    /// without an end waits for the end of the object, unless it names a last byte that no object has (RFC 8673 §3):
    /// then the bytes are sent as they come. So they are in a 200 if a long beginning or all of the object is asked for:
    /// that is how another cache begins to fetch it, and its clients would get the first byte with the last.
    async fn while_growing(&self, range: Option<&str>) -> Growing {
        let Self::Object(object) = self else { return Growing::Whole };
        let selected = select(range, limits::OBJECT_BYTES_MAX, limits::RANGES_PER_REQUEST);
        let (Ranges::One(wanted), Some(text)) = (selected, range) else { return Growing::Whole };
        let open = wanted.end >= limits::OBJECT_BYTES_MAX;
        let last = text.rsplit('-').next().and_then(|last| last.trim().parse::<u64>().ok());
        let streams =
            open && last.is_some_and(|last| last >= limits::OBJECT_BYTES_MAX) && !text.contains("=-");
        let needed = if streams { wanted.start + 1 } else { wanted.end };
        let is_long = wanted.start == 0 && !streams && needed >= LONG_RANGE_BYTES;
        let waited = match object.wait_for_bytes(needed).now_or_never() {
            Some(waited) => waited,
            None if is_long => return Growing::Whole,
            None => object.wait_for_bytes(needed).await,
        };
        match waited {
            Waited::Broken => return Growing::Broken,
            Waited::Ended(length) => return Growing::Ended(length),
            Waited::Growing => {}
        }
        let Range { start, end } = wanted;
        let named = format!("bytes {start}-{}/*", if streams { last.unwrap_or(end) } else { end - 1 });
        let (end, length) = if streams {
            (u64::MAX, ContentLength::Unknown)
        } else {
            (end, ContentLength::Known(end - start))
        };
        Growing::Range(Content {
            status: 206,
            pieces: Pieces::One(Piece::Range(start..end)),
            length,
            content_type: None,
            range: ContentRange::Growing(named),
        })
    }

    fn not_modified(&self, exchange: &Exchange<'_>) -> Response {
        let mut head = ResponseHead::new(Status::NotModified.code());
        self.write_fields(exchange, &mut head, None);
        Response::without_content(head)
    }

    /// The response with this content. Of a body that is still coming it waits for the first bytes, so that a failure
    /// before them is an error page and not a response cut short.
    async fn send(&self, exchange: &Exchange<'_>, content: Content) -> Result<Response, Outdated> {
        let Content { status, pieces, length, content_type, range } = content;
        let known = match length {
            ContentLength::Known(length) => Some(length),
            ContentLength::None | ContentLength::Unknown => None,
        };
        let body = match self {
            _ if length == ContentLength::None => Body::None,
            _ if known == Some(0) => Body::Empty,
            _ if !exchange.wants_body() => Body::Withheld(known),
            Self::File(file) => file_body(file, pieces),
            Self::Object(object) => match object.body(exchange.context, pieces, known).await {
                Ok(body) => body,
                Err(BodyError::NetworkFull) => {
                    exchange.context.metrics.rejected("network_fetches");
                    return Ok(exchange.page(Status::TooManyRequests));
                }
                Err(BodyError::Crowded) => return Ok(exchange.page(Status::ServiceUnavailable)),
                Err(BodyError::Gone(fault)) => return object.broken(exchange, fault),
            },
        };
        let mut head = ResponseHead::new(status);
        match &range {
            ContentRange::None => {}
            ContentRange::Of(range, length) => {
                head.fields.content_range(range, *length);
            }
            ContentRange::Growing(value) => {
                head.fields.field("Content-Range", value);
            }
        }
        let offers_ranges = matches!(self, Self::Object(object) if !object.is_coded());
        if status == 200 && offers_ranges && matches!(length, ContentLength::Known(_)) {
            head.fields.fixed("Accept-Ranges", "bytes");
        }
        self.write_fields(exchange, &mut head, Some(content_type.as_deref()));
        Ok(Response { head, body, cache_status: None, permit: Permit::default() })
    }

    fn status(&self) -> u16 {
        match self {
            Self::File(_) => 200,
            Self::Object(object) => object.status(),
        }
    }

    fn validators(&self) -> Validators<'_> {
        match self {
            Self::File(file) => file.validators(),
            Self::Object(object) => object.validators(),
        }
    }

    fn content_type(&self) -> &str {
        match self {
            Self::File(file) => file.content_type,
            Self::Object(object) => object.content_type(),
        }
    }

    fn length(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.length()),
            Self::Object(object) => object.length(),
        }
    }

    fn has_ranges(&self) -> bool {
        match self {
            Self::File(file) => file.has_ranges(),
            Self::Object(object) => object.has_ranges(),
        }
    }

    /// Appends the fields of the representation. `content_type`: `None` for a response without content, else the type if it
    /// is not the representation's own.
    fn write_fields(
        &self,
        exchange: &Exchange<'_>,
        ResponseHead { status, fields }: &mut ResponseHead,
        content_type: Option<Option<&str>>,
    ) {
        match self {
            Self::File(file) => {
                if let Some(other) = content_type {
                    let kind = other.unwrap_or(file.content_type);
                    fields.text("Content-Type", |value| value.extend_from_slice(kind.as_bytes()));
                }
                file.write_fields(fields);
            }
            Self::Object(object) => {
                object.write_fields(exchange.context, fields, *status, content_type.flatten());
            }
        }
    }
}

/// The outcome of a range of an object of unknown length.
enum Growing {
    /// The object has ended with this length.
    Ended(u64),
    Whole,
    Range(Content),
    Broken,
}

fn file_body(file: &FileRepresentation, pieces: Pieces) -> Body {
    let part = |range: Range<u64>| match &file.bytes {
        // `None` does not happen: the ranges are within the file.
        FileBytes::File(file) => {
            Extent::new(file.clone(), range.start, range.end - range.start).map(Part::Extent)
        }
        FileBytes::Memory(bytes) => Some(Part::Shared(bytes.clone())),
    };
    let of = |piece| match piece {
        Piece::Range(range) => part(range),
        Piece::Bytes(bytes) => Some(Part::Owned(bytes)),
        Piece::Relayed(_) => None,
    };
    match pieces {
        Pieces::One(piece) => of(piece).map_or(Body::Empty, Body::Part),
        Pieces::Many(pieces) => Body::Parts(pieces.into_iter().filter_map(of).collect()),
    }
}
