//! Small types of a request head: method, version, framing of the body.

/// The request method. Names are case-sensitive (RFC 9110 §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'h> {
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// Any other token, as it was sent.
    Other(&'h str),
}

impl<'h> Method<'h> {
    /// The method's name as it stands on the request line.
    pub const fn name(&self) -> &'h str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Other(name) => name,
        }
    }
}

/// The protocol version of a request. Any other version on a connection of HTTP/1 is rejected with 505.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

/// How the body that follows the head is delimited (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is none: the next request starts right behind the head.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// So many as come until its end: the chunked coding, or a stream of HTTP/2.
    Chunked,
}
