//! Where a request head ends.

use memchr::{memchr, memchr_iter};

use super::diagnose;
use crate::{HeadLimits, Rejection, Status};

/// Longest method name that is read; none that is registered comes near.
pub(super) const METHOD_BYTES_MAX: usize = 32;

/// Empty lines before the request line that are forgiven (RFC 9112 §2.2).
const EMPTY_LINES_MAX: usize = 4;

/// Finds the end of the head that `bytes` starts with: `Ok(Some(length))` with its length including
/// any empty lines in front (RFC 9112 §2.2 lets clients send some; four are forgiven), or
/// `Ok(None)` if more bytes are needed.
///
/// `already_scanned` is the length of `bytes` at the previous call for the same head, 0 at first;
/// with it the work is linear in the length of the head however small the pieces are. The answer
/// does not depend on how the bytes were split.
///
/// # Errors
/// 431 if the head does not end within `limits.head_bytes`, 414 if not even its first line fits, 400
/// for a bare LF and for bytes that cannot be the start of a request, so that garbage (or TLS on the plain
/// port) is answered at once instead of after a deadline.
pub fn head_length(
    bytes: &[u8],
    already_scanned: usize,
    limits: &HeadLimits,
) -> Result<Option<usize>, Rejection> {
    let Some(start) = request_line_start(bytes)? else { return Ok(None) };

    // The last place at which the LF of the longest request line can stand.
    let line_end_max = start + METHOD_BYTES_MAX + 1 + limits.target_bytes + " HTTP/1.1\r".len();
    let line_end_max = line_end_max.min(limits.head_bytes.saturating_sub(1).max(start));
    if bytes.len() > line_end_max
        && already_scanned <= line_end_max
        && memchr(b'\n', &bytes[start..=line_end_max]).is_none()
    {
        return Err(Rejection::closing(Status::UriTooLong, "request_line_too_long"));
    }

    let window = &bytes[..bytes.len().min(limits.head_bytes)];
    let from = already_scanned.max(start).min(window.len());
    for offset in memchr_iter(b'\n', &window[from..]) {
        // The byte at `start` is not a line break, so there are always bytes before this one.
        let before = &window[start..from + offset];
        if !before.ends_with(b"\r") {
            return Err(Rejection::malformed("bare_lf"));
        }
        if before.ends_with(b"\n\r") {
            return Ok(Some(from + offset + 1));
        }
    }
    if bytes.len() >= limits.head_bytes {
        return Err(Rejection::closing(Status::RequestHeaderFieldsTooLarge, "head_too_large"));
    }
    Ok(None)
}

/// Skips the empty lines before a request line, and checks that one can follow.
/// `None`: more bytes are needed.
pub(super) fn request_line_start(bytes: &[u8]) -> Result<Option<usize>, Rejection> {
    let mut start = 0;
    for _ in 0..EMPTY_LINES_MAX {
        if !bytes[start..].starts_with(b"\r\n") {
            break;
        }
        start += 2;
    }
    match bytes[start..] {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Err(Rejection::malformed("empty_lines")),
        [b'\r', ..] => Err(Rejection::malformed("bare_cr")),
        [b'\n', ..] => Err(Rejection::malformed("bare_lf")),
        [0x16, ..] => Err(Rejection::malformed("tls_on_plain_port")),
        [first, ..] if !diagnose::is_token_byte(first) => Err(Rejection::malformed("not_http")),
        _ => Ok(Some(start)),
    }
}
