//! The outcome of answering from an object that has changed meanwhile.

/// The object changed before its first byte was sent. Its new version can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outdated;
