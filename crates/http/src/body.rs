//! Reading a request body, or past one that nobody wants (RFC 9112 §6-7).

use memchr::memchr;

use crate::digits::hex_value;
use crate::{Rejection, RequestBody, Status};

/// The longest chunk-size line or trailer line, in bytes.
const LINE_BYTES_MAX: u64 = 1024;

/// Consumes a body piece by piece without keeping any of it, so that the connection can go on.
#[derive(Clone, Debug)]
pub struct BodySkipper {
    state: State,
    /// Bytes on the wire that may still come, framing included.
    allowance: u64,
}

/// What one call to [`BodySkipper::skip`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Bytes that belonged to the body. Less than was given only if the body ended there.
    pub consumed: usize,
    /// Whether the body has ended: the next request starts right behind.
    pub done: bool,
}

/// What the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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
    /// A trailer line, of which so many bytes have passed.
    Trailer(u64),
    /// The LF of a trailer line; the empty one is the end.
    TrailerLf { empty: bool },
    /// Nothing: the body has ended.
    Done,
}

impl BodySkipper {
    /// A skipper for one body, which may take `limit_bytes` on the wire, framing included.
    pub const fn new(body: RequestBody, limit_bytes: u64) -> Self {
        let state = match body {
            RequestBody::None | RequestBody::Length(0) => State::Done,
            RequestBody::Length(length) => State::Content(length),
            RequestBody::Chunked => State::Size { value: 0, digits: 0 },
        };
        Self { state, allowance: limit_bytes }
    }

    /// Consumes as much of `bytes` as belongs to the body.
    ///
    /// # Errors
    /// 413 as soon as it is known that the body is larger than the limit; with Content-Length at the
    /// first call, even one without bytes. 400 if the chunked framing is broken. Both close.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<Skipped, Rejection> {
        self.read(bytes, |_| {})
    }

    /// The same, and hands on what is content and not framing.
    ///
    /// # Errors
    /// As [`Self::skip`].
    pub fn read(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<Skipped, Rejection> {
        const TOO_LARGE: Rejection = Rejection::closing(Status::ContentTooLarge, "body_too_large");

        let mut rest = bytes;
        loop {
            if matches!(self.state, State::Content(left) | State::Data(left) if left > self.allowance) {
                return Err(TOO_LARGE);
            }
            if self.state == State::Done || rest.is_empty() {
                break;
            }
            let (next, consumed) = self.state.step(rest).map_err(Rejection::malformed)?;
            if matches!(self.state, State::Content(_) | State::Data(_)) {
                content(&rest[..consumed]);
            }
            self.state = next;
            self.allowance = self.allowance.checked_sub(consumed as u64).ok_or(TOO_LARGE)?;
            rest = &rest[consumed..];
        }
        Ok(Skipped { consumed: bytes.len() - rest.len(), done: self.state == State::Done })
    }
}

impl State {
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
            Self::Trailer(length) => return trailer(bytes, length),
            Self::Size { value, digits } => match (byte, hex_value(byte)) {
                // Sixteen digits are what fits into 64 bits.
                (_, Some(digit)) if digits < 16 => {
                    Self::Size { value: (value << 4) | u64::from(digit), digits: digits + 1 }
                }
                (b'\r', _) if digits > 0 => Self::SizeLf(value),
                (b';', _) if digits > 0 => Self::Extension { size: value, length: 1 },
                _ => return Err("chunk_size"),
            },
            Self::SizeLf(0) if byte == b'\n' => Self::Trailer(0),
            Self::SizeLf(size) if byte == b'\n' => Self::Data(size),
            Self::DataCr if byte == b'\r' => Self::DataLf,
            Self::DataLf if byte == b'\n' => Self::Size { value: 0, digits: 0 },
            Self::TrailerLf { empty: true } if byte == b'\n' => Self::Done,
            Self::TrailerLf { empty: false } if byte == b'\n' => Self::Trailer(0),
            Self::SizeLf(_) | Self::DataCr | Self::DataLf | Self::TrailerLf { .. } => {
                return Err("chunk_line_end");
            }
            Self::Done => return Ok((Self::Done, 0)),
        };
        Ok((next, 1))
    }
}

/// The part of a chunk-size line that nobody reads.
fn extension(bytes: &[u8], size: u64, length: u64) -> Result<(State, usize), &'static str> {
    let (ended, consumed) = rest_of_line(bytes, length)?;
    let length = length + consumed as u64;
    if ended {
        return Ok((State::SizeLf(size), consumed + 1));
    }
    Ok((State::Extension { size, length }, consumed))
}

/// A trailer line, or the empty line that ends them.
fn trailer(bytes: &[u8], length: u64) -> Result<(State, usize), &'static str> {
    let (ended, consumed) = rest_of_line(bytes, length)?;
    let length = length + consumed as u64;
    if ended {
        return Ok((State::TrailerLf { empty: length == 0 }, consumed + 1));
    }
    Ok((State::Trailer(length), consumed))
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
