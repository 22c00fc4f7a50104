//! Random keys that no other machine has, rotated in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

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
    made: Instant,
}

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
        self.0.push_front(RandomKey { key: Arc::new(random_key()?), made: now });
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

    /// Newest first.
    pub(super) fn keys(&self) -> impl Iterator<Item = Arc<TicketKey>> {
        self.0.iter().map(|known| Arc::clone(&known.key))
    }
}

fn random_key() -> Result<TicketKey, NoRandomness> {
    let mut name = [0; TICKET_NAME_BYTES];
    fill(&mut name)?;
    // Never `None`: 32 bytes are a valid length.
    TicketKey::new(name, random_secret()?, random_secret()?).ok_or(NoRandomness)
}

fn random_secret() -> Result<Secret, NoRandomness> {
    let mut bytes = vec![0; 32];
    fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}
