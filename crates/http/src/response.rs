//! The head of a response.

mod fields;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

use crate::Status;
use crate::digits::push_decimal;
use fields::separate;
pub use fields::{FieldIter, Fields};

/// The interim response that lets a client send the body it holds back (RFC 9110 §10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The last second that an HTTP date can name: 9999-12-31 23:59:59, in seconds since 1970.
const DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// The head of a response, for any version of HTTP. How the end of the content is told is up to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// Fields, without those of the connection.
    pub fields: Fields,
}

impl ResponseHead {
    /// A head without fields, with space for those of a usual response.
    pub fn new(status: u16) -> Self {
        Self { status, fields: Fields::new() }
    }

    /// The head in HTTP/1 (RFC 9112 §4, §5), with its empty line. `add` appends the fields of the connection, which come
    /// first. A status that has no name here goes without a reason phrase, as RFC 9112 §4 allows.
    pub fn into_http1(self, add: impl FnOnce(&mut Fields)) -> Vec<u8> {
        let mut out = self.fields.into_bytes();
        let fields = out.len();
        // Written behind the fields and moved to the front: cheaper than a second buffer.
        match Status::ALL.iter().find(|status| status.code() == self.status) {
            Some(status) => out.extend_from_slice(status.line().trim_ascii_end().as_bytes()),
            None => {
                out.extend_from_slice(b"HTTP/1.1 ");
                push_decimal(&mut out, u64::from(self.status));
                out.push(b' ');
            }
        }
        let own = out.len();
        let mut added = Fields::from_bytes(out);
        add(&mut added);
        let mut out = added.into_bytes();
        separate(&mut out[..fields]);
        separate(&mut out[own..]);
        out.rotate_left(fields);
        out.extend_from_slice(b"\r\n\r\n");
        out
    }
}

/// A time as Date and Last-Modified have it (RFC 9110 §5.6.7). A time that no HTTP date can name, as
/// file systems may hold, becomes the nearest one that can.
pub fn http_date(time: SystemTime) -> String {
    date_within_range(time).to_string()
}

/// A strong entity tag, with its quotes, for the state of a file: `size` in bytes, time of the last
/// change to the nanosecond, and inode, so that a file replaced within one tick is still told apart.
pub fn etag(size: u64, mtime: SystemTime, inode: u64) -> String {
    // Written digit by digit: with `format!` it took a fortieth of the time of a small response.
    let mut tag = String::with_capacity(ETAG_SPACE_BYTES);
    tag.push('"');
    push_hexadecimal(&mut tag, u128::from(size));
    tag.push('-');
    match mtime.duration_since(UNIX_EPOCH) {
        Ok(since) => push_hexadecimal(&mut tag, since.as_nanos()),
        Err(before) => {
            tag.push('b');
            push_hexadecimal(&mut tag, before.duration().as_nanos());
        }
    }
    tag.push('-');
    push_hexadecimal(&mut tag, u128::from(inode));
    tag.push('"');
    tag
}

/// Capacity for the usual tag and the name of an encoding.
const ETAG_SPACE_BYTES: usize = 64;

/// Lower case, without leading zeros.
fn push_hexadecimal(out: &mut String, mut number: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; u128::BITS as usize / 4];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = DIGITS[usize::from(number.to_le_bytes()[0] & 0xf)];
        number >>= 4;
        if number == 0 {
            break;
        }
    }
    out.push_str(str::from_utf8(&text[start..]).unwrap_or_default());
}

fn date_within_range(time: SystemTime) -> HttpDate {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.min(DATE_SECONDS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::{DATE_SECONDS_MAX, ResponseHead, etag, http_date};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn a_head_of_http_1_has_its_status_the_fields_of_its_connection_and_its_own() {
        let mut head = ResponseHead::new(206);
        head.fields.content_range(&(0..100), 1000).field("ETag", "\"1\"");
        head.fields.last_modified(UNIX_EPOCH + Duration::from_secs(784_111_777));
        let text = head.into_http1(|own| {
            own.field("Date", "Thu, 01 Jan 1970 00:00:00 GMT").content_length(100);
        });
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "HTTP/1.1 206 Partial Content\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 100\r\n\
             Content-Range: bytes 0-99/1000\r\nETag: \"1\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
    }

    #[test]
    fn a_head_of_http_1_ends_also_without_fields_and_without_a_known_status() {
        for (status, expected) in
            [(200, "HTTP/1.1 200 OK\r\n\r\n"), (299, "HTTP/1.1 299 \r\n\r\n"), (999, "HTTP/1.1 999 \r\n\r\n")]
        {
            assert_eq!(ResponseHead::new(status).into_http1(|_| {}), expected.as_bytes());
        }
        let mut head = ResponseHead::new(416);
        head.fields.content_range_unsatisfied(0);
        let expected = b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n\r\n";
        assert_eq!(head.into_http1(|_| {}), expected);
    }

    #[test]
    fn times_that_no_http_date_can_name_become_the_nearest() {
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(5)), "Thu, 01 Jan 1970 00:00:00 GMT");
        let last = UNIX_EPOCH + Duration::from_secs(DATE_SECONDS_MAX);
        assert_eq!(http_date(last), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(http_date(last + Duration::from_secs(1 << 40)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn an_etag_is_size_time_and_inode_in_hexadecimal() {
        assert_eq!(etag(0, UNIX_EPOCH, 0), "\"0-0-0\"");
        assert_eq!(etag(0x1f0, UNIX_EPOCH + Duration::from_nanos(0xa0b), 16), "\"1f0-a0b-10\"");
        assert_eq!(
            etag(u64::MAX, UNIX_EPOCH - Duration::from_nanos(9), u64::MAX),
            "\"ffffffffffffffff-b9-ffffffffffffffff\""
        );
    }

    #[test]
    fn every_change_of_a_file_changes_its_etag() {
        let now: SystemTime = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        let tag = etag(1000, now, 42);
        assert!(tag.starts_with('"') && tag.ends_with('"'));
        assert_eq!(tag, etag(1000, now, 42));
        for other in [
            etag(1001, now, 42),
            etag(1000, now + Duration::from_nanos(1), 42),
            etag(1000, now, 43),
            etag(1000, UNIX_EPOCH - Duration::from_nanos(1), 42),
        ] {
            assert_ne!(tag, other);
        }
        let after = UNIX_EPOCH + Duration::from_secs(9);
        let before = UNIX_EPOCH - Duration::from_secs(9);
        assert_ne!(etag(1, after, 1), etag(1, before, 1));
    }
}
