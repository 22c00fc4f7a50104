//! Counters of HTTP/3 and QUIC.

use crate::cells::{Counter, CounterVec};
use crate::shard::Shard;

/// Counters of HTTP/3 and QUIC.
#[derive(Debug, Default)]
pub(crate) struct Http3Counters {
    pub(crate) streams_opened: Counter,
    pub(crate) streams_closed: Counter,
    pub(crate) resets: CounterVec<&'static str>,
    pub(crate) versions: CounterVec<&'static str>,
    pub(crate) connection_ends: CounterVec<&'static str>,
    pub(crate) answered: CounterVec<&'static str>,
    pub(crate) dropped: CounterVec<&'static str>,
    pub(crate) packets_received: Counter,
    pub(crate) packets_sent: Counter,
    pub(crate) packets_lost: Counter,
    pub(crate) migrations: Counter,
}

/// Packets of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicPackets {
    /// Received and decrypted.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Taken for lost.
    pub lost: u64,
    /// How often the client went to another address.
    pub migrations: u64,
}

impl Shard {
    /// Counts a stream of HTTP/3 that a client opened. Each call is followed by one of [`Shard::http3_stream_closed`].
    pub fn http3_stream_opened(&self) {
        self.expect_own_thread();
        self.http3.streams_opened.add(1);
    }

    /// Counts the end of a stream's work.
    pub fn http3_stream_closed(&self) {
        self.expect_own_thread();
        self.http3.streams_closed.add(1);
    }

    /// Counts a stream that ended early, by cause.
    pub fn http3_stream_reset(&self, cause: &'static str) {
        self.expect_own_thread();
        self.http3.resets.add(cause);
    }

    /// Counts a connection that a client has begun, or wanted to begin with another version, by version.
    pub fn quic_version(&self, version: &'static str) {
        self.expect_own_thread();
        self.http3.versions.add(version);
    }

    /// Counts the end of a connection, by reason.
    pub fn quic_ended(&self, reason: &'static str) {
        self.expect_own_thread();
        self.http3.connection_ends.add(reason);
    }

    /// Counts a datagram that was answered without a connection, by the answer.
    pub fn quic_answered(&self, answer: &'static str) {
        self.expect_own_thread();
        self.http3.answered.add(answer);
    }

    /// Counts a datagram that was dropped, by reason.
    pub fn quic_dropped(&self, reason: &'static str) {
        self.expect_own_thread();
        self.http3.dropped.add(reason);
    }

    /// Adds packets.
    pub fn quic_packets(&self, packets: &QuicPackets) {
        self.expect_own_thread();
        self.http3.packets_received.add(packets.received);
        self.http3.packets_sent.add(packets.sent);
        self.http3.packets_lost.add(packets.lost);
        self.http3.migrations.add(packets.migrations);
    }
}
