//! The library's queue of streams that have something to send.
//!
//! After a timeout the library sends the oldest packets again, as probes (RFC 9002 §6.2): it queues their streams. If the client acknowledges
//! these packets before all of the streams were sent, an empty stream stays the first of the queue, and what is behind it waits until
//! that stream gets more bytes. Streams that may be such ones therefore go to the end of the queue until then.

use super::ServerConnection;
use super::sending::CONTROL_STREAM;

/// This server's streams of QPACK: its next unidirectional ones. They have a byte for their type, and never more.
const QPACK_STREAMS: [u64; 2] = [CONTROL_STREAM + 4, CONTROL_STREAM + 8];

/// The urgency of streams that are the last, and take turns.
const LAST: u8 = u8::MAX;

/// How many empty streams are passed over in search of one that is not.
const EMPTY_STREAMS: usize = 8;

/// The place of a response in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Urgency, and whether it takes turns with others.
    priority: (u8, bool),
    /// Whether a part of it was sent, and more will be.
    is_begun: bool,
    is_last: bool,
}

impl Default for Place {
    /// The one that the library gives.
    fn default() -> Self {
        Self { priority: (127, true), is_begun: false, is_last: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Timeouts of all paths that called for probes.
    count: usize,
    /// Whether responses may be at the end of the queue.
    may_remain: bool,
}

impl ServerConnection {
    /// Sets urgency and kind of a stream for what the library has taken (RFC 9218 §4).
    pub fn set_priority(&mut self, stream: u64, urgency: u8, incremental: bool) {
        let Some(place) = self.open.get_mut(&stream) else { return };
        place.priority = (urgency, incremental);
        if !place.is_last {
            self.put_at(stream, urgency, incremental);
        }
    }

    fn put_at(&mut self, stream: u64, urgency: u8, incremental: bool) {
        let _gone = self.quic.stream_priority(stream, urgency, incremental);
    }

    /// Called once those of HTTP/3 have begun.
    pub(super) fn put_qpack_last(&mut self) {
        for stream in QPACK_STREAMS {
            self.put_at(stream, LAST, true);
        }
    }

    /// Called before something is sent on the control stream.
    pub(super) fn put_control_first(&mut self) {
        self.put_at(CONTROL_STREAM, 0, false);
    }

    /// Called before a stream gets bytes, with which it leaves the queue as all others. `end` if they are its last ones.
    pub(super) fn put_in_its_place(&mut self, stream: u64, end: bool) {
        let Some(place) = self.open.get_mut(&stream) else { return };
        place.is_begun = !end;
        if std::mem::take(&mut place.is_last) {
            let (urgency, incremental) = place.priority;
            self.put_at(stream, urgency, incremental);
        }
    }

    /// Called after timers.
    pub(super) fn follow_probes(&mut self) {
        let count = self.quic.path_stats().map(|path| path.total_pto_count).sum();
        if std::mem::replace(&mut self.probes.count, count) == count {
            return;
        }
        self.probes.may_remain = true;
        self.put_at(CONTROL_STREAM, LAST, true);
        for (stream, place) in self.open.iter_mut().filter(|(_, place)| place.is_begun) {
            place.is_last = true;
            let _gone = self.quic.stream_priority(*stream, LAST, true);
        }
    }

    /// The next packet of the library.
    pub(super) fn send_next(&mut self, out: &mut [u8]) -> quiche::Result<(usize, quiche::SendInfo)> {
        let mut sent = self.quic.send(out);
        // The library does not look behind an empty stream, and puts it behind those with which it takes turns.
        for _ in 0..EMPTY_STREAMS {
            if sent != Err(quiche::Error::Done) || !self.probes.may_remain {
                break;
            }
            self.probes.may_remain = self.open.values().any(|place| place.is_last);
            sent = self.quic.send(out);
        }
        sent
    }
}
