//! Why a field block cannot be decoded.

/// A field block that cannot be decoded: COMPRESSION_ERROR, which ends the connection (RFC 9113 §4.3). The text is a label
/// for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HpackError(pub(crate) &'static str);
