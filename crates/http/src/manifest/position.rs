//! Positions in a stream.

/// A position in a stream: a segment, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Media sequence number.
    pub segment: u64,
    /// Number of the part, from 0; `None` is the whole segment.
    pub part: Option<u64>,
}
