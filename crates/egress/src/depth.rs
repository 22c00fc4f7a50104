//! How much may lie unsent in a socket whose congestion control paces.
//!
//! TCP sends a segment of at most 64 KiB each time the pacing timer of a socket fires, as long as more lies unsent. A fast client
//! then costs thousands of interrupts for each GiB. If little lies unsent, the next bytes often come after the time that TCP would
//! have waited, and need no timer. A slow client gains nothing from that and takes more system calls.

use std::time::Instant;

use penstock_sys::ConnectedSocket;
use penstock_sys::socket::{Pacing, pacing, set_unsent_low_water};

/// `TCP_NOTSENT_LOWAT` of a connection that is fast. Every connection begins as one: a rate that TCP has found with much unsent
/// does not recover when less is.
const FAST_LOW_WATER_BYTES: u32 = 32 * 1024;

/// The least pacing rate of a connection that is fast, in bytes per second: 64 KiB each millisecond. TCP paces no larger
/// segments; at lower rates it paces smaller ones, whatever lies unsent.
const FAST_PACING_RATE: u64 = 64 * 1024 * 1000;

/// The largest segment of a path on which connections can be fast. On loopback, which has larger ones, the other core sends what lies
/// unsent, and a client that decrypts costs the server more with little.
const FAST_SEGMENT_BYTES_MAX: u32 = 16 * 1024;

/// What a fast connection takes at least, in bytes per second. A client that reads slowly over a fast path takes less.
const FAST_TAKING_RATE: u64 = 16 * 1024 * 1024;

/// How much of a file one system call moves to a socket without sealing, at most. With 1 MiB for each call, files of 1 MiB cost
/// both cores twice the time (decision 0023).
pub(crate) const PACED_FILE_BYTES: usize = 256 * 1024;

/// How much is sent between two decisions.
const DECISION_BYTES: u64 = 256 * 1024;

/// The low water that connections begin with whose listener has this one (0 is the system's); `None` if it is as small already.
#[must_use]
pub fn fast_low_water(low_water: u32) -> Option<u32> {
    (low_water == 0 || low_water > FAST_LOW_WATER_BYTES).then_some(FAST_LOW_WATER_BYTES)
}

/// The depth of one socket.
#[derive(Debug)]
pub(crate) struct Depth {
    /// `TCP_NOTSENT_LOWAT` of a connection that is not fast; 0 is the system's.
    low_water: u32,
    is_fast: bool,
    /// When the socket was full, and the bytes given to it since: as many as the client has taken when it is full again.
    since: Option<Instant>,
    sent: u64,
}

impl Depth {
    pub(crate) fn new(low_water: u32) -> Self {
        Self { low_water, is_fast: true, since: None, sent: 0 }
    }

    /// Notes that bytes were given to the socket.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// Notes that there is nothing to send.
    pub(crate) fn done(&mut self) {
        self.since = None;
    }

    /// Notes that the socket is full.
    pub(crate) fn full(&mut self, socket: &ConnectedSocket, now: Instant) {
        let Some(since) = self.since else {
            (self.since, self.sent) = (Some(now), 0);
            if self.is_fast {
                // A path that TCP paces slowly is slow whatever the client takes.
                self.decide(socket, u64::MAX);
            }
            return;
        };
        if self.sent < DECISION_BYTES {
            return;
        }
        let micros = u64::try_from(now.saturating_duration_since(since).as_micros()).unwrap_or(u64::MAX);
        let taking_rate = self.sent.saturating_mul(1_000_000) / micros.max(1);
        (self.since, self.sent) = (Some(now), 0);
        self.decide(socket, taking_rate);
    }

    fn decide(&mut self, socket: &ConnectedSocket, taking_rate: u64) {
        // Both calls fail only on a connection that is over.
        let low_water = pacing(socket).ok().and_then(|pacing| self.change(pacing, taking_rate));
        if let Some(low_water) = low_water {
            let _changed = set_unsent_low_water(socket, low_water);
            // What is given next fills the socket first.
            self.since = None;
        }
    }

    /// The low water to set at these rates, if it is another one. A connection stays fast down to half of them.
    fn change(&mut self, pacing: Pacing, taking_rate: u64) -> Option<u32> {
        let divisor = if self.is_fast { 2 } else { 1 };
        let is_fast = pacing.segment_bytes <= FAST_SEGMENT_BYTES_MAX
            && pacing.rate >= FAST_PACING_RATE / divisor
            && taking_rate >= FAST_TAKING_RATE / divisor;
        match (std::mem::replace(&mut self.is_fast, is_fast), is_fast) {
            (false, true) => Some(FAST_LOW_WATER_BYTES),
            (true, false) => Some(self.low_water),
            (false, false) | (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: u64) -> Pacing {
        Pacing { rate, segment_bytes: 1448 }
    }

    #[test]
    fn a_slow_connection_gets_the_low_water_of_its_listener_and_a_fast_one_less() {
        let mut depth = Depth::new(512 * 1024);
        assert_eq!(depth.change(at(FAST_PACING_RATE / 2), FAST_TAKING_RATE / 2), None, "not to and fro");
        assert_eq!(depth.change(at(FAST_PACING_RATE / 2 - 1), FAST_TAKING_RATE), Some(512 * 1024));
        assert_eq!(depth.change(at(FAST_PACING_RATE - 1), FAST_TAKING_RATE), None);
        assert_eq!(depth.change(at(FAST_PACING_RATE), FAST_TAKING_RATE - 1), None);
        assert_eq!(depth.change(at(FAST_PACING_RATE), FAST_TAKING_RATE), Some(FAST_LOW_WATER_BYTES));
        assert_eq!(depth.change(at(FAST_PACING_RATE), FAST_TAKING_RATE / 2 - 1), Some(512 * 1024));
    }

    #[test]
    fn the_systems_low_water_comes_back_as_such() {
        let mut depth = Depth::new(0);
        assert_eq!(depth.change(at(0), 0), Some(0));
        assert_eq!(depth.change(at(u64::MAX), u64::MAX), Some(FAST_LOW_WATER_BYTES));
    }

    #[test]
    fn a_connection_over_loopback_is_never_fast() {
        let mut depth = Depth::new(512 * 1024);
        let loopback = Pacing { rate: u64::MAX, segment_bytes: 32_741 };
        assert_eq!(depth.change(loopback, u64::MAX), Some(512 * 1024));
        assert_eq!(depth.change(loopback, u64::MAX), None);
    }

    #[test]
    fn a_low_water_that_is_smaller_already_stays() {
        assert_eq!(fast_low_water(16 * 1024), None);
        assert_eq!(fast_low_water(FAST_LOW_WATER_BYTES), None);
        assert_eq!(fast_low_water(0), Some(FAST_LOW_WATER_BYTES));
        assert_eq!(fast_low_water(512 * 1024), Some(FAST_LOW_WATER_BYTES));
    }
}
