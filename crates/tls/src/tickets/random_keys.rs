//! Random keys that no other machine has, rotated in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_sys::ssl::{TICKET_NAME_BYTES, TicketKey};
use penstock_sys::traffic::Secret;

use super::policy::TicketPolicy;
use crate::random::{NoRandomness, fill};

/// Keys made here, newest first.
#[derive(Debug, Default)]
pub(super) struct RandomKeys(VecDeque<RandomKey>);

#[derive(Debug)]
struct RandomKey {
    key: Arc<TicketKey>,
    /// What the key was made from: its name and two secrets.
    bytes: Secret,
    made: Instant,
}

/// Bytes that a key is made from.
const KEY_BYTES: usize = TICKET_NAME_BYTES + 2 * SECRET_BYTES;
const SECRET_BYTES: usize = 32;
/// Bytes of a key for another process: its age in milliseconds, little-endian, and what it is made from.
const EXPORTED_BYTES: usize = 8 + KEY_BYTES;

impl RandomKeys {
    /// Makes a key if the newest one is too old to seal; returns whether it did.
    pub(super) fn rotate_if_due(
        &mut self,
        policy: &TicketPolicy,
        now: Instant,
    ) -> Result<bool, NoRandomness> {
        let is_young = |newest: &RandomKey| now.saturating_duration_since(newest.made) < policy.rotate;
        if self.0.front().is_some_and(is_young) {
            return Ok(false);
        }
        self.0.push_front(RandomKey::new(random_bytes()?, now)?);
        self.0.truncate(policy.keep.max(1));
        Ok(true)
    }

    /// Drops keys that no valid ticket can need; returns whether any was dropped.
    pub(super) fn expire(&mut self, policy: &TicketPolicy, now: Instant) -> bool {
        let before = self.0.len();
        let lifetime = policy.key_lifetime();
        self.0.retain(|known| now.saturating_duration_since(known.made) < lifetime);
        before != self.0.len()
    }

    /// The keys for a process that succeeds this one.
    pub(super) fn export(&self, now: Instant) -> Secret {
        let export = |known: &RandomKey| {
            let age =
                u64::try_from(now.saturating_duration_since(known.made).as_millis()).unwrap_or(u64::MAX);
            [&age.to_le_bytes()[..], known.bytes.expose()].concat()
        };
        Secret::new(self.0.iter().flat_map(export).collect())
    }

    /// Takes over the keys of the process that this one succeeds, if there are any.
    pub(super) fn adopt(&mut self, exported: &Secret, policy: &TicketPolicy, now: Instant) {
        let adopted = exported.expose().as_chunks::<EXPORTED_BYTES>().0.iter().filter_map(|exported| {
            let (age, bytes) = exported.split_first_chunk()?;
            let made = now.checked_sub(Duration::from_millis(u64::from_le_bytes(*age)))?;
            RandomKey::new(Secret::new(bytes.to_vec()), made).ok()
        });
        let adopted: VecDeque<_> = adopted.take(policy.keep.max(1)).collect();
        if !adopted.is_empty() {
            self.0 = adopted;
        }
    }

    /// Newest first.
    pub(super) fn keys(&self) -> impl Iterator<Item = Arc<TicketKey>> {
        self.0.iter().map(|known| Arc::clone(&known.key))
    }
}

impl RandomKey {
    fn new(bytes: Secret, made: Instant) -> Result<Self, NoRandomness> {
        let (name, secrets) = bytes.expose().split_first_chunk().ok_or(NoRandomness)?;
        let (one, two) = secrets.split_at_checked(SECRET_BYTES).ok_or(NoRandomness)?;
        let secret = |bytes: &[u8]| Secret::new(bytes.to_vec());
        // Never `None`: 32 bytes are a valid length.
        let key = TicketKey::new(*name, secret(one), secret(two)).ok_or(NoRandomness)?;
        Ok(Self { key: Arc::new(key), bytes, made })
    }
}

fn random_bytes() -> Result<Secret, NoRandomness> {
    let mut bytes = vec![0; KEY_BYTES];
    fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}
