//! What a client has received of a response.

use quiche::h3::{NameValue, qpack};

/// A response, or as much of it as has come.
#[derive(Debug, Default)]
pub struct FuzzResponse {
    /// The fields of its head, if that has come.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its content so far.
    pub content: Vec<u8>,
    /// Whether the stream has ended.
    pub has_ended: bool,
}

impl FuzzResponse {
    /// Reads the frames of a stream, of which the last one may lack its end.
    pub(super) fn read(mut bytes: &[u8], has_ended: bool) -> Self {
        let mut response = Self { has_ended, ..Self::default() };
        while let Some((kind, length)) = frame_header(&mut bytes) {
            let (payload, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            assert!(!has_ended || payload.len() == length, "a stream ends with a frame");
            match (kind, response.field(b":status")) {
                (1, None | Some([b'1', ..])) if payload.len() == length => {
                    let fields = qpack::Decoder::new().decode(payload, u64::MAX).unwrap();
                    let fields = fields.iter().map(|field| (field.name().to_vec(), field.value().to_vec()));
                    response.fields = fields.collect();
                }
                (1, None | Some([b'1', ..])) => break,
                (0, Some(_)) => response.content.extend_from_slice(payload),
                (kind, status) => panic!("a frame of type {kind} behind a head with status {status:?}"),
            }
        }
        response
    }

    /// The value of a field.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields.iter().find(|(of, _)| of == name).map(|(_, value)| &**value)
    }
}

/// Takes the type and the length in front.
fn frame_header(bytes: &mut &[u8]) -> Option<(u8, usize)> {
    let (&kind, rest) = bytes.split_first()?;
    let count = 1 << (rest.first()? >> 6);
    let (length, rest) = rest.split_at_checked(count)?;
    let first = usize::from(length[0] & 0x3f);
    *bytes = rest;
    Some((kind, length[1..].iter().fold(first, |sum, byte| sum << 8 | usize::from(*byte))))
}
