//! Frames of responses on their streams.
//!
//! They go past the library's HTTP/3, which compresses each head and copies all content: a frame is made in the buffer in which
//! QUIC keeps it until it is acknowledged.

use super::ServerConnection;
use crate::qpack;
use crate::queue::CONTROL_STREAM;

/// Types of frames (RFC 9114 §7.2).
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Bytes of a DATA frame's header: a type, and a length below 2^30.
const DATA_HEADER_BYTES: usize = 1 + 4;

/// Bytes of content in one buffer. It is freed when all of them are acknowledged.
const BUFFER_BYTES: usize = 16 * 1024;

/// Content for which there is space behind its head. More gets memory of its own, since it may come later.
const CONTENT_BYTES_MAX: usize = 4096;

/// Encodes the fields of a head with this status, 100 to 999. Equal fields are always encoded alike.
pub fn encode_head<'f>(status: u16, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    qpack::begin(out);
    qpack::status(status, out);
    fields.for_each(|(name, value)| qpack::field(name, value, out));
}

/// The head of a response, as a HEADERS frame.
#[derive(Debug)]
pub struct HeadFrame(Vec<u8>);

impl HeadFrame {
    /// A head with these [encoded](encode_head) fields. Content of this length, if it is known and small, has space behind it.
    pub fn new(fields: &[u8], content: Option<u64>) -> Self {
        let content = content.and_then(|length| usize::try_from(length).ok());
        let content = content.filter(|length| (1..=CONTENT_BYTES_MAX).contains(length));
        let behind = content.map_or(0, |length| frame_header_bytes(length) + length);
        // Exactly: what QUIC keeps it in needs memory of its own for a buffer that has more space.
        let mut bytes = Vec::with_capacity(frame_header_bytes(fields.len()) + fields.len() + behind);
        bytes.push(HEADERS);
        put_length(fields.len(), &mut bytes);
        bytes.extend_from_slice(fields);
        Self(bytes)
    }
}

/// Bytes of a length, and what marks it (RFC 9000 §16).
fn length_form(length: usize) -> (usize, u8) {
    match length {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    }
}

/// Bytes of the header of a frame: a type, and the length.
fn frame_header_bytes(length: usize) -> usize {
    1 + length_form(length).0
}

/// Appends a length (RFC 9000 §16).
fn put_length(length: usize, out: &mut Vec<u8>) {
    let number = (length as u64).to_be_bytes();
    let (bytes, mark) = length_form(length);
    let start = out.len();
    out.extend_from_slice(&number[number.len() - bytes..]);
    out[start] |= mark;
}

/// Whether the stream has taken a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSent {
    /// It has.
    Yes,
    /// It takes none at the moment.
    Later,
    /// It is gone.
    Gone,
}

/// The client takes no more of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;

/// Why content was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentFault<E> {
    /// The client takes no more of the stream, or less than was to be sent.
    Gone,
    /// It could not be read. The stream has a frame without its end, and must be reset.
    Unread(E),
}

impl ServerConnection {
    /// Sends the head of a response, and the end of the stream if `end` is set. If QUIC takes a part of it, the next call for the stream
    /// sends the rest, whatever its head: windows may be smaller than a head.
    pub fn send_head(&mut self, stream: u64, head: HeadFrame, end: bool) -> HeadSent {
        self.put_waiting_head();
        let begun = self.begun_heads.iter().position(|(of, _)| *of == stream);
        let mut bytes = begun.map_or(head.0, |at| self.begun_heads.swap_remove(at).1);
        let Ok(space) = self.quic.stream_capacity(stream) else { return HeadSent::Gone };
        if space < bytes.len() {
            let rest = bytes.split_off(space);
            if space > 0 && self.put(stream, bytes, false).is_err() {
                return HeadSent::Gone;
            }
            if space > 0 || begun.is_some() {
                self.begun_heads.push((stream, rest));
            }
            return HeadSent::Later;
        }
        if !end {
            self.head = Some((stream, bytes));
            return HeadSent::Yes;
        }
        if self.put(stream, bytes, end).is_ok() { HeadSent::Yes } else { HeadSent::Gone }
    }

    /// Forgets the rest of a head.
    pub(super) fn forget_head(&mut self, stream: u64) {
        self.begun_heads.retain(|(of, _)| *of != stream);
    }

    /// Gives QUIC a head without content.
    pub(super) fn put_waiting_head(&mut self) {
        if let Some((stream, bytes)) = self.head.take() {
            let _gone = self.put(stream, bytes, false);
        }
    }

    /// The head that waits for the content of this stream.
    fn take_head(&mut self, stream: u64) -> Vec<u8> {
        match self.head.take_if(|(of, _)| *of == stream) {
            Some((_, bytes)) => bytes,
            None => {
                self.put_waiting_head();
                Vec::new()
            }
        }
    }

