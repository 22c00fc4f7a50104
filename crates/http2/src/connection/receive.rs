//! From bytes to frames (RFC 9113 §4).

use super::{PREFACE, ServerConnection};
use crate::error::ConnectionError;
use crate::flood::Flood;
use crate::frame::{FrameHeader, HEADER_BYTES, calm, flag, kind, protocol};

/// Larger frames with a priority for a stream are skipped: the two parameters need some ten bytes.
const PRIORITY_UPDATE_BYTES_MAX: usize = 512;

/// How far the input was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Bytes of the preface that came.
    preface: usize,
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// A DATA frame whose payload is being read.
    pub(super) data: Option<DataProgress>,
    /// Bytes of a frame that is ignored.
    skip: usize,
    /// A field block that CONTINUATION goes on with.
    pub(super) block: Option<Box<UnfinishedBlock>>,
    /// Frames that were read whole, without CONTINUATION, modulo 2^32.
    finished: u32,
}

/// A DATA frame whose payload has not come whole.
#[derive(Debug)]
pub(super) struct DataProgress {
    pub(super) stream: u32,
    /// Bytes of the payload that are missing, with padding.
    pub(super) left: usize,
    /// Bytes of padding among them, as far as that is known.
    pub(super) padding: usize,
    pub(super) padding_is_known: bool,
    pub(super) is_empty: bool,
    pub(super) end: bool,
}

/// The fragments of a field block that came.
#[derive(Debug)]
pub(super) struct UnfinishedBlock {
    pub(super) stream: u32,
    pub(super) end: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

impl Reader {
    pub(super) fn is_unfinished(&self) -> bool {
        self.preface < PREFACE.len() || !self.partial.is_empty() || self.skip > 0 || self.block.is_some()
    }

    pub(super) fn unfinished(&self) -> Option<u32> {
        self.is_unfinished().then_some(self.finished)
    }

    pub(super) fn shrink(&mut self) {
        self.partial.shrink_to_fit();
    }
}

impl ServerConnection {
    /// Reads all of `bytes`.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        self.read_preface(&mut bytes)?;
        while !bytes.is_empty() {
            if self.reader.data.is_some() {
                self.read_data(&mut bytes)?;
            } else if self.reader.skip > 0 {
                let length = self.reader.skip.min(bytes.len());
                self.reader.skip -= length;
                bytes = &bytes[length..];
            } else if self.reader.partial.is_empty() {
                self.read_frame(&mut bytes)?;
            } else {
                self.complete_frame(&mut bytes)?;
            }
            if self.control.len() > self.limits.control_bytes {
                return Err(calm("unread_control_frames"));
            }
        }
        Ok(())
    }

    fn read_preface(&mut self, bytes: &mut &[u8]) -> Result<(), ConnectionError> {
        let expected = &PREFACE[self.reader.preface..];
        let length = expected.len().min(bytes.len());
        let (given, rest) = bytes.split_at(length);
        if given != &expected[..length] {
            return Err(protocol("preface"));
        }
        self.reader.preface += length;
        *bytes = rest;
        Ok(())
    }

    /// Reads a frame from the front of `bytes`, or keeps its beginning.
    fn read_frame(&mut self, bytes: &mut &[u8]) -> Result<(), ConnectionError> {
        let Some((header, rest)) = bytes.split_first_chunk() else {
            self.reader.partial.extend_from_slice(bytes);
            *bytes = &[];
            return Ok(());
        };
        let header = FrameHeader::parse(header);
        if self.begin_frame(header)? {
            *bytes = rest;
            return Ok(());
        }
        match rest.split_at_checked(header.length) {
            Some((payload, rest)) => {
                *bytes = rest;
                self.frame(header, payload)
            }
            None => {
                self.reader.partial.extend_from_slice(bytes);
                *bytes = &[];
                Ok(())
            }
        }
    }

    /// Reads on in a frame whose beginning was kept.
    fn complete_frame(&mut self, bytes: &mut &[u8]) -> Result<(), ConnectionError> {
        let had_header = self.reader.partial.len() >= HEADER_BYTES;
        if !had_header {
            self.take_partial(HEADER_BYTES, bytes);
        }
        let Some(header) = self.reader.partial.first_chunk() else { return Ok(()) };
        let header = FrameHeader::parse(header);
        if !had_header && self.begin_frame(header)? {
            self.reader.partial.clear();
            return Ok(());
        }
        self.take_partial(HEADER_BYTES + header.length, bytes);
        if self.reader.partial.len() < HEADER_BYTES + header.length {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.reader.partial);
        self.frame(header, &frame[HEADER_BYTES..])?;
        frame.clear();
        self.reader.partial = frame;
        Ok(())
    }

    /// Moves bytes until `partial` has `length`.
    fn take_partial(&mut self, length: usize, bytes: &mut &[u8]) {
        let missing = length.saturating_sub(self.reader.partial.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        self.reader.partial.extend_from_slice(taken);
        *bytes = rest;
    }

    /// Checks a header. Returns whether the payload is not to be kept: it is passed on in parts, or skipped.
    fn begin_frame(&mut self, header: FrameHeader) -> Result<bool, ConnectionError> {
        header.check()?;
        if !self.peer.is_received && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(protocol("settings_missing"));
        }
        let awaited = self.reader.block.as_ref().map(|block| block.stream);
        let continues = (header.kind == kind::CONTINUATION).then_some(header.stream);
        if awaited != continues {
            return Err(protocol("continuation"));
        }
        match header.kind {
            kind::DATA => self.begin_data(header)?,
            kind::PUSH_PROMISE => return Err(protocol("push_promise")),
            kind::PRIORITY_UPDATE if header.length <= PRIORITY_UPDATE_BYTES_MAX => return Ok(false),
            kind::HEADERS..=kind::CONTINUATION => return Ok(false),
            // Unknown types are ignored (RFC 9113 §4.1).
            _ => {
                self.guard.count(Flood::Ignored)?;
                self.reader.skip = header.length;
            }
        }
        Ok(true)
    }

    /// Takes a frame other than DATA.
    fn frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        let result = match header.kind {
            kind::HEADERS => self.headers(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            kind::PRIORITY => self.rfc7540_priority(header),
            kind::RST_STREAM => self.rst_stream(header, payload),
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY => self.goaway(payload),
            kind::WINDOW_UPDATE => self.window_update(header, payload),
            kind::PRIORITY_UPDATE => self.priority_update(payload),
            _ => Ok(()),
        };
        if self.reader.block.is_none() {
            self.reader.finished = self.reader.finished.wrapping_add(1);
        }
        result
    }
}
