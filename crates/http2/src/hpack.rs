//! HPACK, the compression of fields (RFC 7541).

mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
mod integer;
mod static_table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::Encoder;

/// A field block that cannot be decoded: COMPRESSION_ERROR, which ends the connection (RFC 9113 §4.3). The text is a label
/// for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HpackError(pub(crate) &'static str);

#[cfg(test)]
mod tests;
