//! The head of a request (RFC 9113 §8.3).

mod builder;

use std::ops::Range;

pub(crate) use builder::{FieldSection, HeadBuilder, HeadFault};

/// A request head that passed every check of RFC 9113 §8.2 and §8.3. It is one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    bytes: Vec<u8>,
    method: Range<u32>,
    scheme: Range<u32>,
    authority: Range<u32>,
    path: Range<u32>,
    lines: u32,
    content_length: Option<u64>,
}

impl RequestHead {
    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    fn text(&self, range: &Range<u32>) -> &str {
        str::from_utf8(self.slice(range)).unwrap_or_default()
    }

    /// `:method`: a token.
    pub fn method(&self) -> &str {
        self.text(&self.method)
    }

    /// `:scheme`; empty for CONNECT.
    pub fn scheme(&self) -> &str {
        self.text(&self.scheme)
    }

    /// `:authority`, or Host if the client sent no `:authority`; if both came, they agree. Without white space, control
    /// characters and user information; its form is not checked further. Never empty for `http` and `https`.
    pub fn authority(&self) -> &str {
        self.text(&self.authority)
    }

    /// `:path`: text without white space and control characters that begins with `/`, or `*` for OPTIONS. `None` for
    /// CONNECT.
    pub fn path(&self) -> Option<&str> {
        (self.path.start != self.path.end).then(|| self.text(&self.path))
    }

    /// Field lines in the form that HTTP/1.1 has, `name: value\r\n`, names in lowercase letters. If there is an authority,
    /// one line is `host` with it. Cookies are one line. Connection-specific fields do not occur.
    pub fn lines(&self) -> &[u8] {
        &self.bytes[self.lines as usize..]
    }

    /// Content-Length. The length of the body is checked against it: a longer or shorter body resets the stream.
    pub const fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Bytes of memory that the head holds.
    pub(crate) fn held_bytes(&self) -> u32 {
        u32::try_from(self.bytes.capacity()).unwrap_or(u32::MAX)
    }
}
