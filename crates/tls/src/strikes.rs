//! Which ClientHellos with early data have been seen: the strike register of RFC 8446 §8.2.
//!
//! Pure policy: time and limits are arguments. A ClientHello is told by its random number, which its binder proves. The
//! library takes early data only while the age of its ticket, as the client tells it, is off by no more than
//! [`SKEW_SECONDS`], so nothing has to be remembered for longer. What the register cannot know counts as a replay:
//! what came before it began, what finds it full, what comes while the clock is set back.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

/// How far the age of a ticket may be off, either way, for early data to be taken: BoringSSL's
/// `kMaxTicketAgeSkewSeconds`.
pub const SKEW_SECONDS: u64 = 60;

/// For ages in whole seconds, and for clocks of two workers that read one time after the other.
const MARGIN_SECONDS: u64 = 4;

/// How far back a clock may step before nothing is believed any more.
const STEP_BACK_SECONDS: u64 = 2;

/// Bounds of a [`StrikeRegister`].
#[derive(Clone, Copy, Debug)]
pub struct StrikeLimits {
    /// ClientHellos remembered in all.
    pub strikes: usize,
    /// Those remembered are forgotten in slices of this length.
    pub slice_seconds: u64,
    /// Parts with a lock of their own.
    pub shards: usize,
}

/// What is known of a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It comes for the first time.
    Fresh,
    /// It has been here before.
    Replayed,
    /// It could have been here before this register began.
    BeforeStart,
    /// There is no room to remember it.
    Full,
    /// The clock has been set back: what could have been forgotten may come again.
    ClockSetBack,
}

/// Remembers ClientHellos. Shared by all workers; bounded.
#[derive(Debug)]
pub struct StrikeRegister<S> {
    shards: Box<[Mutex<Shard>]>,
    strikes_per_shard: usize,
    slice_seconds: u64,
    /// Wall time, in seconds since 1970.
    began: u64,
    /// Keyed at random, so that nobody can aim at a shard.
    hashing: S,
}

impl<S: BuildHasher> StrikeRegister<S> {
    /// A register that knows of nothing before `now`, in seconds since 1970.
    pub fn new(limits: StrikeLimits, hashing: S, now: u64) -> Self {
        let shards = limits.shards.max(1);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            strikes_per_shard: (limits.strikes / shards).max(1),
            slice_seconds: limits.slice_seconds.max(1),
            began: now,
            hashing,
        }
    }

    /// Judges a ClientHello by its random number and remembers it. `age_skew` is by how many seconds its ticket is
    /// older to the client than to us. `now` counts the seconds since 1970, as the library does for ages.
    pub fn strike(&self, client_random: &[u8], age_skew: i32, now: u64) -> Verdict {
        // The moment that the client claims to speak in: the same for each copy of this ClientHello.
        let claimed = now.saturating_add_signed(i64::from(age_skew));
        if claimed < self.began + SKEW_SECONDS + MARGIN_SECONDS {
            return Verdict::BeforeStart;
        }
        let digest = self.hashing.hash_one(client_random);
        let place = usize::try_from(digest % self.shards.len() as u64).unwrap_or(0);
        let mut shard = self.shards[place].lock().unwrap_or_else(PoisonError::into_inner);
        if now + STEP_BACK_SECONDS < shard.latest {
            return Verdict::ClockSetBack;
        }
        shard.latest = shard.latest.max(now);
        shard.forget(now, self.slice_seconds);
        let slice = (claimed + SKEW_SECONDS + MARGIN_SECONDS) / self.slice_seconds;
        shard.strike(digest, slice, self.strikes_per_shard)
    }

    /// How many ClientHellos are remembered.
    pub fn remembered(&self) -> usize {
        let count = |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).remembered();
        self.shards.iter().map(count).sum()
    }
}

#[derive(Debug, Default)]
struct Shard {
    /// By the time in which they can be forgotten, in no order; only a few.
    slices: VecDeque<Slice>,
    /// The latest time seen.
    latest: u64,
}

#[derive(Debug)]
struct Slice {
    number: u64,
    digests: HashSet<u64>,
}

impl Shard {
    fn forget(&mut self, now: u64, slice_seconds: u64) {
        self.slices.retain(|slice| (slice.number + 1) * slice_seconds > now);
    }

    fn strike(&mut self, digest: u64, number: u64, room: usize) -> Verdict {
        // A copy may fall into the slice beside, for ages are in whole seconds.
        if self.slices.iter().any(|slice| slice.digests.contains(&digest)) {
            return Verdict::Replayed;
        }
        if self.remembered() >= room {
            return Verdict::Full;
        }
        match self.slices.iter_mut().find(|slice| slice.number == number) {
            Some(slice) => drop(slice.digests.insert(digest)),
            None => self.slices.push_back(Slice { number, digests: HashSet::from([digest]) }),
        }
        Verdict::Fresh
    }

    fn remembered(&self) -> usize {
        self.slices.iter().map(|slice| slice.digests.len()).sum()
    }
}

#[cfg(test)]
mod tests;
