//! TLS 1.2 sessions in memory, for clients without tickets.
//!
//! Time and limits are arguments. Sessions are spread over shards by their random identifiers, so locks rarely contend.
//! All sessions have the same lifetime, so they expire in order of insertion, and every operation takes constant time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use penstock_metrics::SessionCacheCounts;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::traffic::Secret;
use zeroize::Zeroizing;

use crate::session_key::SessionKey;

/// Bounds of a [`SessionCache`].
#[derive(Clone, Copy, Debug)]
pub struct SessionCacheLimits {
    /// Sessions in all; at least one for each shard.
    pub sessions: usize,
    /// Bytes of memory in all, overhead included.
    pub bytes: usize,
    /// How long a session can be resumed.
    pub lifetime_seconds: u32,
    /// Number of shards, each with its own lock.
    pub shards: usize,
}

/// Sessions by identifier and server name. Shared by all workers.
#[derive(Debug)]
pub struct SessionCache {
    shards: Box<[Mutex<SessionShard>]>,
    /// The shard that is swept next.
    next_swept: AtomicUsize,
    lifetime_seconds: u32,
    sessions_per_shard: usize,
    bytes_per_shard: usize,
}

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// The session.
    Hit(Secret),
    /// No such session, or none for this server name.
    Miss,
    /// A session past its lifetime.
    Expired,
}

/// Overhead of a session: its entries in the table and the queue, and the allocator's share.
/// Measured by the example `session_memory`.
const OVERHEAD_BYTES: usize = 64;

/// Sessions removed in one go, so that no lock is held for long.
const REMOVED_AT_ONCE: usize = 64;

/// Identifiers that the library makes have this length (RFC 5246 §7.4.1.3).
const ID_BYTES: usize = 32;

impl SessionCache {
    /// An empty cache.
    pub fn new(limits: SessionCacheLimits) -> Self {
        let shards = limits.shards.max(1);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            next_swept: AtomicUsize::new(0),
            lifetime_seconds: limits.lifetime_seconds,
            sessions_per_shard: (limits.sessions / shards).max(1),
            bytes_per_shard: limits.bytes / shards,
        }
    }

    /// Inserts a session and evicts the oldest ones above the limits. `now` counts seconds from any fixed moment.
    pub fn insert(&self, key: SessionKey<'_>, session: &[u8], now: u32) {
        let Some((shard, place)) = self.place_of(key.id) else { return };
        let entry = pack(key, session, now.saturating_add(self.lifetime_seconds));
        let cost = entry.len() + OVERHEAD_BYTES;
        if cost > self.bytes_per_shard {
            return;
        }
        let mut shard = lock(shard);
        shard.remove_expired(now);
        while shard.order.len() >= self.sessions_per_shard || shard.bytes + cost > self.bytes_per_shard {
            if !shard.remove_oldest() {
                break;
            }
            shard.evicted += 1;
        }
        shard.insert(place, entry);
    }

    /// Looks up a session and counts the result.
    pub fn find(&self, key: SessionKey<'_>, now: u32) -> CacheLookup {
        let Some((shard, place)) = self.place_of(key.id) else {
            lock(&self.shards[0]).misses += 1;
            return CacheLookup::Miss;
        };
        let mut shard = lock(shard);
        let outcome = match shard.sessions.get(&place).and_then(|entry| unpack(key, entry)) {
            Some((ends_at, _)) if ends_at <= now => CacheLookup::Expired,
            Some((_, session)) => CacheLookup::Hit(Secret::new(session.to_vec())),
            None => CacheLookup::Miss,
        };
        match outcome {
            CacheLookup::Hit(_) => shard.hits += 1,
            CacheLookup::Miss => shard.misses += 1,
            CacheLookup::Expired => {
                shard.expired += 1;
                shard.remove_expired(now);
            }
        }
        outcome
    }

    /// Removes expired sessions from the next shard. Called about once a second, it reaches all of them.
    pub fn sweep(&self, now: u32) {
        let next = self.next_swept.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        lock(&self.shards[next]).remove_expired(now);
    }

    /// The current gauges and counters.
    pub fn counts(&self) -> SessionCacheCounts {
        let mut counts = SessionCacheCounts::default();
        for shard in &self.shards {
            let shard = lock(shard);
            counts.sessions += shard.order.len() as u64;
            counts.bytes += shard.bytes as u64;
            counts.stored += shard.stored;
            counts.hits += shard.hits;
            counts.misses += shard.misses;
            counts.expired += shard.expired;
            counts.evicted += shard.evicted;
        }
        counts
    }

    /// Shard and table key of a session; `None` for an identifier of foreign length.
    fn place_of(&self, id: &[u8]) -> Option<(&Mutex<SessionShard>, u64)> {
        let (place, rest) = id.split_first_chunk::<8>().filter(|_| id.len() == ID_BYTES)?;
        let (spread, _) = rest.split_first_chunk::<2>()?;
        let shard = usize::from(u16::from_le_bytes(*spread)) % self.shards.len();
        Some((&self.shards[shard], u64::from_le_bytes(*place)))
    }
}

