//! One request head, parsed once into a type that cannot be wrong (RFC 9112 §2-3, §5-6).

mod diagnose;
mod head;
mod host;
mod parse;
mod path;
mod target;

pub use head::head_length;
pub use path::{Path, PathFault};

use crate::{Encoding, HeadLimits};

/// A request head that passed every check. It borrows the bytes it was parsed from.
///
/// A field value that is not UTF-8 reads as the empty string: present, and matching nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'h> {
    method: Method<'h>,
    version: Version,
    raw_target: &'h str,
    raw_path: &'h str,
    query: Option<&'h str>,
    path: Result<Path<'h>, PathFault>,
    host: &'h str,
    body: RequestBody,
    keep_alive: bool,
    expect_continue: bool,
    known: Known<'h>,
    field_lines: &'h [u8],
}

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

/// The protocol version of a request. Anything else is rejected with 505.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How the body that follows the head is delimited (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// There is none: the next request starts right behind the head.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// Values of the fields that somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known<'h> {
    range: Option<&'h str>,
    if_range: Option<&'h str>,
    if_match: Option<&'h str>,
    if_none_match: Option<&'h str>,
    if_modified_since: Option<&'h str>,
    if_unmodified_since: Option<&'h str>,
    accept_encoding: Option<&'h str>,
    origin: Option<&'h str>,
    user_agent: Option<&'h str>,
    referer: Option<&'h str>,
    early_data: bool,
}

impl<'h> Request<'h> {
    /// The method.
    pub const fn method(&self) -> Method<'h> {
        self.method
    }

    /// The protocol version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The host the client wants, without port and without a final dot; the authority of an
    /// absolute-form target wins over Host (RFC 9112 §3.2.2). Compare it without regard to ASCII
    /// case. Empty if HTTP/1.0 named none or if Host was sent empty. An IPv6 address keeps its brackets.
    pub const fn host(&self) -> &'h str {
        self.host
    }

    /// The file that is asked for, or why no file can have that name: answer 404 then, and keep the
    /// connection.
    pub fn path(&self) -> Result<&Path<'h>, PathFault> {
        self.path.as_ref().map_err(|&fault| fault)
    }

    /// The request target exactly as it was sent: for logs and for asking an origin.
    pub const fn raw_target(&self) -> &'h str {
        self.raw_target
    }

    /// The path part of the target as it was sent, still percent-encoded, without query; it starts
    /// with `/` unless [`path`](Self::path) says [`PathFault::NotAPath`].
    pub const fn raw_path(&self) -> &'h str {
        self.raw_path
    }

    /// What stands behind the first `?` of the target.
    pub const fn query(&self) -> Option<&'h str> {
        self.query
    }

    /// The same request for another path and query, as if they stood in its target. [`raw_target`](Self::raw_target)
    /// stays what was sent.
    pub fn with_target<'b>(&self, raw_path: &'b str, query: Option<&'b str>) -> Request<'b>
    where
        'h: 'b,
    {
        let request: Request<'b> = self.clone();
        Request { raw_path, query, path: Path::parse(raw_path), ..request }
    }

    /// Whether this is `OPTIONS *`: a question about the server as a whole.
    pub fn is_server_wide(&self) -> bool {
        self.method == Method::Options && self.raw_path == "*"
    }

    /// How the body is delimited. It must be read (or the connection closed) before the next request.
    pub const fn body(&self) -> RequestBody {
        self.body
    }

    /// Whether the client lets the connection live on after this request (RFC 9112 §9.3).
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client holds a body back until it sees `100 Continue` (RFC 9110 §10.1.1).
    pub const fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// Range, for [`range::select`](crate::range::select).
    pub const fn range(&self) -> Option<&'h str> {
        self.known.range
    }

    /// If-Range.
    pub const fn if_range(&self) -> Option<&'h str> {
        self.known.if_range
    }

    /// If-Match: its first line.
    pub const fn if_match(&self) -> Option<&'h str> {
        self.known.if_match
    }

    /// If-None-Match: its first line.
    pub const fn if_none_match(&self) -> Option<&'h str> {
        self.known.if_none_match
    }

    /// If-Modified-Since.
    pub const fn if_modified_since(&self) -> Option<&'h str> {
        self.known.if_modified_since
    }

    /// If-Unmodified-Since.
    pub const fn if_unmodified_since(&self) -> Option<&'h str> {
        self.known.if_unmodified_since
    }

    /// Accept-Encoding: its first line. Further lines could only add choices.
    pub const fn accept_encoding(&self) -> Option<&'h str> {
        self.known.accept_encoding
    }

    /// Origin: its first line.
    pub const fn origin(&self) -> Option<&'h str> {
        self.known.origin
    }

    /// User-Agent: its first line, for logs.
    pub const fn user_agent(&self) -> Option<&'h str> {
        self.known.user_agent
    }

    /// Referer: its first line, for logs.
    pub const fn referer(&self) -> Option<&'h str> {
        self.known.referer
    }

    /// Whether somebody in front of us says that this came as early data and may be a replay: Early-Data, whose only
    /// value is 1 (RFC 8470 §5.1).
    pub const fn came_early(&self) -> bool {
        self.known.early_data
    }

    /// Every field line as it was sent: name in the client's spelling, value without the white
    /// space around it.
    pub fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> + use<'h> {
        self.field_lines.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            Some((name, line[colon + 1..].trim_ascii()))
        })
    }

    /// The values of all lines of one field, in order. `name` in any case.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.fields().filter(move |(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The body of the fuzz target `request_head`: no input may panic, and a head fed in two pieces must
/// be judged as it is when fed at once.
#[doc(hidden)]
pub fn fuzz_request_head(input: &[u8]) {
    let limits = HeadLimits { head_bytes: 1024, fields: 16, target_bytes: 256 };
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = head_length(bytes, 0, &limits);
    let cut = usize::from(cut).min(bytes.len());
    let in_two = match head_length(&bytes[..cut], 0, &limits) {
        Ok(None) => head_length(bytes, cut, &limits),
        decided => decided,
    };
    assert_eq!(whole, in_two);
    let Ok(Some(length)) = whole else { return };
    let Ok(request) = Request::parse(&bytes[..length], &limits) else { return };
    if let Ok(path) = request.path() {
        path.assert_safe();
    }
    let now = std::time::SystemTime::UNIX_EPOCH;
    crate::conditional::evaluate(&request, &crate::conditional::Validators { etag: "\"1\"", modified: now });
    crate::range::select(request.range(), u64::from(bytes[0]), 16);
    crate::encoding::negotiate(request.accept_encoding(), &[Encoding::Brotli, Encoding::Gzip]);
    let mut skipper = crate::body::BodySkipper::new(request.body(), 1 << 16);
    if let Ok(skipped) = skipper.skip(&bytes[length..]) {
        assert!(skipped.done || skipped.consumed == bytes.len() - length);
    }
}

#[cfg(test)]
mod tests;
