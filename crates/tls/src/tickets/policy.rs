//! How session ticket keys are rotated.

use std::time::Duration;

/// Maximum lifetime of a ticket (RFC 8446 §4.6.1).
const LONGEST_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// How ticket keys are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketPolicy {
    /// How often a new key seals. Keys from files are rotated by the operator, who promises this interval.
    pub rotate: Duration,
    /// Keys that open tickets, from the sealing one to older ones; at least one.
    pub keep: usize,
    /// How long a new key from a file only opens tickets, until all machines have it.
    pub introduction: Duration,
}

impl TicketPolicy {
    /// Lifetime of tickets: the time that even a key about to be replaced is still kept.
    pub fn lifetime(&self) -> Duration {
        let rotations = u32::try_from(self.keep.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        self.rotate.saturating_mul(rotations).min(LONGEST_LIFETIME)
    }

    /// How long a key is kept if it is rotated as promised.
    pub fn key_lifetime(&self) -> Duration {
        self.rotate.saturating_mul(u32::try_from(self.keep).unwrap_or(u32::MAX).max(1))
    }
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
            // With one key, tickets expire with it or before.
            (HOUR, 1, HOUR),
            (100 * HOUR, 64, 7 * 24 * HOUR),
        ] {
            let policy = TicketPolicy { rotate, keep, introduction: Duration::ZERO };
            assert_eq!(policy.lifetime(), lifetime, "{rotate:?}, {keep}");
        }
    }
}