/// The sessions of some identifiers.
#[derive(Debug, Default)]
struct SessionShard {
    /// By the first bytes of their identifiers, which are random and need no hashing.
    sessions: HashMap<u64, SessionEntry, BuildHasherDefault<AsItIs>>,
    /// The keys of `sessions`, oldest first.
    order: VecDeque<u64>,
    bytes: usize,
    stored: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    evicted: u64,
}

/// One session in one allocation: see [`pack`].
type SessionEntry = Zeroizing<Box<[u8]>>;

impl SessionShard {
    fn insert(&mut self, place: u64, entry: SessionEntry) {
        self.bytes += entry.len() + OVERHEAD_BYTES;
        self.stored += 1;
        match self.sessions.insert(place, entry) {
            // Practically impossible; the new session takes the position of the old one in the order.
            Some(old) => self.bytes -= old.len() + OVERHEAD_BYTES,
            None => self.order.push_back(place),
        }
    }

    fn remove_oldest(&mut self) -> bool {
        let Some(place) = self.order.pop_front() else { return false };
        if let Some(entry) = self.sessions.remove(&place) {
            self.bytes -= entry.len() + OVERHEAD_BYTES;
        }
        true
    }

    fn remove_expired(&mut self, now: u32) {
        for _ in 0..REMOVED_AT_ONCE {
            let oldest = self.order.front().and_then(|place| self.sessions.get(place));
            if oldest.is_none_or(|entry| ends_at(entry) > now) {
                return;
            }
            self.remove_oldest();
        }
    }
}

/// Concatenates expiry, digest of the server name, rest of the identifier, and session.
fn pack(key: SessionKey<'_>, session: &[u8], ends_at: u32) -> SessionEntry {
    let parts = [&ends_at.to_le_bytes(), &name_digest(key.server_name)[..], &key.id[8..], session];
    let mut entry = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| entry.extend_from_slice(part));
    // The capacity is exact, so no copy is left behind.
    Zeroizing::new(entry.into_boxed_slice())
}

fn unpack<'e>(key: SessionKey<'_>, entry: &'e [u8]) -> Option<(u32, &'e [u8])> {
    let (ends_at, rest) = entry.split_first_chunk::<4>()?;
    let rest = rest.strip_prefix(&name_digest(key.server_name))?;
    let session = rest.strip_prefix(&key.id[8..])?;
    Some((u32::from_le_bytes(*ends_at), session))
}

fn ends_at(entry: &[u8]) -> u32 {
    entry.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn name_digest(name: Option<&str>) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    name.map(str::to_ascii_lowercase).hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// Passes a random number through.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

fn lock(shard: &Mutex<SessionShard>) -> MutexGuard<'_, SessionShard> {
    shard.lock().unpoisoned()
}

#[cfg(test)]
mod tests;
