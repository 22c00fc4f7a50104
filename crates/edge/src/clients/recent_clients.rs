//! The last response to each client, which explains its next handshake: browsers close their connection after a 4xx,
//! so errors of a manifest become handshakes.
//!
//! One table for all workers, since the kernel hands a client's next connection to any of them. It has no locks: a
//! slot is one number, and two workers that write the same slot at once lose one of two true answers. It keeps no
//! addresses: a slot holds 40 bits of a hash under a key that is drawn at the start and never leaves the process.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::metrics::LastResponse;

/// Slots that a client may stand in: as many as a cache line holds.
const WAYS: usize = 8;

/// From the top: 40 bits of hash, 20 bits of seconds since the start (12 days; then an answer that old looks new for
/// as long as it would be believed), 4 bits of status class. A free slot is 0, since the classes count from 1.
const SECOND_BITS: u32 = 20;
const CLASS_BITS: u32 = 4;
const SECONDS_MASK: u64 = (1 << SECOND_BITS) - 1;
const CLASS_MASK: u64 = (1 << CLASS_BITS) - 1;
const TAG_SHIFT: u32 = SECOND_BITS + CLASS_BITS;

/// Bounded memory of clients and the class of their last answer.
pub(crate) struct RecentClients<H> {
    sets: Box<[Set]>,
    hasher: H,
    start: Instant,
    believed_for: Duration,
}

#[derive(Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

impl<H: BuildHasher> RecentClients<H> {
    /// Remembers about `clients` of them, each for `believed_for`. `hasher` has to be keyed with randomness, so that a
    /// client cannot choose addresses that evict others.
    pub(crate) fn new(clients: usize, believed_for: Duration, hasher: H, start: Instant) -> Self {
        let sets = (0..clients.div_ceil(WAYS).max(1)).map(|_| Set::default()).collect();
        Self { sets, hasher, start, believed_for }
    }

    /// This client was just given an answer of this class.
    pub(crate) fn note(&self, client: IpAddr, answer: LastResponse, now: Instant) {
        if answer == LastResponse::None {
            return;
        }
        let (set, tag) = self.place(client);
        let second = self.second(now);
        let entry = tag << TAG_SHIFT | second << CLASS_BITS | (answer as u64 + 1);
        let mut best = &set.0[0];
        let mut best_age = None;
        for slot in &set.0 {
            let held = slot.load(Relaxed);
            if held == entry {
                // Workers that serve the same address share this line while it is not written to.
                return;
            }
            if held >> TAG_SHIFT == tag && held != 0 {
                best = slot;
                break;
            }
            let age = if held == 0 { u64::MAX } else { age(second, held) };
            if best_age.is_none_or(|oldest| age > oldest) {
                (best, best_age) = (slot, Some(age));
            }
        }
        best.store(entry, Relaxed);
    }

    /// The class of the client's last answer; `None` if there was none of late, or it was pushed out.
    pub(crate) fn last(&self, client: IpAddr, now: Instant) -> LastResponse {
        let (set, tag) = self.place(client);
        let held = set.0.iter().map(|slot| slot.load(Relaxed));
        let Some(held) = held.into_iter().find(|held| *held != 0 && held >> TAG_SHIFT == tag) else {
            return LastResponse::None;
        };
        if age(self.second(now), held) > self.believed_for.as_secs() {
            return LastResponse::None;
        }
        let class = usize::try_from((held & CLASS_MASK).saturating_sub(1)).unwrap_or(usize::MAX);
        LastResponse::ALL.get(class).copied().unwrap_or(LastResponse::None)
    }

    /// The set a client belongs to, and what tells it from the others there.
    fn place(&self, client: IpAddr) -> (&Set, u64) {
        let hash = self.hasher.hash_one(client.to_canonical());
        let index = usize::try_from(hash % self.sets.len() as u64).unwrap_or(0);
        (&self.sets[index], hash >> TAG_SHIFT)
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs() & SECONDS_MASK
    }
}

