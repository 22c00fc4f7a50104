//! Bodies of the fuzz targets for datagrams, field sections, and connections.
#![expect(clippy::unwrap_used, reason = "in a fuzz target it is the assertion")]

mod client;
mod connection;
mod datagram;
mod response;

use quiche::h3::{NameValue, qpack};

use crate::encode_head;

pub use client::{FuzzClient, FuzzStep};
pub use connection::fuzz_quic_connection;
pub use datagram::fuzz_quic_datagram;
pub use response::FuzzResponse;

/// The body of the fuzz target `h3_fields`: a status and lines of fields, which the library decodes as they were encoded.
pub fn fuzz_h3_fields(input: &[u8]) {
    let Some((number, lines)) = input.split_first_chunk() else { return };
    let status = 100 + u16::from_be_bytes(*number) % 900;
    let fields: Vec<(&[u8], &[u8])> = lines
        .split(|byte| *byte == b'\n')
        .map(|line| line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len())))
        .collect();
    let mut section = Vec::new();
    encode_head(status, fields.iter().copied(), &mut section);
    let decoded = qpack::Decoder::new().decode(&section, u64::MAX).unwrap();
    let (first, decoded) = decoded.split_first().unwrap();
    assert_eq!((first.name(), first.value()), (&b":status"[..], status.to_string().as_bytes()));
    let decoded = decoded.iter().map(|field| (field.name().to_vec(), field.value()));
    assert!(decoded.eq(fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value))));
}

/// Reads an input: a byte for a choice, and arguments.
#[derive(Debug)]
struct Input<'i>(&'i [u8]);

impl<'i> Input<'i> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// 0 behind the end.
    fn argument(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// As many bytes as the next one says, or what is left.
    fn bytes(&mut self) -> &'i [u8] {
        let length = usize::from(self.argument());
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
