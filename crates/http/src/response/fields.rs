//! The fields of a message, for any version of HTTP.

use std::fmt;
use std::ops::Range;
use std::time::SystemTime;

use super::date_within_range;
use crate::digits::push_decimal;

/// Space for a usual response head in bytes, with what its connection adds, so that it is written without growing.
const HEAD_BYTES: usize = 704;

/// Bytes of a length.
const LENGTH_BYTES: usize = size_of::<u16>();

/// Fields in the order in which they are sent.
///
/// Each field is the length of its name, its name, the length of its value, and its value, in one block of memory. The
/// lengths take the space of the separators of HTTP/1, so that a head of HTTP/1 is made in place
/// ([`ResponseHead::into_http1`](super::ResponseHead::into_http1)), and HPACK and QPACK read names and values without looking
/// for them ([`iter`](Self::iter)).
///
/// A name or value of more than 65,535 bytes has no place here: its field is left out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Whether one of them is Date.
    has_date: bool,
    /// Whether they say themselves what Server is, or that there is none.
    decides_server: bool,
}

impl Fields {
    /// No fields, with space for those of a usual response.
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(HEAD_BYTES), ..Self::default() }
    }

    /// Reads lines as [`to_lines`](Self::to_lines) writes them. `None` if they are not that, or if a name or value could not be
    /// sent (RFC 9110 §5.1, §5.5).
    pub fn from_lines(mut lines: &[u8]) -> Option<Self> {
        let mut fields = Self { bytes: Vec::with_capacity(lines.len()), ..Self::default() };
        while !lines.is_empty() {
            let (line, rest) = lines.split_at_checked(memchr::memchr(b'\n', lines)? + 1)?;
            let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
            let value = value.strip_prefix(b": ")?.strip_suffix(b"\r\n")?;
            let has_lengths = u16::try_from(name.len()).is_ok() && u16::try_from(value.len()).is_ok();
            if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) || !has_lengths {
                return None;
            }
            fields.parsed_field(name, [value, b""]);
            lines = rest;
        }
        Some(fields)
    }

    /// The fields as lines of HTTP/1 (RFC 9112 §5), each with its line end.
    pub fn to_lines(&self) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.bytes.len());
        for (name, value) in self.iter() {
            for piece in [name, b": ", value, b"\r\n"] {
                lines.extend_from_slice(piece);
            }
        }
        lines
    }

    /// Names and values, in order. Names may have any case.
    pub fn iter(&self) -> FieldIter<'_> {
        FieldIter { rest: &self.bytes }
    }

    /// Bytes that are equal for equal fields.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Whether there is a field of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there is a Date.
    pub fn has_date(&self) -> bool {
        self.has_date
    }

    /// Has the carrier add no Server of its own: these fields have one, or there is to be none.
    pub fn decide_server(&mut self) {
        self.decides_server = true;
    }

    /// Whether the carrier adds no Server of its own.
    pub fn decides_server(&self) -> bool {
        self.decides_server
    }

    /// Gives back memory that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Removes each field of whose name `is_removed` is true.
    pub fn remove(&mut self, is_removed: impl Fn(&[u8]) -> bool) {
        let mut at = 0;
        while let Some((name, value)) = (FieldIter { rest: &self.bytes[at..] }).next() {
            let end = at + 2 * LENGTH_BYTES + name.len() + value.len();
            if is_removed(name) {
                self.bytes.drain(at..end);
            } else {
                at = end;
            }
        }
        self.has_date = self.has_date && self.has("Date");
    }

    /// Appends all of these fields.
    pub fn extend(&mut self, fields: &Self) -> &mut Self {
        self.bytes.extend_from_slice(&fields.bytes);
        self.has_date |= fields.has_date;
        self.decides_server |= fields.decides_server;
        self
    }

    /// A field that was parsed out of a message before. Its value is given in two pieces.
    pub fn parsed_field(&mut self, name: &[u8], value: [&[u8]; 2]) -> &mut Self {
        self.add(name, |out| {
            out.extend_from_slice(value[0]);
            out.extend_from_slice(value[1]);
        })
    }

    /// A field that was parsed out of a message before, and whose value is a date.
    pub fn parsed_date(&mut self, name: &[u8], date: SystemTime) -> &mut Self {
        self.add(name, |out| display(out, date_within_range(date)))
    }

    /// One field. `name` is the program's own; `value` may come from anywhere: control characters in it become spaces.
    pub fn field(&mut self, name: &'static str, value: impl AsRef<[u8]>) -> &mut Self {
        self.own(name, |out| {
            let start = out.len();
            out.extend_from_slice(value.as_ref());
            for byte in &mut out[start..] {
                if byte.is_ascii_control() {
                    *byte = b' ';
                }
            }
        })
    }

    /// One field with a value of the program's own. It is copied without a look at its bytes.
    #[inline(always)]
    pub fn fixed(&mut self, name: &'static str, value: &'static str) -> &mut Self {
        debug_assert!(!name.is_empty() && name.bytes().all(|byte| is_token(&byte)));
        debug_assert!(value.bytes().all(|byte| is_text(&byte)) && !name.eq_ignore_ascii_case("date"));
        if let (Ok(name_length), Ok(value_length)) = (u16::try_from(name.len()), u16::try_from(value.len())) {
            self.bytes.extend_from_slice(&name_length.to_le_bytes());
            self.bytes.extend_from_slice(name.as_bytes());
            self.bytes.extend_from_slice(&value_length.to_le_bytes());
            self.bytes.extend_from_slice(value.as_bytes());
        }
        self
    }

    /// One field whose value is text of the program's own, such as a number.
    pub fn display(&mut self, name: &'static str, value: impl fmt::Display) -> &mut Self {
        self.own(name, |out| display(out, value))
    }

    /// One field whose value `write` appends: text of the program's own.
    pub fn text(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.own(name, write)
    }

    /// One field whose value is a number.
    pub fn number(&mut self, name: &'static str, number: u64) -> &mut Self {
        self.own(name, |out| push_decimal(out, number))
    }

    /// Content-Length, in bytes.
    pub fn content_length(&mut self, length: u64) -> &mut Self {
        self.number("Content-Length", length)
    }

    /// Content-Range of a 206 with one range, of a representation of `length` bytes. `range` is not
    /// empty.
    pub fn content_range(&mut self, range: &Range<u64>, length: u64) -> &mut Self {
        self.own("Content-Range", |out| {
            out.extend_from_slice(b"bytes ");
            push_decimal(out, range.start);
            out.push(b'-');
            push_decimal(out, range.end.saturating_sub(1));
            out.push(b'/');
            push_decimal(out, length);
        })
    }

    /// Content-Range of a 416: the representation has `length` bytes.
    pub fn content_range_unsatisfied(&mut self, length: u64) -> &mut Self {
        self.own("Content-Range", |out| {
            out.extend_from_slice(b"bytes */");
            push_decimal(out, length);
        })
    }

    /// Last-Modified.
    pub fn last_modified(&mut self, modified: SystemTime) -> &mut Self {
        self.display("Last-Modified", date_within_range(modified))
    }

    fn own(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        debug_assert!(!name.is_empty() && name.bytes().all(|byte| is_token(&byte)));
        self.add(name.as_bytes(), write)
    }

    /// Appends a field whose value `write` appends.
    #[inline]
    fn add(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let Ok(length) = u16::try_from(name.len()) else { return self };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        let value = self.bytes.len();
        write(&mut self.bytes);
        match u16::try_from(self.bytes.len() - value) {
            Ok(length) => {
                self.bytes[value - LENGTH_BYTES..value].copy_from_slice(&length.to_le_bytes());
                self.has_date |= name.eq_ignore_ascii_case(b"Date");
            }
            Err(_) => self.bytes.truncate(start),
        }
        self
    }

    /// The block of memory.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Continues a block of memory.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, has_date: false, decides_server: false }
    }
}