/// Seconds between the one in a slot and now. A worker that noted a moment later than `now` was read is no older.
fn age(now: u64, held: u64) -> u64 {
    let age = now.wrapping_sub(held >> CLASS_BITS & SECONDS_MASK) & SECONDS_MASK;
    if age > SECONDS_MASK / 2 { 0 } else { age }
}

#[cfg(test)]
mod tests {
    use std::collections::hash_map::RandomState;
    use std::hash::{DefaultHasher, Hasher};
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    fn table(clients: usize) -> (RecentClients<RandomState>, Instant) {
        let start = Instant::now();
        (RecentClients::new(clients, 60 * SECOND, RandomState::new(), start), start)
    }

    #[test]
    fn the_last_answer_counts() {
        let (recent, now) = table(64);
        assert_eq!(recent.last(client(1), now), LastResponse::None);
        for answer in [LastResponse::Success, LastResponse::ClientError, LastResponse::ServerError] {
            recent.note(client(1), answer, now);
            assert_eq!(recent.last(client(1), now), answer);
        }
        assert_eq!(recent.last(client(2), now), LastResponse::None);
    }

    #[test]
    fn an_answer_is_believed_for_a_while_and_not_longer() {
        let (recent, start) = table(64);
        recent.note(client(1), LastResponse::ClientError, start + SECOND);
        assert_eq!(recent.last(client(1), start + 61 * SECOND), LastResponse::ClientError);
        assert_eq!(recent.last(client(1), start + 62 * SECOND), LastResponse::None);
        // Another worker may have looked at its clock a moment earlier.
        assert_eq!(recent.last(client(1), start), LastResponse::ClientError);
    }

    #[test]
    fn the_same_address_in_either_notation_is_one_client() {
        let (recent, now) = table(64);
        let mapped: IpAddr = Ipv4Addr::LOCALHOST.to_ipv6_mapped().into();
        recent.note(mapped, LastResponse::ClientError, now);
        assert_eq!(recent.last(Ipv4Addr::LOCALHOST.into(), now), LastResponse::ClientError);
        assert_eq!(recent.last(Ipv6Addr::LOCALHOST.into(), now), LastResponse::None);
    }

    #[test]
    fn the_oldest_makes_room_when_a_set_is_full() {
        let (recent, start) = table(WAYS);
        for number in 0..=8 {
            recent.note(client(number), LastResponse::Success, start + number * SECOND);
        }
        let now = start + 9 * SECOND;
        assert_eq!(recent.last(client(0), now), LastResponse::None);
        for number in 1..=8 {
            assert_eq!(recent.last(client(number), now), LastResponse::Success, "{number}");
        }
    }

    #[test]
    fn a_crowd_of_half_the_size_is_remembered_almost_whole() {
        let (recent, now) = table(4096);
        let crowd = 2048;
        (0..crowd).for_each(|number| recent.note(client(number), LastResponse::ClientError, now));
        let known =
            (0..crowd).filter(|number| recent.last(client(*number), now) == LastResponse::ClientError);
        let known = known.count();
        assert!(known > 1900, "{known} of {crowd}");
    }

    /// Hashes everything to the same number, among them all numbers whose entry would look like a free slot.
    struct Same(u64);

    impl BuildHasher for Same {
        type Hasher = Constant;
        fn build_hasher(&self) -> Constant {
            Constant(self.0, DefaultHasher::new())
        }
    }

    struct Constant(u64, DefaultHasher);

    impl Hasher for Constant {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.1.write(bytes);
        }
    }

    #[test]
    fn no_hash_looks_like_a_free_slot() {
        let start = Instant::now();
        for hash in [0, u64::MAX] {
            let recent = RecentClients::new(1, SECOND, Same(hash), start);
            recent.note(client(1), LastResponse::Success, start);
            assert_eq!(recent.last(client(1), start), LastResponse::Success, "{hash}");
        }
    }
}
