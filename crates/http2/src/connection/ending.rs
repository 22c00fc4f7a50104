//! The end of a connection (RFC 9113 §6.8).

use super::ServerConnection;
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{FrameHeader, MAX_31_BITS, kind};

/// What the PING that follows the first GOAWAY says.
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// A step of ending a connection in an orderly way (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// GOAWAY with 2^31-1 and a PING: new requests are still served. The acknowledgement of the PING begins `Final` by
    /// itself.
    Graceful,
    /// GOAWAY with the last stream that was accepted. Later streams are ignored. The caller begins this step if no
    /// acknowledgement comes within its deadline.
    Final,
}

/// How far the end of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The first GOAWAY was queued.
    Graceful,
    /// The final GOAWAY was queued: later streams are ignored.
    Final,
    /// Nothing more is read.
    Closed(Option<ConnectionError>),
}

impl ServerConnection {
    /// Begins a step of the orderly end. A step that was begun before has no effect.
    pub fn shutdown(&mut self, step: Shutdown) {
        match (step, self.phase) {
            (Shutdown::Graceful, Phase::Open) => {
                self.phase = Phase::Graceful;
                self.queue_goaway(MAX_31_BITS, ErrorCode::NO_ERROR, b"");
                self.control.extend(FrameHeader::new(8, kind::PING, 0, 0).write());
                self.control.extend(SHUTDOWN_PING);
            }
            (Shutdown::Final, Phase::Open | Phase::Graceful) => {
                self.phase = Phase::Final;
                self.queue_goaway(self.last_stream, ErrorCode::NO_ERROR, b"");
            }
            _ => {}
        }
    }

    /// Ends the connection for a reason of the caller (a deadline, a fault): queues GOAWAY with this code. What the client
    /// sends is ignored from now on.
    pub fn close(&mut self, code: ErrorCode) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.queue_goaway(self.last_stream, code, b"");
            self.phase = Phase::Closed(None);
        }
    }

    /// Queues GOAWAY. Its last stream is never above that of an earlier one, whatever the client opened since (RFC 9113 §6.8).
    pub(super) fn queue_goaway(&mut self, last_stream: u32, code: ErrorCode, debug_data: &[u8]) {
        let last_stream = last_stream.min(self.goaway_stream);
        self.goaway_stream = last_stream;
        self.control.extend(FrameHeader::new(8 + debug_data.len(), kind::GOAWAY, 0, 0).write());
        self.control.extend(last_stream.to_be_bytes());
        self.control.extend(code.get().to_be_bytes());
        self.control.extend(debug_data);
    }

    /// Whether the final GOAWAY was queued and no stream is left: close when control frames have been sent.
    pub fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Final | Phase::Closed(_)) && self.streams.len() == 0
    }
}
