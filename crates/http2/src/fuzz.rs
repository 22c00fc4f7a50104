//! Bodies of the fuzz targets for frames, HPACK, and sequences of frames and calls.

mod sequence;

use std::collections::BTreeMap;
use std::time::Instant;

pub use sequence::fuzz_h2_sequence;

use crate::connection::{PREFACE, ServerConnection};
use crate::error::ConnectionError;
use crate::event::StreamEvent;
use crate::hpack::{Decoder, Encoder};
use crate::limits::{FloodLimits, Http2Limits};

/// Small limits, so that short inputs reach them.
fn small_limits() -> Http2Limits {
    Http2Limits {
        streams: 4,
        stream_window: 1000,
        connection_window: 65_535,
        header_list_bytes: 2000,
        fields: 16,
        target_bytes: 100,
        held_header_bytes: 4000,
        header_table_bytes: 500,
        control_bytes: 500,
        floods: FloodLimits {
            resets: 8,
            provoked_resets: 8,
            refused_streams: 8,
            pings: 8,
            settings: 8,
            empty_data: 8,
            priorities: 8,
            window_updates: 16,
            ignored: 16,
        },
    }
}

/// What came of an input.
#[derive(Debug, Default, PartialEq)]
struct Received {
    /// Events but for bodies.
    events: Vec<String>,
    /// Bodies of streams that were not reset, and whether they ended.
    bodies: BTreeMap<u32, (Vec<u8>, bool)>,
    control: Vec<u8>,
    error: Option<ConnectionError>,
}

impl Received {
    fn receive(&mut self, connection: &mut ServerConnection, bytes: &[u8], now: Instant) {
        self.error = connection.receive(bytes, now).err();
        while let Some(event) = connection.next_event() {
            match event {
                StreamEvent::Data { stream, bytes, end } => {
                    let body = self.bodies.entry(stream.get()).or_default();
                    assert!(!body.1 && (end || !bytes.is_empty()));
                    body.0.extend(bytes);
                    body.1 = end;
                }
                StreamEvent::Reset { stream, .. } => {
                    self.bodies.remove(&stream.get());
                    self.events.push(format!("{event:?}"));
                }
                _ => self.events.push(format!("{event:?}")),
            }
        }
    }
}

/// The body of the fuzz target `h2_frames`: what a client sends behind the preface, after a byte that says where it is cut. No
/// input may panic, and the result must not depend on the cut.
pub fn fuzz_h2_frames(input: &[u8]) {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let cut = usize::from(cut).min(bytes.len());
    let now = Instant::now();
    let run = |pieces: &[&[u8]]| {
        let mut connection = ServerConnection::new(&std::sync::Arc::new(small_limits()));
        let mut received = Received::default();
        received.receive(&mut connection, PREFACE, now);
        for piece in pieces {
            received.receive(&mut connection, piece, now);
        }
        assert!(connection.streams() <= 4);
        received.control = connection.take_control();
        received
    };
    let bytes_one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
    let whole = run(&[bytes]);
    assert_eq!(run(&[&bytes[..cut], &bytes[cut..]]), whole);
    assert_eq!(run(&bytes_one_by_one), whole);
}

/// The body of the fuzz target `hpack`. The input is decoded as field blocks, each behind a byte with its length; then it is
/// read as fields, which must be decoded as they were encoded, while the size of the table changes.
pub fn fuzz_hpack(input: &[u8]) {
    decode_blocks(input);
    encode_and_decode(input);
}

fn decode_blocks(mut input: &[u8]) {
    let mut decoder = Decoder::new();
    let mut scratch = Vec::new();
    while let Some((&length, rest)) = input.split_first() {
        let (block, rest) = rest.split_at(usize::from(length).min(rest.len()));
        input = rest;
        let mut fields = 0;
        let result = decoder.decode(block, &mut scratch, |name, value, _| {
            fields += 1;
            // Both may come from the table, or from Huffman code.
            assert!(name.len() <= 4096 && value.len() <= 4096);
        });
        assert!(fields <= block.len());
        assert!(decoder.held_bytes() <= 4096 + 128 * 8);
        if result.is_err() {
            return;
        }
    }
}

fn encode_and_decode(input: &[u8]) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    for head in input.split(|byte| *byte == 0) {
        let Some((&size, head)) = head.split_first() else { continue };
        if size < 0x40 {
            encoder.set_limit(usize::from(size) * 32);
        }
        let fields: Vec<(&[u8], &[u8])> = head
            .split(|byte| *byte == b'\n')
            .map(|line| line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len())))
            .collect();
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.status(100 + u16::from(size), &mut block);
        fields.iter().for_each(|(name, value)| encoder.field(name, value, &mut block));
        let mut decoded = Vec::new();
        let sink = |name: &[u8], value: &[u8], _| decoded.push((name.to_vec(), value.to_vec()));
        assert_eq!(decoder.decode(&block, &mut Vec::new(), sink), Ok(()));
        let status = (100 + u16::from(size)).to_string();
        assert_eq!(decoded[0], (b":status".to_vec(), status.into_bytes()));
        let decoded = decoded[1..].iter().map(|(name, value)| (&**name, &**value));
        assert!(decoded.eq(fields), "{block:?}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_bodies_hold_for_arbitrary_bytes(input: Vec<u8>) {
            fuzz_h2_frames(&input);
            fuzz_hpack(&input);
            fuzz_h2_sequence(&input);
        }

        #[test]
        fn sequences_of_many_steps_hold(input in prop::collection::vec(any::<u8>(), 500..1500)) {
            fuzz_h2_sequence(&input);
        }
    }
}
