//! From the bytes of a head to a [`Request`].

use std::mem::MaybeUninit;

use memchr::{memchr, memchr_iter};

use super::head::{METHOD_BYTES_MAX, request_line_start};
use super::host::Authority;
use super::known::KnownFields;
use super::line::{BodyFraming, HttpVersion, Method};
use super::target::TargetParts;
use super::{Request, diagnose, lines_in, target};
use crate::digits::decimal;
use crate::{HeadLimits, Rejection, Status, uri};

impl<'h> Request<'h> {
    /// Parses one whole head, as delimited by [`head_length`](super::head_length).
    ///
    /// Nothing is allocated unless the target is not in its normal form, or its path is percent-encoded.
    ///
    /// # Errors
    /// 400 for malformed syntax and for anything that leaves the framing in doubt (RFC 9112 §6.3,
    /// §11.2); 414 and 431 over a limit; 501 for a
    /// transfer coding other than chunked or an overlong method; 505 for another protocol version.
    pub fn parse(head: &'h [u8], limits: &HeadLimits) -> Result<Self, Rejection> {
        if head.len() > limits.head_bytes {
            return Err(Rejection::closing(Status::RequestHeaderFieldsTooLarge, "head_too_large"));
        }
        let start = request_line_start(head)?.ok_or(Rejection::malformed("incomplete_head"))?;
        let head = &head[start..];
        if memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r') {
            // httparse takes a bare LF for the end of a line.
            return Err(Rejection::malformed("bare_lf"));
        }
        let mut slots = [const { MaybeUninit::uninit() }; HeadLimits::FIELDS_CEILING];
        let slots = &mut slots[..limits.fields.min(HeadLimits::FIELDS_CEILING)];
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(head, slots) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(Rejection::malformed("incomplete_head")),
            Err(error) => return Err(diagnose::fault(head, error)),
        }
        let (Some(method), Some(raw_target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Rejection::malformed("incomplete_head"));
        };
        let version = if minor == 0 { HttpVersion::Http10 } else { HttpVersion::Http11 };
        let line = RequestLine { method: method_of(method)?, raw_target, version };
        if raw_target.len() > limits.target_bytes {
            return Err(Rejection::closing(Status::UriTooLong, "target_too_long"));
        }
        let lines_start = memchr(b'\n', head).map_or(head.len(), |end| end + 1);
        let fields = FieldValues::collect(parsed.headers)?;
        // Faults of the framing come first, since they close the connection.
        let body = fields.body(version)?;
        let target = target::split(line.method, raw_target).map_err(Rejection::malformed)?;
        let authority = fields.authority(version)?;
        Ok(assemble(&line, fields, Routing { body, target, authority }, &head[lines_start..]))
    }
}

/// The parts of a request head that a framing layer has validated (RFC 9113 §8.3, RFC 9114 §4.3).
#[derive(Clone, Copy, Debug)]
pub struct ValidatedHead<'h> {
    /// The version of HTTP.
    pub version: HttpVersion,
    /// `:method`
    pub method: &'h str,
    /// `:authority`, or Host in its place.
    pub authority: &'h str,
    /// `:path`; `None` for CONNECT.
    pub path: Option<&'h str>,
    /// Field lines, each `name: value\r\n`, without connection-specific fields. The host may be among them.
    pub lines: &'h [u8],
    /// How the body is delimited, as frames tell it.
    pub body: BodyFraming,
}

impl<'h> Request<'h> {
    /// The request of a validated head. It is the same as the request of an HTTP/1.1 head with these parts.
    ///
    /// # Errors
    /// As [`Self::parse`]. The connection can stay open after all of them.
    pub fn from_validated(head: &ValidatedHead<'h>, limits: &HeadLimits) -> Result<Self, Rejection> {
        let raw_target = head.path.unwrap_or(head.authority);
        let refused = |status, reason| Rejection { status, reason, close: false };
        if raw_target.len() > limits.target_bytes {
            return Err(refused(Status::UriTooLong, "target_too_long"));
        }
        let method = method_of(head.method)?;
        let target =
            target::split(method, raw_target).map_err(|reason| refused(Status::BadRequest, reason))?;
        if target.authority.is_some() && head.path.is_some() {
            // An absolute form, which names a second authority.
            return Err(refused(Status::BadRequest, "target_form"));
        }
        let authority =
            Authority::parse(head.authority).ok_or_else(|| refused(Status::BadRequest, "host"))?;
        let line = RequestLine { method, raw_target, version: head.version };
        let routing = Routing { body: head.body, target, authority };
        Ok(assemble(&line, FieldValues::of_lines(head.lines), routing, head.lines))
    }
}

