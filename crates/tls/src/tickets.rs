//! Session tickets: whose keys seal and open them, when keys change, and what became of a ticket.
//!
//! [`directory`] reads the key files that machines share, [`key_file`] knows their formats, [`TicketKeyring`] decides
//! which key seals, [`rotation`] is what an operator does, and [`TicketOutcome`] says what became of a ticket that a client offered.

pub mod directory;
pub mod key_file;
mod keyring;
mod outcome;
mod random_keys;
pub mod rotation;
mod shared_keys;

use std::fmt;
use std::time::Duration;

pub use keyring::{KeyringStatus, TicketKeyring};
pub use outcome::{TicketFacts, TicketOutcome};

pub(crate) use outcome::facts_of;

/// How long a ticket may live (RFC 8446 §4.6.1).
const LONGEST_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// How ticket keys are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketPolicy {
    /// How often a new key seals. Keys from files are rotated by whoever writes the files; then this is what was
    /// promised.
    pub rotate: Duration,
    /// Keys that open tickets, from the sealing one to older ones; at least one.
    pub keep: usize,
    /// How long a key from a file only opens tickets, so that the other machines have it as well before it seals.
    pub introduction: Duration,
}

impl TicketPolicy {
    /// How long a ticket may be used: no longer than its key is kept, even if that was about to be replaced.
    pub fn lifetime(&self) -> Duration {
        let rotations = u32::try_from(self.keep.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        self.rotate.saturating_mul(rotations).min(LONGEST_LIFETIME)
    }

    /// How long a key is kept if it is rotated as promised.
    pub fn key_lifetime(&self) -> Duration {
        self.rotate.saturating_mul(u32::try_from(self.keep).unwrap_or(u32::MAX).max(1))
    }
}

/// The system's random number generator failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system's random number generator failed")
    }
}

impl std::error::Error for NoRandomness {}

fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    boring::rand::rand_bytes(bytes).map_err(|_| NoRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ticket_outlives_its_key_even_if_that_was_about_to_be_replaced() {
        const HOUR: Duration = Duration::from_secs(3600);
        for (rotate, keep, lifetime) in [
            (12 * HOUR, 3, 24 * HOUR),
            (HOUR, 2, HOUR),
            // One key: its tickets die with it at the latest, most of them before.
            (HOUR, 1, HOUR),
            (100 * HOUR, 64, 7 * 24 * HOUR),
        ] {
            let policy = TicketPolicy { rotate, keep, introduction: Duration::ZERO };
            assert_eq!(policy.lifetime(), lifetime, "{rotate:?}, {keep}");
        }
    }
}
