//! Counters by version of HTTP, and those of HTTP/2.

use crate::cells::{Counter, CounterVec};
use crate::labels::HttpLabel;
use crate::shard::Shard;

/// Counters of HTTP/2.
#[derive(Debug, Default)]
pub(crate) struct Http2Counters {
    pub(crate) streams_opened: Counter,
    pub(crate) streams_closed: Counter,
    pub(crate) resets: CounterVec<&'static str>,
    pub(crate) refused: CounterVec<&'static str>,
    pub(crate) stalls: Counter,
    pub(crate) connection_errors: CounterVec<&'static str>,
}

impl Shard {
    /// Counts a connection by the version of HTTP that it speaks.
    pub fn connection_speaks(&self, version: HttpLabel) {
        self.expect_own_thread();
        self.connections_by_version[version as usize].add(1);
    }

    /// Counts a request by its version of HTTP.
    pub fn request_of(&self, version: HttpLabel) {
        self.expect_own_thread();
        self.requests_by_version[version as usize].add(1);
    }

    /// Counts a stream that a client opened. Each call is followed by one of [`Shard::stream_closed`].
    pub fn stream_opened(&self) {
        self.expect_own_thread();
        self.http2.streams_opened.add(1);
    }

    /// Counts the end of a stream's work.
    pub fn stream_closed(&self) {
        self.expect_own_thread();
        self.http2.streams_closed.add(1);
    }

    /// Counts a stream that ended early, by cause.
    pub fn stream_reset(&self, cause: &'static str) {
        self.expect_own_thread();
        self.http2.resets.add(cause);
    }

    /// Counts a stream that was refused before any work, by bound.
    pub fn stream_refused(&self, reason: &'static str) {
        self.expect_own_thread();
        self.http2.refused.add(reason);
    }

    /// Counts flow-control windows that were empty while a stream had more to send.
    pub fn stalled(&self, times: u64) {
        self.expect_own_thread();
        self.http2.stalls.add(times);
    }

    /// Counts a connection of HTTP/2 that ended because of an error or a flood of the client.
    pub fn http2_error(&self, reason: &'static str) {
        self.expect_own_thread();
        self.http2.connection_errors.add(reason);
    }
}
