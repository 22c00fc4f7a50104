//! Rates of requests in a table of fixed size, shared by all sites and workers.
//!
//! The algorithm is GCRA: an entry has the time at which its client has nothing more to wait for. A request moves it by the time
//! for one request, and is refused if that leads too far ahead of now. An entry whose time has passed is as good as none.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use penstock_config::{RequestRate, limits};
use penstock_sys::lock::Unpoisoned;

/// The times of clients. A set is a bucket of entries; a new client takes the place of the one in its set that is free first.
///
/// So the table has a fixed size, and a client that is forgotten may do more, not less.
#[derive(Debug)]
pub(crate) struct Rates {
    key: RandomState,
    began: OnceLock<Instant>,
    /// Made with the first request that counts.
    sets: OnceLock<Box<[Mutex<[ClientRate; limits::RATE_WAYS]>]>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClientRate {
    /// A keyed hash of the client and its limit; 0 is no client.
    tag: u64,
    /// Nanoseconds after `began`.
    free_at: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { key: RandomState::new(), began: OnceLock::new(), sets: OnceLock::new() }
    }
}

impl Rates {
    /// Counts a request of a client.
    ///
    /// # Errors
    /// The time after which one would be admitted.
    pub(crate) fn admit(&self, client: (u64, u128), rate: RequestRate, now: Instant) -> Result<(), Duration> {
        self.with(client, now, |entry, now| {
            *entry = next(*entry, rate, now)?;
            Ok(())
        })
    }

    /// Whether a request of a client would be admitted.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub(crate) fn look(&self, client: (u64, u128), rate: RequestRate, now: Instant) -> Result<(), Duration> {
        self.with(client, now, |entry, now| next(*entry, rate, now).map(drop))
    }

    /// Counts what takes a client so long. Returns how long it has to wait until it may go on; a pause makes up for `made_up` of it
    /// at most.
    pub(crate) fn spend(
        &self,
        client: (u64, u128),
        time: Duration,
        made_up: Duration,
        now: Instant,
    ) -> Duration {
        let (time, made_up) = (nanoseconds(time), nanoseconds(made_up));
        self.with(client, now, |entry, now| {
            // Times are shifted by what may be made up for, so that the first one is not before the beginning.
            *entry = (*entry).max(now).saturating_add(time);
            Duration::from_nanos(entry.saturating_sub(now).saturating_sub(made_up))
        })
    }

    /// Changes the time of a client, given in nanoseconds with that of now.
    fn with<T>(&self, client: (u64, u128), now: Instant, change: impl FnOnce(&mut u64, u64) -> T) -> T {
        let began = *self.began.get_or_init(|| now);
        let now = nanoseconds(now.saturating_duration_since(began));
        let hash = self.key.hash_one(client);
        let sets = self.sets.get_or_init(|| (0..limits::RATE_SETS).map(|_| Mutex::default()).collect());
        let place = usize::try_from(hash >> 32).unwrap_or(0) % sets.len();
        let mut set = sets[place].lock().unpoisoned();
        let tag = hash.max(1);
        let entry = match set.iter().position(|entry| entry.tag == tag) {
            Some(known) => &mut set[known],
            None => {
                let first = (0..limits::RATE_WAYS).min_by_key(|way| set[*way].free_at).unwrap_or(0);
                set[first] = ClientRate { tag, free_at: 0 };
                &mut set[first]
            }
        };
        change(&mut entry.free_at, now)
    }
}

/// The time of a client behind one more request, in nanoseconds as `now`.
///
/// # Errors
/// The time after which a request would be admitted.
fn next(free_at: u64, rate: RequestRate, now: u64) -> Result<u64, Duration> {
    let interval = nanoseconds(rate.interval);
    let ahead = interval.saturating_mul(u64::from(rate.burst));
    let free_at = free_at.max(now).saturating_add(interval);
    match free_at.checked_sub(now.saturating_add(ahead)) {
        None | Some(0) => Ok(free_at),
        Some(wait) => Err(Duration::from_nanos(wait)),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_admitted_at_once_and_then_the_rate() {
        let (rates, start) = (Rates::default(), Instant::now());
        let rate = RequestRate { interval: Duration::from_millis(100), burst: 5 };
        let admit = |milliseconds| rates.admit((1, 1), rate, start + Duration::from_millis(milliseconds));
        assert_eq!((0..9).filter(|_| admit(0).is_ok()).count(), 5);
        assert_eq!(admit(0), Err(Duration::from_millis(100)));
        assert_eq!(admit(60), Err(Duration::from_millis(40)));
        // Refused requests cost nothing.
        assert_eq!((admit(100), admit(100)), (Ok(()), Err(Duration::from_millis(100))));
        let all = (0..1000).filter(|tenth| admit(100 + tenth * 10).is_ok()).count();
        assert_eq!(all, 99);
        assert_eq!((0..9).filter(|_| admit(60_000).is_ok()).count(), 5, "a pause gives a burst and no more");
    }

    #[test]
    fn what_is_spent_is_waited_for_behind_a_second() {
        let (rates, start) = (Rates::default(), Instant::now());
        let ms = Duration::from_millis;
        let spend = |after, time| rates.spend((1, 1), ms(time), ms(1000), start + ms(after)).as_millis();
        assert_eq!([spend(0, 600), spend(0, 400), spend(0, 250)], [0, 0, 250]);
        assert_eq!(spend(250, 250), 250);
        assert_eq!(rates.spend((1, 2), ms(100), ms(1000), start), ms(0), "another client");
        assert_eq!([spend(60_000, 1000), spend(60_000, 1)], [0, 1], "a pause makes up for no more");
        assert_eq!(spend(60_000, 0), 1, "to look costs nothing");
    }

    #[test]
    fn limits_and_clients_do_not_count_for_each_other() {
        let (rates, now) = (Rates::default(), Instant::now());
        let rate = RequestRate { interval: Duration::from_secs(1), burst: 1 };
        let clients = [(1, 1), (1, 2), (2, 1)];
        assert!(clients.iter().all(|client| rates.admit(*client, rate, now).is_ok()));
        assert!(clients.iter().all(|client| rates.admit(*client, rate, now).is_err()));
    }

    #[test]
    fn any_number_of_clients_fits_and_the_one_that_waits_longest_stays() {
        let (rates, now) = (Rates::default(), Instant::now());
        let slow = RequestRate { interval: Duration::from_secs(3600), burst: 1 };
        let quick = RequestRate { interval: Duration::from_millis(1), burst: 1 };
        assert!(rates.admit((0, 1), slow, now).is_ok());
        for client in 0..4 * (limits::RATE_SETS * limits::RATE_WAYS) as u128 {
            assert!(rates.admit((1, client), quick, now).is_ok());
        }
        assert!(rates.admit((0, 1), slow, now).is_err(), "others do not displace it");
        assert_eq!(size_of::<ClientRate>() * limits::RATE_SETS * limits::RATE_WAYS, 4 << 20);
    }
}
