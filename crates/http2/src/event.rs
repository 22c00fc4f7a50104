//! What a client did, as the application of a connection sees it.

use std::fmt;

use crate::error::ErrorCode;
use crate::request_head::RequestHead;

/// The number of a stream that a client opened: odd, at most 2^31-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    pub(crate) const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// One thing that the client did.
///
/// A stream occupies a place from `Request` or `Rejected` on until
/// [`ServerConnection::finished`](crate::ServerConnection::finished).
#[derive(Debug)]
pub enum StreamEvent {
    /// A valid request.
    Request {
        /// Its stream.
        stream: StreamId,
        /// The validated head.
        head: RequestHead,
        /// Whether it has no body.
        end: bool,
    },
    /// A request that cannot be delivered but should be answered: send a response with this status, with `end` set, then
    /// call `finished`. The body is discarded.
    Rejected {
        /// Its stream.
        stream: StreamId,
        /// The status to answer with: 431 for a field section over [`Http2Limits`](crate::Http2Limits), 414 for a target.
        status: u16,
        /// The bound, as a label.
        reason: &'static str,
    },
    /// A part of a request body. Give it back with [`ServerConnection::release`](crate::ServerConnection::release).
    Data {
        /// Its stream.
        stream: StreamId,
        /// The bytes; empty only with `end`.
        bytes: Vec<u8>,
        /// Whether the body ends here.
        end: bool,
    },
    /// The trailers of a request, which end its body. They were validated.
    Trailers {
        /// Its stream.
        stream: StreamId,
        /// Lines of the form `name: value\r\n`.
        lines: Vec<u8>,
    },
    /// The body of a request ended before its Content-Length, behind the head of the response: the client stops its upload
    /// because of that head, as curl does for 4xx. The response goes on, and the body counts as broken off.
    BrokenOff {
        /// Its stream.
        stream: StreamId,
    },
    /// A stream that was delivered ended early: stop its work, then call `finished`. No frame may be sent for it any more.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The code that was received or sent.
        code: ErrorCode,
        /// `client` if the client reset the stream, otherwise the rule that the client violated.
        reason: &'static str,
    },
    /// A request that was refused with RST_STREAM and was never delivered. For counters only.
    Refused {
        /// Its stream.
        stream: StreamId,
        /// The code that was sent.
        code: ErrorCode,
        /// The rule or bound, as a label.
        reason: &'static str,
    },
    /// The client sent GOAWAY. Open streams go on.
    GoAway {
        /// Its code.
        code: ErrorCode,
    },
}
