//! Session ticket keys: who seals, who still opens, when they change.

use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use penstock_sys::ssl::{TicketKey, TicketKeys};
use penstock_sys::traffic::Secret;

/// Random ticket keys kept in memory and rotated; a ticket dies with the key that sealed it.
#[derive(Debug)]
pub struct TicketKeyring {
    rotate_every: Duration,
    keep: usize,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    /// Newest first; never empty.
    keys: VecDeque<TicketKey>,
    rotated_at: Instant,
}

impl TicketKeyring {
    /// One fresh key. `keep` counts the keys that open tickets, the sealing one included, and is at least one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new(rotate_every: Duration, keep: usize, now: Instant) -> Result<Self, NoRandomness> {
        let keys = VecDeque::from([random_key()?]);
        Ok(Self { rotate_every, keep: keep.max(1), state: RwLock::new(State { keys, rotated_at: now }) })
    }

    /// Makes a new sealing key if the current one is older than the rotation interval.
    ///
    /// # Errors
    /// When the system has no randomness to give; the old key then stays.
    pub fn rotate_if_due(&self, now: Instant) -> Result<bool, NoRandomness> {
        let due = |state: &State| now.saturating_duration_since(state.rotated_at) >= self.rotate_every;
        if !due(&self.state.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(false);
        }
        let key = random_key()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.keys.push_front(key);
        state.keys.truncate(self.keep);
        state.rotated_at = now;
        Ok(true)
    }
}

impl TicketKeys for TicketKeyring {
    fn current(&self) -> TicketKey {
        self.state.read().unwrap_or_else(PoisonError::into_inner).keys[0].clone()
    }

    fn find(&self, name: &[u8; 16]) -> Option<(TicketKey, bool)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let place = state.keys.iter().position(|key| key.name == *name)?;
        Some((state.keys[place].clone(), place > 0))
    }
}

/// The system's random number generator failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl std::fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the system's random number generator failed")
    }
}

impl std::error::Error for NoRandomness {}

fn random_key() -> Result<TicketKey, NoRandomness> {
    let mut name = [0; 16];
    fill(&mut name)?;
    Ok(TicketKey { name, authentication: random_secret()?, encryption: random_secret()? })
}

fn random_secret() -> Result<Secret, NoRandomness> {
    let mut bytes = vec![0; 32];
    fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}

fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    boring::rand::rand_bytes(bytes).map_err(|_| NoRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_key_lives_for_as_many_rotations_as_are_kept() {
        let start = Instant::now();
        let ring = TicketKeyring::new(HOUR, 2, start).unwrap();
        let first = ring.current().name;
        assert!(!ring.rotate_if_due(start + HOUR / 2).unwrap());
        assert_eq!(ring.find(&first).map(|(_, renew)| renew), Some(false));

        assert!(ring.rotate_if_due(start + HOUR).unwrap());
        assert_ne!(ring.current().name, first);
        assert_eq!(ring.find(&first).map(|(_, renew)| renew), Some(true));

        assert!(ring.rotate_if_due(start + 2 * HOUR).unwrap());
        assert!(ring.find(&first).is_none());
    }

    #[test]
    fn an_unknown_key_name_opens_nothing() {
        let ring = TicketKeyring::new(HOUR, 3, Instant::now()).unwrap();
        assert!(ring.find(&[0; 16]).is_none());
    }
}
