//! Until when stored metadata are fresh, read by every hit without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use penstock_http::caching::Lifetime;

/// How fresh an object is at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// To be used as it is.
    Fresh,
    /// To be used while a newer version is fetched (RFC 5861 §3).
    Stale,
    /// To be used only if the origin confirms it, or fails.
    Expired,
}

/// A freshness lifetime and the moment it began; durations in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredLifetime {
    pub(crate) since: Instant,
    pub(crate) fresh: u64,
    /// Age at `since`.
    pub(crate) age: u64,
    pub(crate) stale_while_revalidate: u64,
    pub(crate) stale_if_error: u64,
}

impl StoredLifetime {
    pub(crate) fn new(since: Instant, lifetime: &Lifetime) -> Self {
        Self {
            since,
            fresh: milliseconds(lifetime.fresh),
            age: milliseconds(lifetime.age),
            stale_while_revalidate: milliseconds(lifetime.stale_while_revalidate),
            stale_if_error: milliseconds(lifetime.stale_if_error),
        }
    }

    /// Time since it began, in milliseconds.
    pub(crate) fn resident(&self, now: Instant) -> u64 {
        milliseconds(now.saturating_duration_since(self.since))
    }

    pub(crate) fn freshness(&self, now: Instant) -> Freshness {
        let resident = self.resident(now);
        if resident < self.fresh {
            Freshness::Fresh
        } else if resident < self.fresh.saturating_add(self.stale_while_revalidate) {
            Freshness::Stale
        } else {
            Freshness::Expired
        }
    }

    /// Whether the object may replace an error of its origin (RFC 5861 §4).
    pub(crate) fn may_replace_an_error(&self, now: Instant) -> bool {
        self.resident(now) < self.fresh.saturating_add(self.stale_if_error)
    }

    /// Whether the object has been stale for less than `time`.
    pub(crate) fn is_stale_for_less_than(&self, time: Duration, now: Instant) -> bool {
        self.resident(now) < self.fresh.saturating_add(milliseconds(time))
    }

    /// Value of Age (RFC 9111 §5.1), in seconds.
    pub(crate) fn age_seconds(&self, now: Instant) -> u64 {
        self.age.saturating_add(self.resident(now)) / 1000
    }

    /// Remaining freshness in seconds; negative once stale.
    pub(crate) fn ttl_seconds(&self, now: Instant) -> i64 {
        let resident = self.resident(now);
        let seconds = |time: u64| i64::try_from(time / 1000).unwrap_or(i64::MAX);
        match self.fresh.checked_sub(resident) {
            Some(left) => seconds(left),
            None => -seconds(resident.saturating_sub(self.fresh)),
        }
    }

    /// The same lifetime, ended at `now`. What is stale already stays as stale as it is.
    fn ended(self, now: Instant) -> Self {
        let resident = self.resident(now);
        if resident >= self.fresh {
            return self;
        }
        Self { since: now, fresh: 0, age: self.age.saturating_add(resident), ..self }
    }
}

/// A [`StoredLifetime`] that one writer at a time replaces and any number of readers read.
///
/// A sequence number is odd while a writer is at work; a reader repeats its reads if the number has changed. Readers
/// write nothing, so a hit touches no cache line that another worker writes.
#[derive(Debug)]
pub(crate) struct SharedLifetime {
    sequence: AtomicU32,
    /// Stale-while-revalidate and stale-if-error in milliseconds, at most 49 days.
    grace: [AtomicU32; 2],
    /// 128 bits in parts, so that the whole takes 28 bytes of each object: `since` as milliseconds after [`epoch`], then the
    /// freshness lifetime and the age at `since`.
    values: [AtomicU32; 4],
}

/// Bits of `since`: milliseconds of 557 years.
const SINCE_BITS: u32 = 44;
/// Bits of the freshness lifetime and of the age: milliseconds of 139 years. A longer one counts as that.
const TIME_BITS: u32 = 42;

/// The low bits of a number that has them, otherwise the greatest number of so many bits.
fn saturated(number: u64, bits: u32) -> u128 {
    u128::from(number.min((1 << bits) - 1))
}

