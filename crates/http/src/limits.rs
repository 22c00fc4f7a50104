//! The bounds within which a request head is read. Their values are the caller's.

/// How large a request head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, from the first byte to the empty line. More is 431.
    pub head_bytes: usize,
    /// Number of field lines, at most [`HeadLimits::FIELDS_CEILING`]. More is 431.
    pub fields: usize,
    /// Bytes of the request target (path and query). More is 414.
    pub target_bytes: usize,
}

impl HeadLimits {
    /// The most field lines that any caller can allow: the table of fields stands on the stack.
    pub const FIELDS_CEILING: usize = 128;
}