    /// Sends `length` bytes of content, at least one and at most [`content_bytes_max`](Self::content_bytes_max), and the end of the
    /// stream if `end` is set. `read` appends the next so many of them.
    ///
    /// # Errors
    /// The client takes no more of the stream, or `read` fails.
    pub fn send_content<E>(
        &mut self,
        stream: u64,
        length: usize,
        end: bool,
        mut read: impl FnMut(usize, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), ContentFault<E>> {
        if length > self.space(stream) {
            return Err(ContentFault::Gone);
        }
        let mut left = length;
        let mut bytes = self.take_head(stream);
        bytes.reserve_exact(frame_header_bytes(length) + left.min(BUFFER_BYTES));
        bytes.push(DATA);
        put_length(length, &mut bytes);
        while left > 0 {
            let piece = left.min(BUFFER_BYTES);
            bytes.reserve_exact(piece);
            read(piece, &mut bytes).map_err(ContentFault::Unread)?;
            left -= piece;
            let full = std::mem::take(&mut bytes);
            self.put(stream, full, end && left == 0).map_err(|StreamGone| ContentFault::Gone)?;
        }
        Ok(())
    }

    /// Ends a stream; `false` if it has no space for that at the moment. The end is that of an empty frame: the library forgets a
    /// stream whose bytes were acknowledged, and does not send an end without bytes again when it was lost.
    ///
    /// # Errors
    /// The client takes no more of this stream.
    pub fn send_end(&mut self, stream: u64) -> Result<bool, StreamGone> {
        self.put_waiting_head();
        let frame = vec![DATA, 0];
        if self.quic.stream_capacity(stream).map_err(|_| StreamGone)? < frame.len() {
            return Ok(false);
        }
        self.put(stream, frame, true).map(|()| true)
    }

    /// Gives QUIC bytes for which the stream has space.
    fn put(&mut self, stream: u64, bytes: Vec<u8>, end: bool) -> Result<(), StreamGone> {
        self.open.put_in_its_place(&mut self.quic, stream, end);
        match self.quic.stream_send_zc(stream, bytes.into(), end) {
            Ok((_, None)) => Ok(()),
            Ok((_, Some(_))) | Err(_) => Err(StreamGone),
        }
    }

    /// Bytes of content that windows of the client and congestion let the stream send. 0 also where only the header of a frame
    /// would fit, without which content cannot be sent.
    pub fn space(&mut self, stream: u64) -> usize {
        let waiting = self.head.as_ref().map_or(0, |(_, bytes)| bytes.len());
        self.quic.stream_capacity(stream).unwrap_or(0).saturating_sub(waiting + DATA_HEADER_BYTES)
    }

    /// Bytes that congestion, and the client's window of the connection, let all streams send.
    pub fn shared_space(&mut self) -> usize {
        // The control stream sends next to nothing.
        self.space(CONTROL_STREAM)
    }

    /// Whether the client takes no more of this stream, whose response has not ended. QUIC has forgotten it if the request came behind
    /// the word that nothing of its response is wanted.
    pub fn is_stopped(&mut self, stream: u64) -> bool {
        use quiche::Error::{InvalidStreamState, StreamStopped};
        matches!(self.quic.stream_capacity(stream), Err(StreamStopped(_) | InvalidStreamState(_)))
    }

    /// The most bytes of content that the stream takes now, of a response that has `left`. 0 also if so little is free that a train
    /// of datagrams would not be full, unless what is left fits; see [`send_little`](Self::send_little).
    pub fn content_bytes_max(&mut self, stream: u64, left: u64) -> usize {
        let space = self.space(stream);
        if self.would_wait(space, left) { 0 } else { space }
    }

    /// Whether the stream would take something that fills no train and is not all that is left.
    pub fn is_held_back(&mut self, stream: u64, left: u64) -> bool {
        let space = self.space(stream);
        space > 0 && self.would_wait(space, left)
    }

    fn would_wait(&self, space: usize, left: u64) -> bool {
        space < self.train_bytes && (space as u64) < left && !self.may_send_little
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number in front, and how many bytes it has.
    fn number(bytes: &[u8]) -> (u64, usize) {
        let count = 1 << (bytes[0] >> 6);
        let rest = bytes[1..count].iter();
        (rest.fold(u64::from(bytes[0] & 0x3f), |number, byte| number << 8 | u64::from(*byte)), count)
    }

    #[test]
    fn the_length_of_a_frame_is_that_of_its_content() {
        for value in [0, 10, 1000, 16_300, 20_000] {
            let mut fields = Vec::new();
            encode_head(200, [(&b"x"[..], &vec![b'v'; value][..])].into_iter(), &mut fields);
            let HeadFrame(bytes) = HeadFrame::new(&fields, None);
            let (length, count) = number(&bytes[1..]);
            assert_eq!(length, (bytes.len() - 1 - count) as u64);
        }
        for length in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30] {
            let mut bytes = Vec::new();
            put_length(length, &mut bytes);
            assert_eq!(number(&bytes), (length as u64, bytes.len()));
        }
    }

    #[test]
    fn a_head_has_exactly_the_space_for_small_content_behind_it() {
        for (content, behind) in [(1, 3), (63, 65), (64, 67), (4096, 4099), (4097, 0), (u64::MAX, 0), (0, 0)]
        {
            let HeadFrame(bytes) = HeadFrame::new(&[b'f'; 100], Some(content));
            assert_eq!((bytes.len(), bytes.capacity()), (103, 103 + behind), "{content}");
        }
        assert_eq!(HeadFrame::new(&[b'f'; 10], None).0.capacity(), 12);
    }
}