/// The first line of a head.
struct RequestLine<'h> {
    method: Method<'h>,
    raw_target: &'h str,
    version: HttpVersion,
}

/// Where a request goes and where it ends.
struct Routing<'h> {
    body: BodyFraming,
    target: TargetParts<'h>,
    authority: Authority<'h>,
}

/// Puts line and fields together.
fn assemble<'h>(
    line: &RequestLine<'h>,
    fields: FieldValues<'h>,
    routing: Routing<'h>,
    field_lines: &'h [u8],
) -> Request<'h> {
    let Routing { body, target, authority } = routing;
    let keep_alive = fields.keep_alive(line.version);
    let (raw_path, query) = match target.path.starts_with('/') {
        true => (uri::normalise_path(target.path), target.query.map(uri::normalise)),
        false => (target.path.into(), target.query.map(Into::into)),
    };
    Request {
        method: line.method,
        version: line.version,
        raw_target: line.raw_target,
        raw_path,
        query,
        sent_path: target.path,
        authority: target.authority.unwrap_or(authority),
        body,
        keep_alive,
        // HTTP/1.0 knows no interim responses, and without a body there is nothing to wait for.
        expectation: match fields.expectation {
            _ if line.version == HttpVersion::Http10 => Expectation::None,
            Expectation::Continue if body == BodyFraming::None => Expectation::None,
            expectation => expectation,
        },
        known: fields.known,
        field_lines,
    }
}

fn method_of(name: &str) -> Result<Method<'_>, Rejection> {
    match name {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        "OPTIONS" => Ok(Method::Options),
        name if name.len() > METHOD_BYTES_MAX => {
            Err(Rejection::closing(Status::NotImplemented, "method_too_long"))
        }
        name => Ok(Method::Other(name)),
    }
}

/// Values of field lines, before the version gives them a meaning.
#[derive(Default)]
struct FieldValues<'h> {
    host: Option<&'h [u8]>,
    content_length: Option<&'h [u8]>,
    transfer_encoding: Option<&'h [u8]>,
    says_close: bool,
    says_keep_alive: bool,
    expectation: Expectation,
    known: KnownFields<'h>,
}

/// What the client expects before it sends its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expectation {
    #[default]
    None,
    Continue,
    Unknown,
}