/// Makes lines of HTTP/1 of fields, in place: each has its line end in front.
pub(super) fn separate(fields: &mut [u8]) {
    let (mut at, mut separator, mut other) = (0, *b"\r\n", *b": ");
    while let Some(length) = fields.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        at += LENGTH_BYTES + usize::from(u16::from_le_bytes(std::mem::replace(length, separator)));
        std::mem::swap(&mut separator, &mut other);
    }
}

/// Names and values of [`Fields`], in order.
#[derive(Clone, Debug)]
pub struct FieldIter<'f> {
    rest: &'f [u8],
}

impl<'f> FieldIter<'f> {
    #[inline]
    fn take(&mut self) -> Option<&'f [u8]> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let (taken, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'f> Iterator for FieldIter<'f> {
    type Item = (&'f [u8], &'f [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.take()?, self.take()?))
    }
}

impl<'f> IntoIterator for &'f Fields {
    type Item = (&'f [u8], &'f [u8]);
    type IntoIter = FieldIter<'f>;

    fn into_iter(self) -> FieldIter<'f> {
        self.iter()
    }
}

impl Default for &Fields {
    fn default() -> Self {
        static NONE: Fields = Fields { bytes: Vec::new(), has_date: false, decides_server: false };
        &NONE
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii())))
            .finish()
    }
}

