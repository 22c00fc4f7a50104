//! Decoding the framing of a request body (RFC 9112 §6-7).

use memchr::memchr;

use crate::digits::hex_value;
use crate::{BodyFraming, Rejection, Status};

/// The longest chunk-size line or trailer line, in bytes.
const LINE_BYTES_MAX: u64 = 1024;

/// All trailer lines together, in bytes. Trailers have no use here, so a body that ends in more is refused.
const TRAILER_BYTES_MAX: u64 = 8 * 1024;

/// Decodes a body piece by piece and finds its end, so that the connection can go on.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: DecoderState,
    /// Bytes on the wire that may still come, framing included.
    allowance: u64,
}

/// The result of one call to [`BodyDecoder::read`] or [`BodyDecoder::skip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes that belonged to the body. Less than was given only if the body ended there.
    pub consumed: usize,
    /// Whether the body has ended: the next request starts right behind.
    pub done: bool,
}

/// Meaning of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    /// Content, with so many bytes to come; then the end.
    Content(u64),
    /// A digit of a chunk size.
    Size { value: u64, digits: u8 },
    /// The rest of a chunk-size line, of which so many bytes have passed.
    Extension { size: u64, length: u64 },
    /// The LF of a chunk-size line.
    SizeLf(u64),
    /// Chunk data, with so many bytes to come.
    Data(u64),
    /// The CR behind chunk data.
    DataCr,
    /// The LF behind chunk data.
    DataLf,
    /// A trailer line, of which `length` bytes have passed, after `before` bytes of earlier lines.
    Trailer { length: u64, before: u64 },
    /// The LF of a trailer line; the empty one is the end.
    TrailerLf { empty: bool, before: u64 },
    /// Nothing: the body has ended.
    Done,
}

impl BodyDecoder {
    /// A decoder for one body, which may take `limit_bytes` on the wire, framing included.
    pub const fn new(body: BodyFraming, limit_bytes: u64) -> Self {
        let state = match body {
            BodyFraming::None | BodyFraming::Length(0) => DecoderState::Done,
            BodyFraming::Length(length) => DecoderState::Content(length),
            BodyFraming::Chunked => DecoderState::Size { value: 0, digits: 0 },
        };
        Self { state, allowance: limit_bytes }
    }

    /// Consumes as much of `bytes` as belongs to the body.
    ///
    /// # Errors
    /// 413 as soon as it is known that the body is larger than the limit; with Content-Length at the
    /// first call, even one without bytes. 400 if the chunked framing is broken. Both close.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<Decoded, Rejection> {
        self.read(bytes, |_| {})
    }

    /// Consumes as much of `bytes` as belongs to the body, and passes content without framing to `content`.
    ///
    /// # Errors
    /// As [`Self::skip`].
    pub fn read(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<Decoded, Rejection> {
        const TOO_LARGE: Rejection = Rejection::closing(Status::ContentTooLarge, "body_too_large");

        let mut rest = bytes;
        loop {
            if matches!(self.state, DecoderState::Content(left) | DecoderState::Data(left) if left > self.allowance)
            {
                return Err(TOO_LARGE);
            }
            if self.state == DecoderState::Done || rest.is_empty() {
                break;
            }
            let (next, consumed) = self.state.step(rest).map_err(Rejection::malformed)?;
            if matches!(self.state, DecoderState::Content(_) | DecoderState::Data(_)) {
                content(&rest[..consumed]);
            }
            self.state = next;
            self.allowance = self.allowance.checked_sub(consumed as u64).ok_or(TOO_LARGE)?;
            rest = &rest[consumed..];
        }
        Ok(Decoded { consumed: bytes.len() - rest.len(), done: self.state == DecoderState::Done })
    }
}

impl DecoderState {
    /// Consumes at least one byte of `bytes`, which is not empty. The error is the reason for a 400.
    fn step(self, bytes: &[u8]) -> Result<(Self, usize), &'static str> {
        let byte = bytes[0];
        let next = match self {
            Self::Content(left) => {
                let consumed = at_most(bytes, left);
                let left = left - consumed as u64;
                return Ok((if left == 0 { Self::Done } else { Self::Content(left) }, consumed));
            }
            Self::Data(left) => {
                let consumed = at_most(bytes, left);
                let left = left - consumed as u64;
                return Ok((if left == 0 { Self::DataCr } else { Self::Data(left) }, consumed));
            }
            Self::Extension { size, length } => return extension(bytes, size, length),
            Self::Trailer { length, before } => return trailer(bytes, length, before),
            Self::Size { value, digits } => match (byte, hex_value(byte)) {
                // Sixteen digits fill 64 bits.
                (_, Some(digit)) if digits < 16 => {
                    Self::Size { value: (value << 4) | u64::from(digit), digits: digits + 1 }
                }
                (b'\r', _) if digits > 0 => Self::SizeLf(value),
                (b';', _) if digits > 0 => Self::Extension { size: value, length: 1 },
                _ => return Err("chunk_size"),
            },
            Self::SizeLf(0) if byte == b'\n' => Self::Trailer { length: 0, before: 0 },
            Self::SizeLf(size) if byte == b'\n' => Self::Data(size),
            Self::DataCr if byte == b'\r' => Self::DataLf,
            Self::DataLf if byte == b'\n' => Self::Size { value: 0, digits: 0 },
            Self::TrailerLf { empty: true, .. } if byte == b'\n' => Self::Done,
            Self::TrailerLf { empty: false, before } if byte == b'\n' => Self::Trailer { length: 0, before },
            Self::SizeLf(_) | Self::DataCr | Self::DataLf | Self::TrailerLf { .. } => {
                return Err("chunk_line_end");
            }
            Self::Done => return Ok((Self::Done, 0)),
        };
        Ok((next, 1))
    }
}

/// The chunk extension, which has no use here.
fn extension(bytes: &[u8], size: u64, length: u64) -> Result<(DecoderState, usize), &'static str> {
    let (ended, consumed) = rest_of_line(bytes, length)?;
    let length = length + consumed as u64;
    if ended {
        return Ok((DecoderState::SizeLf(size), consumed + 1));
    }
    Ok((DecoderState::Extension { size, length }, consumed))
}

/// A trailer line, or the empty line that ends them.
fn trailer(bytes: &[u8], length: u64, before: u64) -> Result<(DecoderState, usize), &'static str> {
    let (ended, consumed) = rest_of_line(bytes, length)?;
    let length = length + consumed as u64;
    if before + length > TRAILER_BYTES_MAX {
        return Err("trailer_too_large");
    }
    if ended {
        let state = DecoderState::TrailerLf { empty: length == 0, before: before + length };
        return Ok((state, consumed + 1));
    }
    Ok((DecoderState::Trailer { length, before }, consumed))
}

/// Whether the line ends in `bytes` (with a CR, which is not counted), and the bytes before that.
fn rest_of_line(bytes: &[u8], length: u64) -> Result<(bool, usize), &'static str> {
    let end = memchr(b'\r', bytes);
    let line = &bytes[..end.unwrap_or(bytes.len())];
    if line.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err("chunk_control_character");
    }
    if length + line.len() as u64 > LINE_BYTES_MAX {
        return Err("chunk_line_too_long");
    }
    Ok((end.is_some(), line.len()))
}

/// The length of `bytes`, or `left` if that is less.
fn at_most(bytes: &[u8], left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

#[cfg(test)]
mod tests;