impl<'h> FieldValues<'h> {
    fn collect(headers: &[httparse::Header<'h>]) -> Result<Self, Rejection> {
        let mut fields = Self::default();
        for header in headers {
            fields.add(header.name.as_bytes(), header.value).map_err(Rejection::malformed)?;
        }
        Ok(fields)
    }

    /// The values of lines whose framing has been validated: the fields of the framing have no meaning.
    fn of_lines(lines: &'h [u8]) -> Self {
        let mut fields = Self::default();
        for (name, value) in lines_in(lines) {
            if !matches!(name, b"host" | b"content-length") {
                // Only fields of the framing can be in doubt.
                let _never = fields.add(name, value);
            }
        }
        fields
    }

    /// Takes note of one field line. The error is the reason for a 400 that leaves the framing or the host
    /// in doubt.
    fn add(&mut self, name: &[u8], value: &'h [u8]) -> Result<(), &'static str> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let known = &mut self.known;
        match name.len() {
            4 if is("host") => once(&mut self.host, value, "repeated_host")?,
            5 if is("range") => single(&mut known.range, value),
            6 if is("expect") => self.expect(value),
            6 if is("origin") => first(&mut known.origin, value),
            7 if is("referer") => first(&mut known.referer, value),
            8 if is("if-range") => single(&mut known.if_range, value),
            8 if is("cdn-loop") => known.cdn_loop = true,
            8 if is("if-match") => first(&mut known.if_match, value),
            10 if is("connection") => self.connection(value),
            10 if is("early-data") => known.early_data = true,
            10 if is("user-agent") => first(&mut known.user_agent, value),
            11 if is("traceparent") => single(&mut known.traceparent, value),
            11 if is("cmcd-object") || is("cmcd-status") => known.cmcd = true,
            12 if is("cmcd-request") || is("cmcd-session") => known.cmcd = true,
            13 if is("if-none-match") => first(&mut known.if_none_match, value),
            14 if is("content-length") => {
                once(&mut self.content_length, value, "repeated_content_length")?;
            }
            15 if is("accept-encoding") => first(&mut known.accept_encoding, value),
            17 if is("if-modified-since") => single(&mut known.if_modified_since, value),
            17 if is("transfer-encoding") => {
                once(&mut self.transfer_encoding, value, "repeated_transfer_encoding")?;
            }
            19 if is("if-unmodified-since") => single(&mut known.if_unmodified_since, value),
            _ => {}
        }
        Ok(())
    }

    fn expect(&mut self, value: &[u8]) {
        let known = value.eq_ignore_ascii_case(b"100-continue") && self.expectation != Expectation::Unknown;
        self.expectation = if known { Expectation::Continue } else { Expectation::Unknown };
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.says_close |= option.eq_ignore_ascii_case(b"close");
            self.says_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn keep_alive(&self, version: HttpVersion) -> bool {
        !self.says_close && (version != HttpVersion::Http10 || self.says_keep_alive)
    }

    /// How the body is delimited. Every doubt is refused: request smuggling lives on doubts.
    fn body(&self, version: HttpVersion) -> Result<BodyFraming, Rejection> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(BodyFraming::None),
            (Some(_), Some(_)) => Err(Rejection::malformed("content_length_and_transfer_encoding")),
            (Some(_), None) if version == HttpVersion::Http10 => {
                Err(Rejection::malformed("transfer_encoding_in_http_10"))
            }
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(BodyFraming::Chunked),
            (Some(_), None) => Err(Rejection::closing(Status::NotImplemented, "unknown_transfer_encoding")),
            (None, Some(digits)) => match decimal(digits) {
                None => Err(Rejection::malformed("content_length")),
                Some(0) => Ok(BodyFraming::None),
                Some(length) => Ok(BodyFraming::Length(length)),
            },
        }
    }

    /// The authority of the Host field. It is checked even where that of the target will win.
    fn authority(&self, version: HttpVersion) -> Result<Authority<'h>, Rejection> {
        let Some(value) = self.host else {
            return match version {
                HttpVersion::Http10 => Ok(Authority::default()),
                HttpVersion::Http11 | HttpVersion::Http2 | HttpVersion::Http3 => {
                    Err(Rejection::malformed("no_host"))
                }
            };
        };
        std::str::from_utf8(value).ok().and_then(Authority::parse).ok_or(Rejection::malformed("host"))
    }
}

fn once<'h>(
    slot: &mut Option<&'h [u8]>,
    value: &'h [u8],
    repeated: &'static str,
) -> Result<(), &'static str> {
    if slot.replace(value).is_some() { Err(repeated) } else { Ok(()) }
}

fn first<'h>(slot: &mut Option<&'h str>, value: &'h [u8]) {
    if slot.is_none() {
        *slot = Some(text(value));
    }
}

/// A field that has no list. Repeated, it is present and matches nothing: a Range and a date that are no single value are
/// ignored (RFC 9110 §13.1.3, §14.2), and an If-Range holds for nothing.
fn single<'h>(slot: &mut Option<&'h str>, value: &'h [u8]) {
    *slot = Some(if slot.is_none() { text(value) } else { "" });
}

fn text(value: &[u8]) -> &str {
    std::str::from_utf8(value).unwrap_or_default()
}
