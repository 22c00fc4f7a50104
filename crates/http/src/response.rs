//! Writing a response head.

use std::fmt;
use std::io::Write as _;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;
use memchr::memchr;

use crate::Status;
use crate::digits::push_decimal;

/// The interim response that lets a client send the body it holds back (RFC 9110 §10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The last second that an HTTP date can name: 9999-12-31 23:59:59, in seconds since 1970.
const DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// Appends a response head to a buffer. The head is whole
/// only after [`finish`](Self::finish).
///
/// No value can break out of its line: control characters in it become spaces.
#[must_use = "a head without `finish` has no end"]
#[derive(Debug)]
pub struct HeadWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> HeadWriter<'o> {
    /// Begins a head with its status line.
    pub fn new(out: &'o mut Vec<u8>, status: Status) -> Self {
        out.extend_from_slice(status.line().as_bytes());
        Self { out }
    }

    /// Begins a head with any final status code. One that has no name here goes without a reason phrase, as RFC 9112
    /// §4 allows.
    pub fn with_code(out: &'o mut Vec<u8>, code: u16) -> Self {
        match Status::ALL.iter().find(|status| status.code() == code) {
            Some(status) => out.extend_from_slice(status.line().as_bytes()),
            None => {
                out.extend_from_slice(b"HTTP/1.1 ");
                push_decimal(out, u64::from(code));
                out.extend_from_slice(b" \r\n");
            }
        }
        Self { out }
    }

    /// Continues a head, or writes fields that become part of one.
    pub fn continuing(out: &'o mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Field lines that were parsed out of a message before, each with its line end.
    pub fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.out.extend_from_slice(lines);
        self
    }

    /// A field that was parsed out of a message before. Its value is given in two pieces.
    pub fn parsed_field(&mut self, name: &[u8], value: [&[u8]; 2]) -> &mut Self {
        for piece in [name, b": ", value[0], value[1]] {
            self.out.extend_from_slice(piece);
        }
        self.end_line()
    }

    /// A field that was parsed out of a message before, and whose value is a date.
    pub fn parsed_date(&mut self, name: &[u8], date: SystemTime) -> &mut Self {
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        self.write(date_within_range(date))
    }

    /// One field. `name` is the program's own; `value` may come from anywhere.
    pub fn field(&mut self, name: &'static str, value: impl AsRef<[u8]>) -> &mut Self {
        self.name(name);
        let start = self.out.len();
        self.out.extend_from_slice(value.as_ref());
        for byte in &mut self.out[start..] {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
        self.end_line()
    }

    /// One field whose value is text of the program's own, such as a number.
    pub fn display(&mut self, name: &'static str, value: impl fmt::Display) -> &mut Self {
        self.name(name);
        self.write(value)
    }

    /// One field whose value `write` appends: text of the program's own.
    pub fn text(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.name(name);
        write(self.out);
        self.end_line()
    }

    /// One field whose value is a number.
    pub fn number(&mut self, name: &'static str, number: u64) -> &mut Self {
        self.name(name);
        push_decimal(self.out, number);
        self.end_line()
    }

    /// Content-Length, in bytes.
    pub fn content_length(&mut self, length: u64) -> &mut Self {
        self.number("Content-Length", length)
    }

    /// Content-Range of a 206 with one range, of a representation of `length` bytes. `range` is not
    /// empty.
    pub fn content_range(&mut self, range: &Range<u64>, length: u64) -> &mut Self {
        self.name("Content-Range");
        self.out.extend_from_slice(b"bytes ");
        push_decimal(self.out, range.start);
        self.out.push(b'-');
        push_decimal(self.out, range.end.saturating_sub(1));
        self.out.push(b'/');
        push_decimal(self.out, length);
        self.end_line()
    }

    /// Content-Range of a 416: the representation has `length` bytes.
    pub fn content_range_unsatisfied(&mut self, length: u64) -> &mut Self {
        self.name("Content-Range");
        self.out.extend_from_slice(b"bytes */");
        push_decimal(self.out, length);
        self.end_line()
    }

    /// Date, from [`http_date`]: it changes once a second, so the caller keeps the text.
    pub fn date(&mut self, date: &str) -> &mut Self {
        self.field("Date", date)
    }

    /// Last-Modified.
    pub fn last_modified(&mut self, modified: SystemTime) -> &mut Self {
        self.name("Last-Modified");
        self.write(date_within_range(modified))
    }

    /// Ends the head with its empty line.
    pub fn finish(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    fn name(&mut self, name: &'static str) {
        debug_assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
    }

    /// Writes a value and ends its line.
    fn write(&mut self, value: impl fmt::Display) -> &mut Self {
        // Writing into a Vec cannot fail.
        let written = write!(self.out, "{value}");
        debug_assert!(written.is_ok());
        self.end_line()
    }

    fn end_line(&mut self) -> &mut Self {
        self.out.extend_from_slice(b"\r\n");
        self
    }
}

/// Names and values of the field lines that a [`HeadWriter`] has written, in order.
pub fn written_fields(mut lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (line, rest) = lines.split_at_checked(memchr(b'\n', lines)? + 1)?;
        lines = rest;
        let (name, value) = line.split_at_checked(memchr(b':', line)?)?;
        Some((name, value.get(1..)?.trim_ascii()))
    })
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
    use super::{CONTINUE, DATE_SECONDS_MAX, HeadWriter, etag, http_date, written_fields};
    use crate::Status;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn a_head_is_written_behind_what_is_there() {
        let mut out = CONTINUE.to_vec();
        let mut head = HeadWriter::new(&mut out, Status::PartialContent);
        head.date("Thu, 01 Jan 1970 00:00:00 GMT").content_length(100).content_range(&(0..100), 1000);
        head.field("ETag", "\"1\"").last_modified(UNIX_EPOCH + Duration::from_secs(784_111_777));
        head.finish();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 Partial Content\r\n\
             Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 100\r\nContent-Range: bytes 0-99/1000\r\n\
             ETag: \"1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
    }

    #[test]
    fn fields_are_read_back_as_they_were_written() {
        let mut out = Vec::new();
        let mut head = HeadWriter::continuing(&mut out);
        head.field("ETag", "\"a:b\"").lines(b"x-custom: \xffkept \r\nx-empty:\r\n").field("Allow", "");
        let expected: [(&[u8], &[u8]); 4] =
            [(b"ETag", b"\"a:b\""), (b"x-custom", b"\xffkept"), (b"x-empty", b""), (b"Allow", b"")];
        assert_eq!(written_fields(&out).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_unsatisfied_range_names_the_length() {
        let mut out = Vec::new();
        let mut head = HeadWriter::new(&mut out, Status::RangeNotSatisfiable);
        head.content_range_unsatisfied(0);
        head.finish();
        assert_eq!(out, b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n\r\n");
    }

    #[test]
    fn a_value_cannot_break_out_of_its_line() {
        let mut out = Vec::new();
        let mut head = HeadWriter::new(&mut out, Status::MovedPermanently);
        head.field("Location", "/a\r\nSet-Cookie: x=1\r\n\r\n<html>\0\x7f");
        head.finish();
        assert_eq!(
            out,
            b"HTTP/1.1 301 Moved Permanently\r\nLocation: /a  Set-Cookie: x=1    <html>  \r\n\r\n"
        );
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
