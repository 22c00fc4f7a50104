//! HPACK, the compression of fields (RFC 7541).

mod decoder;
mod dynamic_table;
mod encoder;
mod error;
mod huffman;
mod integer;
mod static_table;

pub(crate) use decoder::{Decoder, is_string};
pub(crate) use encoder::Encoder;

#[cfg(test)]
mod tests;
