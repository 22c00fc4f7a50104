//! One connection, as the server sees it.

use std::time::Instant;

use crate::error::{ConnectionError, ErrorCode};
use crate::event::{StreamEvent, StreamId};
use crate::limits::Http2Limits;
use crate::priority::Priority;

/// What a client sends first (RFC 9113 §3.4). A plain listener recognises HTTP/2 by it.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a stream has to send next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outgoing {
    /// Nothing at the moment: the response waits for its origin, a page, or the application.
    #[default]
    Nothing,
    /// Frames that flow control does not concern: HEADERS, an empty DATA frame with END_STREAM.
    Frames,
    /// DATA with payload.
    Data,
}

/// A step of ending a connection in an orderly way (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// GOAWAY with 2^31-1 and a PING: new requests are still served. The acknowledgement of the PING begins `Final` by
    /// itself.
    Announce,
    /// GOAWAY with the last stream that was accepted. Later streams are ignored. The caller begins this step if no
    /// acknowledgement comes within its deadline.
    Final,
}

/// One connection. It does no input and output.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Http2Limits,
}

impl ServerConnection {
    /// The most bytes that a connection without streams holds after [`release_memory`](Self::release_memory), with the
    /// default limits.
    pub const IDLE_BYTES_MAX: usize = 6 * 1024;

    /// Queues SETTINGS, and WINDOW_UPDATE for the connection.
    pub fn new(limits: &Http2Limits) -> Self {
        Self { limits: limits.clone() }
    }

    /// Takes bytes that the client sent, all of them, in pieces of any length. An unfinished frame is kept (at most 16 KiB,
    /// only DATA is passed on in parts). Take the events before the next call.
    ///
    /// # Errors
    /// The connection ends: send [`take_control`](Self::take_control), which contains GOAWAY, then close. Every further call
    /// returns the same error.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Result<(), ConnectionError> {
        Ok(())
    }

    /// The next thing that the client did.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        None
    }

    /// Whether a frame or a field block has begun and its rest is missing, or the preface has not come: the caller gives
    /// the client a deadline for it.
    pub fn is_unfinished(&self) -> bool {
        false
    }

    /// Whether control frames wait to be sent.
    pub fn has_control(&self) -> bool {
        false
    }

    /// Control frames that are ready to be sent (acknowledgements, WINDOW_UPDATE, RST_STREAM, GOAWAY). Call it only when the
    /// frames taken before were given to the socket: the bound for a client that does not read counts what waits here.
    pub fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Appends HEADERS (and CONTINUATION) with a response head to `out`. With a status of 1xx and `end` unset a further head
    /// follows. Names may have any case; connection-specific fields are left out.
    ///
    /// Field blocks change the state that both sides share: the bytes must be sent whole and in the order of the calls, even
    /// if the stream is reset in between.
    pub fn head<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        out: &mut Vec<u8>,
    ) {
    }

    /// Appends HEADERS with trailers, which end the stream. What is said of [`head`](Self::head) is true here as well.
    pub fn trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) {
    }

    /// The bytes that flow control lets this stream send now, at most 2^31-1; 0 if it is stalled, ended or reset.
    pub fn sendable(&self, stream: StreamId) -> usize {
        0
    }

    /// The largest payload of a frame that the client takes (`SETTINGS_MAX_FRAME_SIZE`): at least 16,384.
    pub fn frame_bytes_max(&self) -> usize {
        16_384
    }

    /// The header of a DATA frame with `length` bytes, which are taken from both windows. `length` is at most
    /// [`sendable`](Self::sendable) and [`frame_bytes_max`](Self::frame_bytes_max).
    ///
    /// # Panics
    /// If `length` is larger.
    pub fn data_header(&mut self, stream: StreamId, length: usize, end: bool) -> [u8; 9] {
        [0; 9]
    }

    /// The application has taken `bytes` of the stream's request body: the client may send as many again.
    pub fn release(&mut self, stream: StreamId, bytes: usize) {}

    /// Resets a stream on behalf of the application: queues RST_STREAM. Events of the stream that were not taken remain.
    /// [`finished`](Self::finished) must follow.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {}

    /// The work for a stream has ended, and its place among the concurrent streams is free. If the response was not sent
    /// whole, RST_STREAM (INTERNAL_ERROR) is queued. If the client is still sending a body that is not needed, RST_STREAM
    /// (NO_ERROR) is (RFC 9113 §8.1).
    pub fn finished(&mut self, stream: StreamId) {}

    /// Streams that occupy a place.
    pub fn streams(&self) -> usize {
        0
    }

    /// Begins a step of the orderly end.
    pub fn shutdown(&mut self, step: Shutdown) {}

    /// Ends the connection for a reason of the caller (a deadline, a fault): queues GOAWAY with this code.
    pub fn close(&mut self, code: ErrorCode) {}

    /// Whether the final GOAWAY was queued and no stream is left: close when control frames have been sent.
    pub fn is_drained(&self) -> bool {
        false
    }

    /// Says what a stream has to send. Control frames need no call.
    pub fn set_outgoing(&mut self, stream: StreamId, outgoing: Outgoing) {}

    /// Sets the urgency, 0 to 7, of a response for which the client said nothing. Urgency by content type is set here.
    pub fn set_default_urgency(&mut self, stream: StreamId, urgency: u8) {}

    /// The priority in force for a stream.
    pub fn priority(&self, stream: StreamId) -> Priority {
        Priority::default()
    }

    /// The stream whose frame is to be sent next (RFC 9218 §10), among those that have something to send and that flow
    /// control lets send. Lower urgency first. Within an urgency, streams that are not incremental are sent one after the
    /// other in the order of requests, and incremental ones in turns.
    ///
    /// The turn of a stream ends with this call, so the caller sends a frame for it, or sets
    /// [`Outgoing::Nothing`].
    pub fn next_stream(&mut self) -> Option<StreamId> {
        None
    }

    /// How many times a window became empty while the stream had more to send, since the last call.
    pub fn take_stalls(&mut self) -> u32 {
        0
    }

    /// Gives back memory that a connection without streams does not need. To be called when the connection becomes idle.
    pub fn release_memory(&mut self) {}
}
