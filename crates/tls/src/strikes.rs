//! Replay detection for early data: the strike register of RFC 8446 §8.2.
//!
//! Time and limits are arguments. A ClientHello is identified by its random number, which its binder covers. The library
//! accepts early data only if the ticket age deviates by at most [`SKEW_SECONDS`], so older entries are dropped. Hellos
//! that the register cannot judge count as replays: from before its start, when it is full, after a clock step back.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Mutex;

use penstock_sys::lock::Unpoisoned;

/// Maximum deviation of the ticket age, either way: `kMaxTicketAgeSkewSeconds` of BoringSSL.
pub const SKEW_SECONDS: u64 = 60;

/// Margin for ages in whole seconds and for workers that read the clock at different moments.
const MARGIN_SECONDS: u64 = 4;

/// Clock step back that is tolerated.
const STEP_BACK_SECONDS: u64 = 2;

/// Bounds of a [`StrikeRegister`].
#[derive(Clone, Copy, Debug)]
pub struct StrikeLimits {
    /// ClientHellos remembered in all.
    pub strikes: usize,
    /// Length of the time slices in which entries are dropped.
    pub slice_seconds: u64,
    /// Number of shards, each with its own lock.
    pub shards: usize,
}

/// Verdict of the register about a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrikeResult {
    /// Not seen before.
    Fresh,
    /// Seen before.
    Replayed,
    /// Possibly seen before this register started.
    BeforeStart,
    /// The register is full.
    Full,
    /// The clock was set back, so dropped entries may be replayed.
    ClockSetBack,
    /// The register that edges share did not answer in time.
    NoAnswer,
}

/// Remembers ClientHellos. Shared by all workers; bounded.
#[derive(Debug)]
pub struct StrikeRegister<S> {
    shards: Box<[Mutex<StrikeShard>]>,
    strikes_per_shard: usize,
    slice_seconds: u64,
    /// Wall time, in seconds since 1970.
    began: u64,
    /// Keyed at random, so that an attacker cannot choose a shard.
    hashing: S,
}

impl<S: BuildHasher> StrikeRegister<S> {
    /// An empty register that starts at `now`, in seconds since 1970.
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

    /// Records the random number of a ClientHello and judges it. `age_skew` is the ticket age of the client minus that of
    /// the server, in seconds. `now` is in seconds since 1970, like the ticket ages of the library.
    pub fn strike(&self, client_random: &[u8], age_skew: i32, now: u64) -> StrikeResult {
        // The time that the client claims; it is the same in every copy of this ClientHello.
        let claimed = now.saturating_add_signed(i64::from(age_skew));
        if claimed < self.began + SKEW_SECONDS + MARGIN_SECONDS {
            return StrikeResult::BeforeStart;
        }
        let digest = self.hashing.hash_one(client_random);
        let place = usize::try_from(digest % self.shards.len() as u64).unwrap_or(0);
        let mut shard = self.shards[place].lock().unpoisoned();
        if now + STEP_BACK_SECONDS < shard.latest {
            return StrikeResult::ClockSetBack;
        }
        shard.latest = shard.latest.max(now);
        shard.forget(now, self.slice_seconds);
        let slice = (claimed + SKEW_SECONDS + MARGIN_SECONDS) / self.slice_seconds;
        shard.strike(digest, slice, self.strikes_per_shard)
    }

    /// Number of recorded ClientHellos.
    pub fn remembered(&self) -> usize {
        let count = |shard: &Mutex<StrikeShard>| shard.lock().unpoisoned().remembered();
        self.shards.iter().map(count).sum()
    }
}

#[derive(Debug, Default)]
struct StrikeShard {
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

impl StrikeShard {
    fn forget(&mut self, now: u64, slice_seconds: u64) {
        self.slices.retain(|slice| (slice.number + 1) * slice_seconds > now);
    }

    fn strike(&mut self, digest: u64, number: u64, capacity: usize) -> StrikeResult {
        // Ages are in whole seconds, so a copy may fall into a neighbouring slice.
        if self.slices.iter().any(|slice| slice.digests.contains(&digest)) {
            return StrikeResult::Replayed;
        }
        if self.remembered() >= capacity {
            return StrikeResult::Full;
        }
        match self.slices.iter_mut().find(|slice| slice.number == number) {
            Some(slice) => drop(slice.digests.insert(digest)),
            None => self.slices.push_back(Slice { number, digests: HashSet::from([digest]) }),
        }
        StrikeResult::Fresh
    }

    fn remembered(&self) -> usize {
        self.slices.iter().map(|slice| slice.digests.len()).sum()
    }
}

#[cfg(test)]
mod tests;