impl SharedLifetime {
    pub(crate) fn new(lifetime: &StoredLifetime) -> Self {
        let this = Self {
            sequence: AtomicU32::new(0),
            grace: std::array::from_fn(|_| AtomicU32::new(0)),
            values: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        this.store(lifetime);
        this
    }

    pub(crate) fn get(&self) -> StoredLifetime {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let lifetime = self.load();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return lifetime;
            }
            std::hint::spin_loop();
        }
    }

    pub(crate) fn set(&self, lifetime: &StoredLifetime) {
        self.update(|_| *lifetime);
    }

    /// Ends the lifetime at `now`.
    pub(crate) fn end(&self, now: Instant) {
        self.update(|lifetime| lifetime.ended(now));
    }

    fn update(&self, change: impl FnOnce(StoredLifetime) -> StoredLifetime) {
        let sequence = loop {
            let sequence = self.sequence.load(Ordering::Relaxed);
            let begun = sequence.wrapping_add(1);
            if sequence.is_multiple_of(2)
                && self
                    .sequence
                    .compare_exchange_weak(sequence, begun, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                break sequence;
            }
            std::hint::spin_loop();
        };
        let new = change(self.load());
        fence(Ordering::Release);
        self.store(&new);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    fn load(&self) -> StoredLifetime {
        let parts: [u32; 4] = std::array::from_fn(|place| self.values[place].load(Ordering::Relaxed));
        let all = parts.iter().rev().fold(0_u128, |all, part| all << 32 | u128::from(*part));
        let low = |number: u128, bits: u32| u64::try_from(number & ((1 << bits) - 1)).unwrap_or(u64::MAX);
        let (since, times) = (low(all, SINCE_BITS), all >> SINCE_BITS);
        let (fresh, age) = (low(times, TIME_BITS), low(times >> TIME_BITS, TIME_BITS));
        let [revalidate, error] = std::array::from_fn(|place| self.grace[place].load(Ordering::Relaxed));
        StoredLifetime {
            since: epoch() + Duration::from_millis(since),
            fresh,
            age,
            stale_while_revalidate: revalidate.into(),
            stale_if_error: error.into(),
        }
    }

    fn store(&self, lifetime: &StoredLifetime) {
        let since = milliseconds(lifetime.since.saturating_duration_since(epoch()));
        let times = saturated(lifetime.fresh, TIME_BITS) | saturated(lifetime.age, TIME_BITS) << TIME_BITS;
        let mut all = saturated(since, SINCE_BITS) | times << SINCE_BITS;
        for place in &self.values {
            place.store(u32::try_from(all & u128::from(u32::MAX)).unwrap_or(0), Ordering::Relaxed);
            all >>= 32;
        }
        let grace = [lifetime.stale_while_revalidate, lifetime.stale_if_error];
        for (place, value) in self.grace.iter().zip(grace) {
            place.store(u32::try_from(value).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }
}

/// The origin of stored moments: a minute before the first use in this process, since that may be for a response that came
/// a moment earlier.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(|| {
        let now = Instant::now();
        now.checked_sub(Duration::from_secs(60)).unwrap_or(now)
    })
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(time.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(since: Instant, milliseconds: u64) -> StoredLifetime {
        StoredLifetime {
            since,
            fresh: milliseconds,
            age: milliseconds,
            stale_while_revalidate: milliseconds,
            stale_if_error: milliseconds,
        }
    }

    #[test]
    fn freshness_goes_from_fresh_to_stale_to_expired() {
        let now = Instant::now();
        let lifetime = StoredLifetime { stale_if_error: 5000, ..lifetime(now, 2000) };
        let at = |seconds| now + Duration::from_secs(seconds);
        let cases = [
            (0, Freshness::Fresh, true, 2, 2),
            (1, Freshness::Fresh, true, 3, 1),
            (2, Freshness::Stale, true, 4, 0),
            (3, Freshness::Stale, true, 5, -1),
            (4, Freshness::Expired, true, 6, -2),
            (7, Freshness::Expired, false, 9, -5),
        ];
        for (seconds, freshness, replaces, age, ttl) in cases {
            let now = at(seconds);
            assert_eq!(lifetime.freshness(now), freshness, "{seconds} s");
            assert_eq!(lifetime.may_replace_an_error(now), replaces, "{seconds} s");
            assert_eq!((lifetime.age_seconds(now), lifetime.ttl_seconds(now)), (age, ttl), "{seconds} s");
        }
    }

    #[test]
    fn an_ended_lifetime_keeps_its_age_and_its_grace() {
        let now = Instant::now();
        let shared = SharedLifetime::new(&lifetime(now, 2000));
        shared.end(now + Duration::from_secs(1));
        let ended = shared.get();
        assert_eq!(ended.freshness(now + Duration::from_secs(1)), Freshness::Stale);
        assert_eq!(ended.age_seconds(now + Duration::from_secs(1)), 3);
        shared.end(now + Duration::from_secs(2));
        assert_eq!(shared.get(), ended, "stale already");
    }

    #[test]
    fn a_reader_never_sees_parts_of_two_lifetimes() {
        let start = epoch();
        let shared = SharedLifetime::new(&lifetime(start, 0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for number in 0..20_000 {
                        shared.set(&lifetime(start + Duration::from_millis(number), number));
                    }
                });
            }
            for _ in 0..20_000 {
                let seen = shared.get();
                let same = [seen.age, seen.stale_while_revalidate, seen.stale_if_error];
                assert_eq!(same, [seen.fresh; 3]);
                // Stored in whole milliseconds.
                let since = milliseconds(seen.since.saturating_duration_since(start));
                assert!(since.abs_diff(seen.fresh) <= 1, "{since} and {}", seen.fresh);
            }
        });
    }
}
