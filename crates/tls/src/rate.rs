//! How many full handshakes in a second: a token bucket that lends to those who can wait a little.

use std::time::{Duration, Instant};

/// The limit on one worker's full handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeRate {
    /// The time from one handshake to the next.
    pub interval: Duration,
    /// A pause of so long is made up for at once.
    pub burst: Duration,
    /// Nobody waits longer than this for a place; who would have to is turned away.
    pub wait_max: Duration,
}

impl HandshakeRate {
    /// So many in a second, of which at most `waiting_max` wait, each no longer than `wait_max`. `None` where no rate
    /// is asked for.
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

/// What becomes of a full handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    Now,
    /// It goes on after so long. Its place is taken.
    After(Duration),
    /// It is turned away.
    Refused,
}

/// How much of a rate is used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: HandshakeRate,
    /// When all handshakes so far would be done if they came one interval after the other.
    done_at: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: HandshakeRate, now: Instant) -> Self {
        Self { rate, done_at: now }
    }

    pub(crate) fn rate(&self) -> HandshakeRate {
        self.rate
    }

    /// Whether a handshake could go on now.
    pub(crate) fn has_place(&self, now: Instant) -> bool {
        self.wait(now).is_zero()
    }

    /// A handshake that went on takes its place.
    pub(crate) fn take(&mut self, now: Instant) {
        self.done_at = self.done_at.max(now) + self.rate.interval;
    }

    /// Decides on a handshake, and takes a place for it if there is one.
    pub(crate) fn ask(&mut self, now: Instant) -> Verdict {
        let wait = self.wait(now);
        if wait > self.rate.wait_max {
            return Verdict::Refused;
        }
        self.take(now);
        if wait.is_zero() { Verdict::Now } else { Verdict::After(wait) }
    }

    fn wait(&self, now: Instant) -> Duration {
        // A place takes an interval, and all of it has to fit the burst.
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
        let verdicts: Vec<Verdict> = (0..17).map(|_| bucket.ask(start)).collect();
        assert_eq!(verdicts[..10], [Verdict::Now; 10]);
        let waits = (1..=5).map(|place| Verdict::After(milliseconds(100 * place)));
        assert_eq!(verdicts[10..15], waits.collect::<Vec<_>>());
        assert_eq!(verdicts[15..], [Verdict::Refused; 2]);
    }

    #[test]
    fn over_time_so_many_pass_as_were_allowed() {
        for (interval, wanted) in [(10, 10 + 5 + 100), (200, 51)] {
            let start = Instant::now();
            let mut bucket = Bucket::new(ten(), start);
            let steps = 10_000 / interval;
            let asked = (0..=steps).map(|step| bucket.ask(start + milliseconds(step * interval)));
            let passed = asked.filter(|verdict| *verdict != Verdict::Refused).count();
            assert_eq!(passed, wanted, "one every {interval} ms");
        }
    }

    #[test]
    fn a_pause_is_made_up_for_by_one_burst_only() {
        let start = Instant::now();
        let mut bucket = Bucket::new(ten(), start);
        let later = start + Duration::from_secs(3600);
        let at_once = (0..100).filter(|_| bucket.ask(later) == Verdict::Now).count();
        assert_eq!(at_once, 10);
    }

    #[test]
    fn a_rate_below_one_in_a_second_lets_one_pass() {
        let rate = HandshakeRate::per_second(0.5, 100, Duration::from_secs(5)).unwrap();
        let start = Instant::now();
        let mut bucket = Bucket::new(rate, start);
        assert!(bucket.has_place(start));
        assert_eq!(bucket.ask(start), Verdict::Now);
        assert!(!bucket.has_place(start));
        assert_eq!(bucket.ask(start), Verdict::After(Duration::from_secs(2)));
        assert_eq!(bucket.ask(start), Verdict::After(Duration::from_secs(4)));
        assert_eq!(bucket.ask(start), Verdict::Refused);
    }

    #[test]
    fn nobody_waits_longer_than_allowed_even_if_few_wait() {
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
