//! How the body of a response is delimited (RFC 9112 §6.3).

use hyper::Response;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length, which the head tells; also of responses that have no body.
    Length,
    /// By the last chunk.
    Chunked,
    /// By close_notify at the end of a TLS connection.
    CloseNotify,
    /// By the end of a TCP connection: a body that was cut looks whole.
    Close,
}

impl Framing {
    /// Whether a body that has ended is known to be whole. Others must not be kept by a cache.
    pub fn proves_completeness(self) -> bool {
        !matches!(self, Self::Close)
    }

    /// The framing of a response without a [`fault`].
    pub(super) fn of<B: Body>(response: &Response<B>, secure: bool) -> Self {
        if response.body().size_hint().exact().is_some() {
            Self::Length
        } else if response.headers().contains_key(header::TRANSFER_ENCODING) {
            Self::Chunked
        } else if secure {
            Self::CloseNotify
        } else {
            Self::Close
        }
    }
}

/// Refuses framing that two programs could read differently. The text is for the log.
pub(super) fn fault<B>(response: &Response<B>) -> Option<&'static str> {
    let fields = response.headers();
    let mut codings = fields.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next()?;
    if fields.contains_key(header::CONTENT_LENGTH) {
        return Some("it sends Content-Length and Transfer-Encoding");
    }
    let chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
    (!chunked).then_some("it uses a transfer coding other than chunked")
}

/// Whether a field's name is that of a field of the connection or of the framing, but for underscores: some programs
/// read `Content_Length` as Content-Length.
pub(super) fn is_twin_of_any(name: &HeaderName, fields: &[HeaderName]) -> bool {
    let name = name.as_str();
    name.contains('_')
        && HeaderName::try_from(name.replace('_', "-")).is_ok_and(|hyphenated| fields.contains(&hyphenated))
}

/// Removes fields of a response whose names are twins of these.
pub(super) fn remove_twins(fields: &mut HeaderMap, of: &[HeaderName]) {
    let twins: Vec<HeaderName> = fields.keys().filter(|name| is_twin_of_any(name, of)).cloned().collect();
    for twin in twins {
        fields.remove(twin);
    }
}
