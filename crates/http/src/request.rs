//! One request head, parsed once into a type that cannot be wrong (RFC 9112 §2-3, §5-6; RFC 9113 §8.3).

mod diagnose;
mod head;
mod host;
mod known;
mod line;
mod parse;
mod path;
mod target;
mod trace_context;

pub use head::head_length;
pub use line::{BodyFraming, HttpVersion, Method};
use parse::Expectation;
pub use parse::ValidatedHead;
pub use path::{Path, PathFault};

use std::borrow::Cow;

use host::Authority;
use known::KnownFields;

/// A request head that passed every check. It borrows the bytes it was parsed from.
///
/// A field value that is not UTF-8 reads as the empty string: present, and matching nothing. So do two lines of a field that
/// has no list: Range, If-Range, If-Modified-Since and If-Unmodified-Since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'h> {
    method: Method<'h>,
    version: HttpVersion,
    raw_target: &'h str,
    raw_path: Cow<'h, str>,
    query: Option<Cow<'h, str>>,
    /// The path part of the target as it was sent. What it means is read where it is asked for: few requests need both
    /// meanings.
    sent_path: &'h str,
    authority: Authority<'h>,
    body: BodyFraming,
    keep_alive: bool,
    expectation: Expectation,
    known: KnownFields<'h>,
    field_lines: &'h [u8],
}

impl<'h> Request<'h> {
    /// The method.
    pub const fn method(&self) -> Method<'h> {
        self.method
    }

    /// The protocol version.
    pub const fn version(&self) -> HttpVersion {
        self.version
    }

    /// The host the client wants, without port and without a final dot; the authority of an
    /// absolute-form target wins over Host (RFC 9112 §3.2.2). Compare it without regard to ASCII
    /// case. Empty if HTTP/1.0 named none or if Host was sent empty. An IPv6 address keeps its brackets.
    pub const fn host(&self) -> &'h str {
        self.authority.host
    }

    /// The host with its port, as sent, as an origin is told which authority the client asked. Empty where
    /// [`host`](Self::host) is.
    pub const fn authority(&self) -> &'h str {
        self.authority.text
    }

    /// The file that is asked for, or why no file can have that name: answer 404 then, and keep the
    /// connection. As it was sent: a dot segment is no file name.
    ///
    /// # Errors
    /// Why no file can have that name.
    pub fn file_path(&self) -> Result<Path<'h>, PathFault> {
        Path::parse(self.sent_path)
    }

    /// What an origin is asked for: [`raw_path`](Self::raw_path), or why it can stand in no request.
    pub fn url_path(&self) -> Result<&str, PathFault> {
        path::url_fault(self.sent_path).map_or_else(|| Ok(self.raw_path()), Err)
    }

    /// The request target exactly as it was sent: for logs only, since equivalent targets differ in it.
    pub const fn raw_target(&self) -> &'h str {
        self.raw_target
    }

    /// The path part of the target in its [normal form](crate::uri::normalise_path), still percent-encoded, without query and
    /// dot segments; it starts with `/` unless [`url_path`](Self::url_path) says [`PathFault::NotAPath`].
    pub fn raw_path(&self) -> &str {
        &self.raw_path
    }

    /// The part of the target behind its first `?`, in its [normal form](crate::uri::normalise).
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The same request for another path and query, both in their [normal form](crate::uri::normalise).
    /// [`raw_target`](Self::raw_target) stays as it was sent.
    pub fn with_target<'b>(&self, raw_path: &'b str, query: Option<&'b str>) -> Request<'b>
    where
        'h: 'b,
    {
        let request: Request<'b> = self.clone();
        Request {
            raw_path: Cow::Borrowed(raw_path),
            query: query.map(Cow::Borrowed),
            sent_path: raw_path,
            ..request
        }
    }

    /// Whether this is `OPTIONS *`: a question about the server as a whole.
    pub fn is_server_wide(&self) -> bool {
        self.method == Method::Options && self.raw_path == "*"
    }

    /// How the body is delimited. It must be read (or the connection closed) before the next request.
    pub const fn body(&self) -> BodyFraming {
        self.body
    }

    /// Whether the client lets the connection live on after this request (RFC 9112 §9.3).
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client holds a body back until it sees `100 Continue` (RFC 9110 §10.1.1).
    pub const fn expect_continue(&self) -> bool {
        matches!(self.expectation, Expectation::Continue)
    }

    /// Whether the client expects something else than `100 Continue`: answer 417 (RFC 9110 §10.1.1).
    pub const fn has_unknown_expectation(&self) -> bool {
        matches!(self.expectation, Expectation::Unknown)
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

    /// The id of the trace that the request belongs to, as 32 lower-case hexadecimal digits: from `traceparent` (W3C Trace
    /// Context §3.2), unless it is repeated or not valid.
    pub fn trace_id(&self) -> Option<&'h str> {
        self.known.traceparent.and_then(trace_context::trace_id)
    }

    /// Whether a proxy in front received this request as early data, so that it may be a replay: Early-Data, whose only
    /// value is 1 (RFC 8470 §5.1).
    pub const fn came_early(&self) -> bool {
        self.known.early_data
    }

    /// Whether the request has passed through another CDN, or this one: CDN-Loop (RFC 8586).
    pub const fn has_cdn_loop(&self) -> bool {
        self.known.cdn_loop
    }

    /// Whether a player says something of itself in a field, which [`Cmcd`](crate::cmcd::Cmcd) reads.
    pub const fn has_cmcd_field(&self) -> bool {
        self.known.cmcd
    }

    /// Every field line as it was sent but Host, which [`authority`](Self::authority) replaces: name in the client's
    /// spelling, value without the white space around it.
    pub fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> + use<'h> {
        let lines = lines_in(self.field_lines).filter(|(name, _)| !is_host(name));
        lines.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)))
    }

    /// The values of all lines of one field, in order. `name` in any case.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        let is_it = move |given: &[u8]| given.eq_ignore_ascii_case(name.as_bytes());
        let lines = lines_in(self.field_lines).filter(move |(given, _)| is_it(given) && !is_host(given));
        lines.map(|(_, value)| value)
    }
}

/// Names and values of field lines.
fn lines_in<'h>(mut lines: &'h [u8]) -> impl Iterator<Item = (&'h [u8], &'h [u8])> + use<'h> {
    let next = move || {
        let end = memchr::memchr(b'\n', lines)?;
        let (line, rest) = lines.split_at(end);
        lines = &rest[1..];
        Some(line)
    };
    std::iter::from_fn(next).filter_map(|line| {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        Some((name, value[1..].trim_ascii()))
    })
}

fn is_host(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"host")
}

#[cfg(test)]
mod tests;
