//! Frames (RFC 9113 §4, §6), as far as they do not depend on state.

use crate::error::{ConnectionError, ErrorCode};

/// The length of a frame's header.
pub(crate) const HEADER_BYTES: usize = 9;

/// The largest payload that this side takes (`SETTINGS_MAX_FRAME_SIZE`), which is the initial value.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The largest window, and the largest stream number.
pub(crate) const MAX_31_BITS: u32 = (1 << 31) - 1;

/// Types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    /// RFC 9218 §7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Names of settings (RFC 9113 §6.5.2, RFC 9218 §2.1).
pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(crate) const ENABLE_PUSH: u16 = 0x2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(crate) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHeader {
    pub(crate) const fn new(length: usize, kind: u8, flags: u8, stream: u32) -> Self {
        Self { length, kind, flags, stream }
    }

    /// Reads a header. The reserved bit is ignored (RFC 9113 §4.1).
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes;
        let stream = u32::from_be_bytes([d, e, f, g]) & MAX_31_BITS;
        Self { length: u32::from_be_bytes([0, a, b, c]) as usize, kind, flags, stream }
    }

    /// The bytes of the header. `length` is below 2^24.
    pub(crate) fn write(self) -> [u8; HEADER_BYTES] {
        let [.., a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    pub(crate) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks what the header alone tells: the size, whether the stream may be 0, and the length of frames that have one.
    pub(crate) fn check(self) -> Result<(), ConnectionError> {
        if self.length > PAYLOAD_BYTES_MAX {
            return Err(frame_size("frame_too_large"));
        }
        let on_connection = self.stream == 0;
        let (has_right_stream, has_right_length) = match self.kind {
            kind::DATA | kind::HEADERS | kind::CONTINUATION | kind::PRIORITY => (!on_connection, true),
            kind::RST_STREAM => (!on_connection, self.length == 4),
            kind::WINDOW_UPDATE => (true, self.length == 4),
            kind::SETTINGS if self.has(flag::ACK) => (on_connection, self.length == 0),
            kind::SETTINGS => (on_connection, self.length.is_multiple_of(6)),
            kind::PING => (on_connection, self.length == 8),
            kind::GOAWAY => (on_connection, self.length >= 8),
            kind::PRIORITY_UPDATE => (on_connection, self.length >= 4),
            _ => (true, true),
        };
        match (has_right_stream, has_right_length) {
            (false, _) => Err(protocol("frame_on_wrong_stream")),
            (true, false) => Err(frame_size("frame_length")),
            (true, true) => Ok(()),
        }
    }
}

pub(crate) const fn protocol(reason: &'static str) -> ConnectionError {
    ConnectionError { code: ErrorCode::PROTOCOL_ERROR, reason }
}

pub(crate) const fn frame_size(reason: &'static str) -> ConnectionError {
    ConnectionError { code: ErrorCode::FRAME_SIZE_ERROR, reason }
}

pub(crate) const fn calm(reason: &'static str) -> ConnectionError {
    ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, reason }
}

/// A number of four octets from the front of `bytes`, which has them.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets))
}

/// Appends a frame that consists of a number.
pub(crate) fn push_number(kind: u8, stream: u32, value: u32, out: &mut Vec<u8>) {
    out.extend(FrameHeader::new(4, kind, 0, stream).write());
    out.extend(value.to_be_bytes());
}

/// Takes the padding off a payload (RFC 9113 §6.1, §6.2).
///
/// # Errors
/// The padding is as long as the payload or longer.
pub(crate) fn without_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(frame_size("frame_length"))?;
    let length = rest.len().checked_sub(usize::from(padding)).ok_or(protocol("padding"))?;
    Ok(&rest[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for header in [
            FrameHeader::new(0, 0, 0, 0),
            FrameHeader::new(0x01_0203, 0x10, 0xff, MAX_31_BITS),
            FrameHeader::new(0xff_ffff, 0xff, 0x2d, 0x0102_0304),
        ] {
            assert_eq!(FrameHeader::parse(&header.write()), header);
        }
        let reserved = [0, 0, 1, 2, 3, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(FrameHeader::parse(&reserved).stream, MAX_31_BITS);
    }

    #[test]
    fn padding_is_taken_off() {
        let padded = FrameHeader::new(4, kind::DATA, flag::PADDED, 1);
        assert_eq!(without_padding(padded, &[1, 7, 8, 0]), Ok(&[7, 8][..]));
        assert_eq!(without_padding(padded, &[3, 0, 0, 0]), Ok(&[][..]));
        assert_eq!(without_padding(padded, &[4, 0, 0, 0]), Err(protocol("padding")));
        assert_eq!(without_padding(padded, &[]), Err(frame_size("frame_length")));
        assert_eq!(without_padding(FrameHeader::new(1, kind::DATA, 0, 1), &[9]), Ok(&[9][..]));
    }
}
