//! Rate of full handshakes: a token bucket that lets a bounded number of handshakes wait for a token.

use std::time::{Duration, Instant};

/// The limit on one worker's full handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeRate {
    /// Time between two handshakes.
    pub interval: Duration,
    /// The longest pause that is made up for at once.
    pub burst: Duration,
    /// A handshake that would wait longer than this is refused.
    pub wait_max: Duration,
}

impl HandshakeRate {
    /// Allows `handshakes` per second; at most `waiting_max` more wait, each no longer than `wait_max`. Returns `None`
    /// if `handshakes` is not a positive number.
    #[must_use]
    pub fn per_second(handshakes: f64, waiting_max: usize, wait_max: Duration) -> Option<Self> {
        if !handshakes.is_finite() || handshakes <= 0.0 {
            return None;
        }
        let interval = Duration::from_secs_f64((1.0 / handshakes).min(3600.0));
        let all_waiting = interval.saturating_mul(u32::try_from(waiting_max).unwrap_or(u32::MAX));
        Some(Self { interval, burst: Duration::from_secs(1), wait_max: wait_max.min(all_waiting) })
    }
}

/// Decision about a full handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateDecision {
    /// Continue.
    Now,
    /// Continue after this time. The token is taken.
    After(Duration),
    /// Refuse.
    Refused,
}

