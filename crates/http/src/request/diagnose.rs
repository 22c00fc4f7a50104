//! Names the fault of a head that did not parse. Only rejected requests come here.

use crate::{Rejection, Status};

/// Whether a byte may stand in a token (RFC 9110 §5.6.2).
pub(super) const fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9'
        | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+'
        | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// The most telling thing that is wrong with `head`, which `httparse` refused with `error`.
#[cold]
pub(super) fn fault(head: &[u8], error: httparse::Error) -> Rejection {
    if let Some(reason) = forbidden_byte(head) {
        return Rejection::malformed(reason);
    }
    if let Some(reason) = head.split(|&b| b == b'\n').skip(1).find_map(field_fault) {
        return Rejection::malformed(reason);
    }
    match error {
        httparse::Error::TooManyHeaders => {
            Rejection::closing(Status::RequestHeaderFieldsTooLarge, "too_many_fields")
        }
        httparse::Error::Version if names_another_version(head) => {
            Rejection::closing(Status::VersionNotSupported, "version_not_supported")
        }
        httparse::Error::HeaderName => Rejection::malformed("field_name"),
        httparse::Error::HeaderValue => Rejection::malformed("field_value"),
        httparse::Error::Version
        | httparse::Error::Token
        | httparse::Error::NewLine
        | httparse::Error::Status => Rejection::malformed("request_line"),
    }
}

/// The first byte that may stand nowhere in a head.
fn forbidden_byte(head: &[u8]) -> Option<&'static str> {
    head.iter().enumerate().find_map(|(at, &byte)| match byte {
        0 => Some("nul"),
        b'\n' if at == 0 || head[at - 1] != b'\r' => Some("bare_lf"),
        b'\r' if head.get(at + 1) != Some(&b'\n') => Some("bare_cr"),
        b'\t' | b'\r' | b'\n' => None,
        0x01..=0x1f | 0x7f => Some("control_character"),
        _ => None,
    })
}

/// The fault of one field line.
fn field_fault(line: &[u8]) -> Option<&'static str> {
    if matches!(line, [b' ' | b'\t', ..]) {
        return Some("obs_fold");
    }
    let name = &line[..line.iter().position(|&b| b == b':')?];
    matches!(name, [.., b' ' | b'\t']).then_some("space_before_colon")
}

/// Whether the request line is whole but for a well-formed version that is not supported.
fn names_another_version(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut parts = line.split(|&b| b == b' ').skip(2);
    let version = parts.next().unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
        && !matches!(version, b"HTTP/1.0" | b"HTTP/1.1")
        && parts.next().is_none()
}
