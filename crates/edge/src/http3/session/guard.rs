//! What a client may not do too often, or too early.

use std::time::Instant;

use penstock_http2::Flood;
use penstock_http3::code;

use super::{End, Session};
use crate::carrier::{Early, Multiplexer};
use crate::http3::request::RequestHead;
use crate::metrics::ShortReason;

impl Session {
    /// Streams that wait for the end of the handshake go on once it has come.
    pub(super) fn notice_handshake(&mut self) {
        if self.unfinished.is_none() {
            return;
        }
        let mut state = self.shared.state.borrow_mut();
        if state.protocol.connection.get_mut().is_established() {
            self.unfinished = None;
            state.finish_handshake();
        }
    }

    /// The rules of early data are those of HTTP/1.
    pub(super) fn judge_early(&mut self, head: &RequestHead, end: bool) -> Early {
        let Some(unfinished) = &mut self.unfinished else { return Early::No };
        let is_harmless = matches!(head.0.method(), "GET" | "HEAD") && end;
        if unfinished.admits(is_harmless, head.0.lines().len()) { Early::Answer } else { Early::Wait }
    }

    /// The client has reset a stream, or takes no more of it. One of whose response nothing was sent counts (CVE-2023-44487).
    pub(super) fn reset_by_client(&mut self, stream: u64, now: Instant) -> Result<(), End> {
        self.shared.worker.shard.http3_stream_reset("client");
        let mut state = self.shared.state.borrow_mut();
        let has_begun = state.protocol.has_begun(stream);
        state.protocol.reset(stream, ShortReason::ClientClosed);
        state.reset_by_client(stream, &self.shared, now);
        drop(state);
        if has_begun { Ok(()) } else { self.count(Flood::Reset) }
    }

    /// Ends a request whose body has not its Content-Length (RFC 9114 §4.1.2). It is malformed.
    pub(super) fn refuse_body(&mut self, stream: u64) -> Result<(), End> {
        self.shared.worker.shard.http3_stream_reset("content_length");
        let mut state = self.shared.state.borrow_mut();
        state.protocol.refuse(stream);
        state.reset_by_client(stream, &self.shared, Instant::now());
        drop(state);
        self.count(Flood::ProvokedReset)
    }

    /// Refuses a request with an error code.
    pub(super) fn refuse(&mut self, stream: u64, code: u64) -> Result<(), End> {
        let mut state = self.shared.state.borrow_mut();
        let connection = state.protocol.connection.get_mut();
        connection.reset(stream, code);
        connection.finished(stream);
        drop(state);
        self.count(if code == code::REQUEST_REJECTED { Flood::RefusedStream } else { Flood::ProvokedReset })
    }

    /// Counts what costs more to serve than to send, by the limits of HTTP/2.
    pub(super) fn count(&mut self, flood: Flood) -> Result<(), End> {
        self.floods.count(flood).map_err(|error| {
            self.shared.worker.shard.http3_stream_reset(error.reason);
            End(code::EXCESSIVE_LOAD)
        })
    }
}