/// Token bucket of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: HandshakeRate,
    /// When all handshakes so far would end, one per interval.
    done_at: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: HandshakeRate, now: Instant) -> Self {
        Self { rate, done_at: now }
    }

    /// The bucket at another rate: tokens that were taken in advance stay taken.
    pub(crate) fn at_rate(&self, rate: HandshakeRate, now: Instant) -> Self {
        let ahead = self.done_at.saturating_duration_since(now).div_duration_f64(self.rate.interval);
        let ahead = Duration::try_from_secs_f64(ahead * rate.interval.as_secs_f64()).unwrap_or(rate.wait_max);
        Self { rate, done_at: now + ahead.min(rate.burst.max(rate.interval) + rate.wait_max) }
    }

    pub(crate) fn rate(&self) -> HandshakeRate {
        self.rate
    }

    /// Whether a handshake could continue now.
    pub(crate) fn has_capacity(&self, now: Instant) -> bool {
        self.wait(now).is_zero()
    }

    /// Takes the token of a handshake that continued.
    pub(crate) fn take(&mut self, now: Instant) {
        self.done_at = self.done_at.max(now) + self.rate.interval;
    }

    /// Decides on a handshake, and takes its token unless it is refused. `waiting` handshakes of the same client network
    /// wait already: a network never has more places to wait than it leaves to others.
    pub(crate) fn admit(&mut self, now: Instant, waiting: u32) -> RateDecision {
        let wait = self.wait(now);
        let left = self.rate.wait_max.checked_sub(wait);
        if left.is_none_or(|left| self.rate.interval.saturating_mul(waiting) > left) {
            return RateDecision::Refused;
        }
        self.take(now);
        if wait.is_zero() { RateDecision::Now } else { RateDecision::After(wait) }
    }

    fn wait(&self, now: Instant) -> Duration {
        // A token is worth an interval, which has to fit the burst as a whole.
        let ahead = self.done_at.saturating_duration_since(now) + self.rate.interval;
        ahead.saturating_sub(self.rate.burst.max(self.rate.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Ten in a second, of which five may wait.
    fn ten() -> HandshakeRate {
        HandshakeRate::per_second(10.0, 5, Duration::from_secs(2)).unwrap()
    }

    #[test]
    fn a_second_s_worth_passes_at_once_the_next_wait_and_the_rest_are_refused() {
        let start = Instant::now();
        let mut bucket = Bucket::new(ten(), start);
        let verdicts: Vec<RateDecision> = (0..17).map(|_| bucket.admit(start, 0)).collect();
        assert_eq!(verdicts[..10], [RateDecision::Now; 10]);
        let waits = (1..=5).map(|place| RateDecision::After(milliseconds(100 * place)));
        assert_eq!(verdicts[10..15], waits.collect::<Vec<_>>());
        assert_eq!(verdicts[15..], [RateDecision::Refused; 2]);
    }

    #[test]
    fn over_time_so_many_pass_as_were_allowed() {
        for (interval, wanted) in [(10, 10 + 5 + 100), (200, 51)] {
            let start = Instant::now();
            let mut bucket = Bucket::new(ten(), start);
            let steps = 10_000 / interval;
            let asked = (0..=steps).map(|step| bucket.admit(start + milliseconds(step * interval), 0));
            let passed = asked.filter(|verdict| *verdict != RateDecision::Refused).count();
            assert_eq!(passed, wanted, "one every {interval} ms");
        }
    }

    #[test]
    fn a_pause_is_made_up_for_by_one_burst_only() {
        let start = Instant::now();
        let mut bucket = Bucket::new(ten(), start);
        let later = start + Duration::from_secs(3600);
        let at_once = (0..100).filter(|_| bucket.admit(later, 0) == RateDecision::Now).count();
        assert_eq!(at_once, 10);
    }

    #[test]
    fn another_rate_gives_no_burst_to_those_that_have_had_theirs() {
        let start = Instant::now();
        let mut bucket = Bucket::new(ten(), start);
        let taken = (0..12).filter(|_| bucket.admit(start, 0) != RateDecision::Refused).count();
        assert_eq!(taken, 12);
        let twenty = HandshakeRate::per_second(20.0, 5, Duration::from_secs(2)).unwrap();
        let mut faster = bucket.at_rate(twenty, start);
        // Twelve were taken, which are 600 ms of the new rate: eight are left of its burst.
        let at_once = (0..100).filter(|_| faster.admit(start, 0) == RateDecision::Now).count();
        assert_eq!(at_once, 8);
        let five = HandshakeRate::per_second(5.0, 5, Duration::from_secs(2)).unwrap();
        assert!(!bucket.at_rate(five, start).has_capacity(start));
        assert!(
            bucket.at_rate(five, start + Duration::from_secs(5)).has_capacity(start + Duration::from_secs(5))
        );
    }

    #[test]
    fn a_rate_below_one_in_a_second_lets_one_pass() {
        let rate = HandshakeRate::per_second(0.5, 100, Duration::from_secs(5)).unwrap();
        let start = Instant::now();
        let mut bucket = Bucket::new(rate, start);
        assert!(bucket.has_capacity(start));
        assert_eq!(bucket.admit(start, 0), RateDecision::Now);
        assert!(!bucket.has_capacity(start));
        assert_eq!(bucket.admit(start, 0), RateDecision::After(Duration::from_secs(2)));
        assert_eq!(bucket.admit(start, 0), RateDecision::After(Duration::from_secs(4)));
        assert_eq!(bucket.admit(start, 0), RateDecision::Refused);
    }

    #[test]
    fn a_network_leaves_places_to_wait_to_others() {
        let start = Instant::now();
        let mut bucket = Bucket::new(ten(), start);
        let (mut at_once, mut waiting) = (0, 0);
        for _ in 0..100 {
            match bucket.admit(start, waiting) {
                RateDecision::Now => at_once += 1,
                RateDecision::After(_) => waiting += 1,
                RateDecision::Refused => {}
            }
        }
        assert_eq!((at_once, waiting), (10, 3));
        assert_eq!(bucket.admit(start, 0), RateDecision::After(milliseconds(400)), "another network");
    }

    #[test]
    fn no_handshake_waits_longer_than_allowed_even_if_few_wait() {
        let rate = HandshakeRate::per_second(1.0, 1000, Duration::from_secs(2)).unwrap();
        assert_eq!(rate.wait_max, Duration::from_secs(2));
        assert_eq!(ten().wait_max, milliseconds(500));
    }

    #[test]
    fn no_rate_is_no_limit() {
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(HandshakeRate::per_second(none, 10, Duration::from_secs(1)), None);
        }
    }
}
