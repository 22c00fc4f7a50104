//! Secrets that were right, so that the next request with the same one costs no verification.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Mutex;

use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

/// Passwords and signatures of all sites that were right.
#[derive(Debug)]
pub(crate) struct VerifiedSecrets {
    /// Two keyed hashes of a secret and what it was compared with.
    keys: [RandomState; 2],
    remembered: Mutex<RememberedTags>,
}

#[derive(Debug, Default)]
struct RememberedTags {
    all: HashSet<u128>,
    /// The oldest first.
    order: VecDeque<u128>,
}

impl Default for VerifiedSecrets {
    fn default() -> Self {
        Self { keys: [RandomState::new(), RandomState::new()], remembered: Mutex::default() }
    }
}

impl VerifiedSecrets {
    /// What is remembered of a secret that was right for what it was compared with.
    pub(crate) fn tag(&self, secret: impl Hash + Copy) -> u128 {
        let [first, second] = &self.keys;
        (u128::from(first.hash_one(secret)) << 64) | u128::from(second.hash_one(secret))
    }

    pub(crate) fn knows(&self, tag: u128) -> bool {
        self.remembered.lock().unpoisoned().all.contains(&tag)
    }

    pub(crate) fn remember(&self, tag: u128) {
        let mut remembered = self.remembered.lock().unpoisoned();
        if remembered.all.insert(tag) {
            remembered.order.push_back(tag);
        }
        while remembered.order.len() > limits::PASSWORDS_REMEMBERED {
            if let Some(oldest) = remembered.order.pop_front() {
                remembered.all.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_is_remembered_until_it_changes_and_the_memory_is_bounded() {
        let verified = VerifiedSecrets::default();
        for number in 0..=limits::PASSWORDS_REMEMBERED as u128 {
            verified.remember(number);
        }
        assert!(!verified.knows(0) && verified.knows(1));
        assert_eq!(verified.remembered.lock().unwrap().all.len(), limits::PASSWORDS_REMEMBERED);
        assert_ne!(verified.tag(("a", b"b", "one")), verified.tag(("a", b"b", "two")));
        assert_ne!(verified.tag(("ab", &b""[..], "x")), verified.tag(("a", &b"b"[..], "x")));
    }
}
