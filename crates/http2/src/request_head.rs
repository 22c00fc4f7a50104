//! The head of a request (RFC 9113 §8.3).

mod builder;
mod last_fields;

use std::ops::Range;
use std::rc::Rc;

pub use builder::HeadFault;
pub(crate) use builder::{FieldSection, HeadBuilder};
pub use last_fields::LastFields;

use crate::limits::Http2Limits;
use crate::priority::PriorityParameters;

/// A request head that passed every check of RFC 9113 §8.2 and §8.3. A clone shares its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// What the next request of a connection often has as well.
    common: Rc<CommonHead>,
    /// Empty for CONNECT.
    path: Rc<str>,
}

/// A request head without its path.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommonHead {
    /// Values of pseudo-header fields.
    text: String,
    method: Range<u32>,
    scheme: Range<u32>,
    authority: Range<u32>,
    lines: Vec<u8>,
    content_length: Option<u64>,
}

impl CommonHead {
    fn slice(&self, range: &Range<u32>) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }
}

impl RequestHead {
    /// The head of a request with these fields, and the priority that they ask for. The rules of HTTP/3 are the same (RFC 9114
    /// §4.2, §4.3).
    ///
    /// # Errors
    /// See [`HeadFault`].
    pub fn from_fields<'f>(
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        limits: &Http2Limits,
    ) -> Result<(Self, PriorityParameters), HeadFault> {
        let mut builder = HeadBuilder::new(FieldSection::Head, limits);
        for (name, value) in fields {
            builder.field(name, value);
        }
        builder.into_head()
    }

    /// The same head with another path, which was checked.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        let path = if path == &*self.path { Rc::clone(&self.path) } else { path.into() };
        Self { common: Rc::clone(&self.common), path }
    }

    /// `:method`: a token.
    pub fn method(&self) -> &str {
        self.common.slice(&self.common.method)
    }

    /// `:scheme`; empty for CONNECT.
    pub fn scheme(&self) -> &str {
        self.common.slice(&self.common.scheme)
    }

    /// `:authority`, or Host if the client sent no `:authority`; if both came, they agree. Without white space, control
    /// characters and user information; its form is not checked further. Never empty for `http` and `https`.
    pub fn authority(&self) -> &str {
        self.common.slice(&self.common.authority)
    }

    /// `:path`: text without white space and control characters that begins with `/`, or `*` for OPTIONS. `None` for
    /// CONNECT.
    pub fn path(&self) -> Option<&str> {
        (!self.path.is_empty()).then_some(&self.path)
    }

    /// Field lines in the form that HTTP/1.1 has, `name: value\r\n`, names in lowercase letters. If there is an authority,
    /// one line is `host` with it. Cookies are one line. Connection-specific fields do not occur.
    pub fn lines(&self) -> &[u8] {
        &self.common.lines
    }

    /// Names and values of [`lines`](Self::lines), in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.lines().split(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Content-Length. The length of the body is checked against it: a longer or shorter body resets the stream.
    pub fn content_length(&self) -> Option<u64> {
        self.common.content_length
    }

    /// Bytes of memory that the head holds, if it shares none.
    pub(crate) fn held_bytes(&self) -> u32 {
        let bytes = self.common.text.capacity() + self.common.lines.capacity() + self.path.len();
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
