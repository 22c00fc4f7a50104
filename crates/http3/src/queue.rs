//! The library's queue of streams that have something to send.
//!
//! The library sends packets again after a timeout, as probes (RFC 9002 §6.2), or when they count as lost: it queues their streams. If the
//! client acknowledges their content, which may have left twice, before all of the streams were sent, an empty stream stays the first of the
//! queue, and what is behind it waits until that stream gets more bytes. Streams that may be such ones therefore go to the end of the
//! queue until then.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::buffers::Quic;

/// This server's control stream: its first unidirectional one (RFC 9000 §2.1).
pub(crate) const CONTROL_STREAM: u64 = 3;

/// This server's streams of QPACK: its next unidirectional ones. They have a byte for their type, and never more.
const QPACK_STREAMS: [u64; 2] = [CONTROL_STREAM + 4, CONTROL_STREAM + 8];

/// The priority of streams that are first. No response has this urgency.
const FIRST: (u8, bool) = (0, false);

/// The urgency of streams that are the last, and take turns.
const LAST: u8 = u8::MAX;

/// How many empty streams are passed over in search of one that is not.
const EMPTY_STREAMS: usize = 8;

/// Requests whose work has not ended, and their places in the library's queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    places: BTreeMap<u64, Place>,
    /// Timeouts of all paths that called for probes, and lost packets.
    repeats: usize,
    /// Whether responses may be at the end of the queue.
    has_last: bool,
}

/// The place of a response.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Urgency, and whether it takes turns with others.
    priority: (u8, bool),
    /// Whether a part of it was sent, and more will be.
    is_begun: bool,
    is_last: bool,
}

impl Queue {
    /// Takes note of a request. False if it is known.
    pub(crate) fn add(&mut self, stream: u64) -> bool {
        let Entry::Vacant(new) = self.places.entry(stream) else { return false };
        // The priority is the one that the library gives.
        new.insert(Place { priority: (127, true), is_begun: false, is_last: false });
        true
    }

    /// Forgets a request. False if it is not known.
    pub(crate) fn remove(&mut self, stream: u64) -> bool {
        self.places.remove(&stream).is_some()
    }

    pub(crate) fn has(&self, stream: u64) -> bool {
        self.places.contains_key(&stream)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Sets urgency and kind of a stream.
    pub(crate) fn set_priority(&mut self, quic: &mut Quic, stream: u64, (urgency, incremental): (u8, bool)) {
        let Some(place) = self.places.get_mut(&stream) else { return };
        place.priority = (FIRST.0 + 1 + urgency, incremental);
        if !place.is_last {
            put_at(quic, stream, place.priority);
        }
    }

    /// Called before a stream gets bytes, with which it leaves the queue as all others. `end` if they are its last ones.
    pub(crate) fn put_in_its_place(&mut self, quic: &mut Quic, stream: u64, end: bool) {
        let Some(place) = self.places.get_mut(&stream) else { return };
        place.is_begun = !end;
        if std::mem::take(&mut place.is_last) {
            put_at(quic, stream, place.priority);
        }
    }

    /// Called after packets were received, or timers followed.
    pub(crate) fn follow_repeats(&mut self, quic: &mut Quic) {
        let probes: usize = quic.path_stats().map(|path| path.total_pto_count).sum();
        let repeats = probes + quic.stats().lost;
        if std::mem::replace(&mut self.repeats, repeats) == repeats {
            return;
        }
        self.has_last = true;
        put_at(quic, CONTROL_STREAM, (LAST, true));
        for (stream, place) in self.places.iter_mut().filter(|(_, place)| place.is_begun) {
            place.is_last = true;
            put_at(quic, *stream, (LAST, true));
        }
    }

    /// The next packet of the library.
    pub(crate) fn packet(
        &mut self,
        quic: &mut Quic,
        out: &mut [u8],
    ) -> quiche::Result<(usize, quiche::SendInfo)> {
        let mut sent = quic.send(out);
        // The library does not look behind an empty stream, and puts it behind those with which it takes turns.
        for _ in 0..EMPTY_STREAMS {
            if sent != Err(quiche::Error::Done) || !self.has_last {
                break;
            }
            self.has_last = self.places.values().any(|place| place.is_last);
            sent = quic.send(out);
        }
        sent
    }
}

/// Puts the streams of QPACK behind all others, once they are there.
pub(crate) fn put_qpack_last(quic: &mut Quic) {
    for stream in QPACK_STREAMS {
        put_at(quic, stream, (LAST, true));
    }
}

/// Called when the control stream has got bytes.
pub(crate) fn put_control_first(quic: &mut Quic) {
    put_at(quic, CONTROL_STREAM, FIRST);
}

/// Called when a stream is reset. The library sends the reset in the next packet, and an end of the stream if it had bytes in the queue. A client
/// that gets the end alone takes what it has for the whole response, so both have to leave in one packet.
pub(crate) fn put_reset_first(quic: &mut Quic, stream: u64) {
    put_at(quic, stream, FIRST);
}

fn put_at(quic: &mut Quic, stream: u64, (urgency, incremental): (u8, bool)) {
    let _gone = quic.stream_priority(stream, urgency, incremental);
}
