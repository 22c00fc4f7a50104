//! The head of a response, read from bytes. Pure.
//!
//! As strict as the parser of requests in `penstock_http`: two programs must not read the same bytes differently. No bare
//! LF, no folded lines, no Content-Length beside Transfer-Encoding, no two lengths.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};

use crate::http::exchange::{fault_of_head, has_option};
use crate::http::fetch::Fetch;
use crate::http::settings::OriginLimits;

/// The most fields that fit the table on the stack.
const FIELDS_MAX: usize = 128;

const END: &[u8] = b"\r\n\r\n";

/// A response head.
#[derive(Debug)]
pub(in crate::http) struct Head {
    pub(in crate::http) status: u16,
    pub(in crate::http) fields: HeaderMap,
    /// Content-Length, also of a response without a body.
    pub(in crate::http) announced: Option<u64>,
    pub(super) delimiter: Delimiter,
    /// Whether the server keeps the connection open behind the body.
    pub(super) keeps_connection: bool,
}

impl Head {
    /// Whether a body follows.
    pub(super) fn has_body(&self) -> bool {
        self.delimiter != Delimiter::Length(0)
    }
}

/// How the end of the body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delimiter {
    /// By its length in bytes; 0 if the response has no body.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// The end of the first head in `bytes`, of which the first `scanned` have been looked at before.
pub(super) fn end_of_head(bytes: &[u8], scanned: usize) -> Option<usize> {
    let from = scanned.saturating_sub(END.len() - 1);
    let found = bytes.get(from..)?.windows(END.len()).position(|window| window == END)?;
    Some(from + found + END.len())
}

/// Reads a whole head, and checks that it answers the request. An interim response (1xx) has no body.
///
/// # Errors
/// What is wrong with it, for the log.
pub(super) fn parse(bytes: &[u8], fetch: &Fetch, limits: &OriginLimits) -> Result<Head, &'static str> {
    let mut table = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let most = limits.head_fields.min(FIELDS_MAX);
    let mut parsed = httparse::Response::new(&mut table[..most]);
    let complete = parsed.parse(bytes).map_err(|_| "its head is not HTTP/1.1")?;
    if complete != httparse::Status::Complete(bytes.len()) || has_bare_line_feed(bytes) {
        return Err("its head is not HTTP/1.1");
    }
    let is_1_1 = parsed.version == Some(1);
    let code = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("it has no status")?;
    let mut response = Response::new(());
    *response.status_mut() = code;
    let fields = response.headers_mut();
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| "a field has no name")?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| "a field is not text")?;
        fields.append(name, value);
    }
    if let Some(fault) = fault_of_head(&response, fetch, limits.head_bytes) {
        return Err(fault);
    }
    let announced = content_length(response.headers())?;
    let chunked = response.headers().contains_key(header::TRANSFER_ENCODING);
    if chunked && !is_1_1 {
        return Err("it sends chunks in HTTP/1.0");
    }
    let has_body = fetch.method != Method::HEAD && !matches!(code.as_u16(), 100..200 | 204 | 304);
    let delimiter = match (has_body, chunked, announced) {
        (false, ..) => Delimiter::Length(0),
        (true, true, _) => Delimiter::Chunked,
        (true, false, Some(length)) => Delimiter::Length(length),
        (true, false, None) => Delimiter::Close,
    };
    let says = |option: &str| has_option(response.headers(), option);
    let stays = if is_1_1 { !says("close") } else { says("keep-alive") && !says("close") };
    Ok(Head {
        status: code.as_u16(),
        keeps_connection: stays && delimiter != Delimiter::Close,
        announced,
        delimiter,
        fields: std::mem::take(response.headers_mut()),
    })
}

fn has_bare_line_feed(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .zip(std::iter::once(&0).chain(bytes))
        .any(|(byte, before)| *byte == b'\n' && *before != b'\r')
}

fn content_length(fields: &HeaderMap) -> Result<Option<u64>, &'static str> {
    const FAULT: &str = "its Content-Length is not one number below 2^63";
    // Larger than any body, and a head may be added to it.
    const LENGTH_MAX: u64 = i64::MAX as u64;
    let mut found = None;
    for value in fields.get_all(header::CONTENT_LENGTH) {
        let text = value.as_bytes().trim_ascii();
        let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let text = str::from_utf8(text).ok().filter(|_| digits);
        let length = text.and_then(|text| text.parse::<u64>().ok()).filter(|length| *length <= LENGTH_MAX);
        let length = length.ok_or(FAULT)?;
        if found.is_some_and(|before| before != length) {
            return Err(FAULT);
        }
        found = Some(length);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
