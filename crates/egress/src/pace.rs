//! Sizes of records and batches: pure policy.

use std::time::{Duration, Instant};

/// Bounds of one step of an outlet. The numbers stand in the configuration's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutletLimits {
    /// Ciphertext sealed before one `send`, at least, in bytes.
    pub batch_bytes_min: usize,
    /// Ciphertext sealed before one `send`, at most, in bytes.
    pub batch_bytes_max: usize,
    /// Bytes of a file that one system call moves to a socket without sealing, at most.
    pub plain_bytes_max: usize,
    /// Plaintext of a record that fits one packet, in bytes.
    pub small_record_bytes: usize,
    /// How much is sent in such records at first, in bytes.
    pub small_record_phase_bytes: u64,
    /// A pause after which the path's congestion window cannot be trusted any more.
    pub idle: Duration,
    /// Records that may be sealed with one key (RFC 8446 §5.5).
    pub records_per_key: u64,
}

/// The most plaintext a record can carry (RFC 8446 §5.1).
pub(crate) const RECORD_BYTES: usize = 16 * 1024;

/// Decides sizes from what has happened on one connection.
#[derive(Debug)]
pub(crate) struct Pace {
    batch_bytes: usize,
    sent_since_idle: u64,
    last_send: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(limits: &OutletLimits) -> Self {
        Self { batch_bytes: limits.batch_bytes_min * 2, sent_since_idle: 0, last_send: None }
    }

    /// The largest plaintext of the next record.
    ///
    /// A client can use a record only when all of it has arrived: while the congestion window is small, records
    /// of one packet let it start after the first packet rather than after the twelfth.
    pub(crate) fn record_bytes(&self, limits: &OutletLimits) -> usize {
        if self.sent_since_idle < limits.small_record_phase_bytes {
            limits.small_record_bytes
        } else {
            RECORD_BYTES
        }
    }

    /// How much to seal for the next `send`.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Notes that sending goes on at `now`.
    pub(crate) fn resume(&mut self, limits: &OutletLimits, now: Instant) {
        let idle = self.last_send.is_some_and(|last| now.saturating_duration_since(last) >= limits.idle);
        if idle {
            self.sent_since_idle = 0;
        }
        self.last_send = Some(now);
    }

    /// Notes that a record with so much plaintext was sealed.
    pub(crate) fn sealed(&mut self, plaintext_bytes: usize) {
        self.sent_since_idle = self.sent_since_idle.saturating_add(plaintext_bytes as u64);
    }

    /// Notes how much of a batch the socket took.
    ///
    /// The rest is kept per connection, so the size of a batch follows the rate of the reader: ten thousand slow readers
    /// hold little more than the smallest batch each.
    pub(crate) fn taken(&mut self, limits: &OutletLimits, offered: usize, taken: usize) {
        if taken < offered {
            self.batch_bytes = taken.clamp(limits.batch_bytes_min, limits.batch_bytes_max);
        } else if offered >= self.batch_bytes {
            self.batch_bytes = (self.batch_bytes * 2).min(limits.batch_bytes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: OutletLimits = OutletLimits {
        batch_bytes_min: 64 * 1024,
        batch_bytes_max: 512 * 1024,
        plain_bytes_max: 1024 * 1024,
        small_record_bytes: 1400,
        small_record_phase_bytes: 64 * 1024,
        idle: Duration::from_secs(1),
        records_per_key: 1 << 24,
    };

    #[test]
    fn records_grow_after_the_first_64_kib_and_shrink_again_after_a_second_of_silence() {
        let start = Instant::now();
        let mut pace = Pace::new(&LIMITS);
        pace.resume(&LIMITS, start);
        assert_eq!(pace.record_bytes(&LIMITS), 1400);
        for _ in 0..47 {
            pace.sealed(1400);
        }
        assert_eq!(pace.record_bytes(&LIMITS), RECORD_BYTES);
        pace.resume(&LIMITS, start + Duration::from_millis(999));
        assert_eq!(pace.record_bytes(&LIMITS), RECORD_BYTES);
        pace.resume(&LIMITS, start + Duration::from_millis(1999));
        assert_eq!(pace.record_bytes(&LIMITS), 1400);
    }

    #[test]
    fn a_fast_reader_gets_full_batches_and_a_slow_one_the_smallest() {
        let mut pace = Pace::new(&LIMITS);
        for _ in 0..4 {
            let offered = pace.batch_bytes();
            pace.taken(&LIMITS, offered, offered);
        }
        assert_eq!(pace.batch_bytes(), LIMITS.batch_bytes_max);
        pace.taken(&LIMITS, LIMITS.batch_bytes_max, 100);
        assert_eq!(pace.batch_bytes(), LIMITS.batch_bytes_min);
    }

    #[test]
    fn a_batch_that_was_short_because_the_response_ended_does_not_grow_the_next() {
        let mut pace = Pace::new(&LIMITS);
        let before = pace.batch_bytes();
        pace.taken(&LIMITS, 300, 300);
        assert_eq!(pace.batch_bytes(), before);
    }
}