fn display(out: &mut Vec<u8>, value: impl fmt::Display) {
    use std::io::Write as _;
    // Writing into a Vec cannot fail.
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok());
}

/// The characters of a token (RFC 9110 §5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// The characters of a value (RFC 9110 §5.5).
fn is_text(byte: &u8) -> bool {
    *byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::Fields;

    fn texts(fields: &Fields) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn pairs(known: &[(&str, &str)]) -> Vec<(String, String)> {
        known.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn fields_are_read_back_as_they_were_added() {
        let mut fields = Fields::new();
        fields.field("ETag", "\"a:b\"").parsed_field(b"x-custom", [b"\xffke", b"pt "]);
        fields.parsed_field(b"x-empty", [b"", b""]).content_range(&(0..100), 1000).number("Age", 7);
        let expected = [
            ("ETag", "\\\"a:b\\\""),
            ("x-custom", "\\xffkept "),
            ("x-empty", ""),
            ("Content-Range", "bytes 0-99/1000"),
            ("Age", "7"),
        ];
        assert_eq!(texts(&fields), pairs(&expected));
        assert_eq!((fields.get("etag"), fields.get("AGE")), (Some(&b"\"a:b\""[..]), Some(&b"7"[..])));
        assert!(fields.has("x-empty") && !fields.has("x-emp") && !fields.has("x-empty2"));
        let mut twice = fields.clone();
        twice.extend(&fields);
        assert_eq!(texts(&twice), [texts(&fields), texts(&fields)].concat());
    }

    #[test]
    fn removed_fields_are_gone_and_the_others_stay_in_order() {
        let mut fields = Fields::new();
        fields.field("A", "1").field("b", "2").field("a", "3").field("AB", "4").field("a", "");
        fields.remove(|name| name.eq_ignore_ascii_case(b"a"));
        assert_eq!(texts(&fields), pairs(&[("b", "2"), ("AB", "4")]));
        fields.remove(|_| true);
        assert_eq!(fields, Fields::default());
    }

    #[test]
    fn a_date_is_known_until_it_is_removed() {
        let mut fields = Fields::new();
        assert!(!fields.field("Dat", "1").field("Dates", "2").has_date());
        let mut dated = Fields::new();
        assert!(dated.parsed_field(b"date", [b"1", b""]).has_date() && fields.extend(&dated).has_date());
        fields.field("DATE", "2");
        fields.remove(|name| name == b"date");
        assert!(fields.has_date());
        fields.remove(|name| name == b"DATE");
        assert!(!fields.has_date());
    }

    #[test]
    fn a_value_cannot_break_out_of_its_line() {
        let mut fields = Fields::new();
        fields.field("Location", "/a\r\nSet-Cookie: x=1\r\n\r\n<html>\0\x7f");
        assert_eq!(texts(&fields), pairs(&[("Location", "/a  Set-Cookie: x=1    <html>  ")]));
    }

    #[test]
    fn a_field_without_place_for_its_length_is_left_out_and_the_others_stay() {
        let (fits, long) = ("v".repeat(65_535), "v".repeat(65_536));
        let mut fields = Fields::new();
        fields.field("A", "1").field("X", &long).field("B", &fits);
        fields.parsed_field(long.as_bytes(), [b"2", b""]).field("C", "3");
        assert_eq!(texts(&fields), pairs(&[("A", "1"), ("B", &fits), ("C", "3")]));
    }

    #[test]
    fn lines_are_read_as_they_were_written_and_nothing_else_is() {
        let longest = format!("a: {}\r\n", "v".repeat(65_535));
        for lines in ["", "a: 1\r\n", "a: \r\nB-c: d: e\t\r\n", "x: caf\u{e9}\r\n", &longest] {
            let fields = Fields::from_lines(lines.as_bytes()).unwrap();
            assert_eq!(fields.to_lines(), lines.as_bytes());
        }
        let too_long = format!("a: v{}\r\n", "v".repeat(65_535));
        for lines in [
            "a",
            "a: 1",
            "a: 1\n",
            "a:1\r\n",
            "a: 1\r",
            ": 1\r\n",
            "a b: 1\r\n",
            "a: \0\r\n",
            "a: \r\r\n",
            "a: \x7f\r\n",
            "\r\n",
            "a: 1\r\n\r\n",
            "caf\u{e9}: 1\r\n",
            &too_long,
        ] {
            assert_eq!(Fields::from_lines(lines.as_bytes()), None, "{lines:?}");
        }
    }
}
