//! The framing of multipart/byteranges (RFC 9110 §14.6, RFC 2046 §5.1).

use std::ops::Range;

use crate::digits::{decimal_length, push_decimal};

const BOUNDARY_BYTES: usize = 16;
const OPEN: &str = "\r\n--";
const CONTENT_TYPE: &str = "\r\nContent-Type: ";
const CONTENT_RANGE: &str = "\r\nContent-Range: bytes ";
const HEAD_END: &str = "\r\n\r\n";
const CLOSE: &str = "--\r\n";

/// The line that separates the parts. It must not occur in the content, so it is made from a random
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary([u8; BOUNDARY_BYTES]);

/// One multipart body: the caller writes, for each range in turn, the part's head and then the bytes
/// of the range, and the closing delimiter behind the last.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    boundary: Boundary,
    content_type: &'a str,
    length: u64,
    ranges: &'a [Range<u64>],
}

impl Boundary {
    /// The boundary for a number that the caller took at random.
    pub fn new(random: u64) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0; BOUNDARY_BYTES];
        for (pair, byte) in bytes.chunks_exact_mut(2).zip(random.to_be_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        Self(bytes)
    }
}

impl<'a> Multipart<'a> {
    /// A body of the given ranges of a representation of `length` bytes, whose type is `content_type`.
    pub const fn new(
        boundary: Boundary,
        content_type: &'a str,
        length: u64,
        ranges: &'a [Range<u64>],
    ) -> Self {
        Self { boundary, content_type, length, ranges }
    }

    /// The value of the response's Content-Type field.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", String::from_utf8_lossy(&self.boundary.0))
    }

    /// The bytes of the whole body, for the response's Content-Length field.
    pub fn content_length(&self) -> u64 {
        let closing = OPEN.len() + BOUNDARY_BYTES + CLOSE.len();
        self.ranges.iter().enumerate().fold(closing as u64, |sum, (index, range)| {
            sum.saturating_add(self.part_head_length(index, range))
                .saturating_add(range.end.saturating_sub(range.start))
        })
    }

    /// Appends the head of the part that carries `ranges[index]`.
    pub fn write_part_head(&self, out: &mut Vec<u8>, index: usize) {
        let Some(range) = self.ranges.get(index) else { return };
        out.extend_from_slice(opening(index).as_bytes());
        out.extend_from_slice(&self.boundary.0);
        out.extend_from_slice(CONTENT_TYPE.as_bytes());
        out.extend_from_slice(self.content_type.as_bytes());
        out.extend_from_slice(CONTENT_RANGE.as_bytes());
        push_decimal(out, range.start);
        out.push(b'-');
        push_decimal(out, range.end.saturating_sub(1));
        out.push(b'/');
        push_decimal(out, self.length);
        out.extend_from_slice(HEAD_END.as_bytes());
    }

    /// Appends the closing delimiter.
    pub fn write_closing(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(OPEN.as_bytes());
        out.extend_from_slice(&self.boundary.0);
        out.extend_from_slice(CLOSE.as_bytes());
    }

    fn part_head_length(&self, index: usize, range: &Range<u64>) -> u64 {
        let fixed = opening(index).len()
            + BOUNDARY_BYTES
            + CONTENT_TYPE.len()
            + self.content_type.len()
            + CONTENT_RANGE.len()
            + "-/".len()
            + HEAD_END.len();
        fixed as u64
            + decimal_length(range.start)
            + decimal_length(range.end.saturating_sub(1))
            + decimal_length(self.length)
    }
}

/// The bytes before a part's boundary. The line break belongs to the delimiter; in front of the first
/// one there is nothing to break.
fn opening(index: usize) -> &'static str {
    if index == 0 { &OPEN[2..] } else { OPEN }
}

#[cfg(test)]
mod tests {
    use super::{Boundary, Multipart};

    #[test]
    fn parts_are_framed_as_the_rfc_shows() {
        let ranges = [0..5, 100..1100];
        let parts = Multipart::new(Boundary::new(0x0123_4567_89ab_cdef), "video/mp4", 8000, &ranges);
        let mut body = Vec::new();
        for index in 0..ranges.len() {
            parts.write_part_head(&mut body, index);
            body.extend_from_slice(b"<>");
        }
        parts.write_closing(&mut body);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            "--0123456789abcdef\r\nContent-Type: video/mp4\r\nContent-Range: bytes 0-4/8000\r\n\r\n<>\
             \r\n--0123456789abcdef\r\nContent-Type: video/mp4\r\nContent-Range: bytes 100-1099/8000\r\n\r\n<>\
             \r\n--0123456789abcdef--\r\n"
        );
        assert_eq!(parts.content_type(), "multipart/byteranges; boundary=0123456789abcdef");
    }

    #[test]
    fn the_content_length_is_the_length_of_what_is_written() {
        for ranges in [vec![0..1, 5..6], vec![9..10, 99..100, 0..9], vec![1..1_000_000, 2_000_000..2_000_001]]
        {
            let parts = Multipart::new(Boundary::new(7), "text/plain", 10_000_000_000, &ranges);
            let mut framing = Vec::new();
            (0..ranges.len()).for_each(|index| parts.write_part_head(&mut framing, index));
            parts.write_closing(&mut framing);
            let content: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert_eq!(parts.content_length(), framing.len() as u64 + content);
        }
    }

    #[test]
    fn boundaries_differ_where_the_numbers_do() {
        assert_ne!(Boundary::new(1), Boundary::new(1 << 60));
        assert_eq!(Boundary::new(u64::MAX).0, *b"ffffffffffffffff");
    }
}
