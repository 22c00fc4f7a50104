//! Keys of targets that were asked for before: a comparison costs a tenth of the digest.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use penstock_cache::Key;

use crate::site::variants::key_of;

/// Keys that one worker remembers: at most 72 KiB.
const KEYS: usize = 256;
/// Bytes of a site's name and a target that are remembered at most.
const TEXT_BYTES_MAX: usize = 256;

/// Keys of one worker, at a place that a keyed hash of the text gives.
#[derive(Default)]
pub struct KnownKeys {
    hasher: RandomState,
    slots: RefCell<Vec<KnownKey>>,
}

#[derive(Clone, Default)]
struct KnownKey {
    /// The name of the site and the target, one behind the other.
    text: Vec<u8>,
    site_bytes: usize,
    key: Key,
}

impl KnownKey {
    fn is_of(&self, site: &str, target: &str) -> bool {
        self.site_bytes == site.len()
            && self.text.len() == site.len() + target.len()
            && self.text.ends_with(target.as_bytes())
            && self.text.starts_with(site.as_bytes())
    }
}

impl KnownKeys {
    /// The key of a target that varies by nothing.
    pub(crate) fn get(&self, site: &str, target: &str) -> Key {
        if site.len() + target.len() > TEXT_BYTES_MAX || target.is_empty() {
            return key_of(site, target, &[], &[]);
        }
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(KEYS, KnownKey::default());
        }
        let place = usize::try_from(self.hasher.hash_one(target) % KEYS as u64).unwrap_or(0);
        let slot = &mut slots[place];
        if !slot.is_of(site, target) {
            slot.key = key_of(site, target, &[], &[]);
            slot.site_bytes = site.len();
            slot.text.clear();
            slot.text.extend_from_slice(site.as_bytes());
            slot.text.extend_from_slice(target.as_bytes());
        }
        slot.key
    }
}

impl fmt::Debug for KnownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_key_is_that_of_site_and_target() {
        let keys = KnownKeys::default();
        let long = "/long".repeat(100);
        let many: Vec<String> = (0..2_000).map(|number| format!("/{number}")).collect();
        let few = ["/a", "/ab", "b/a", "", &long];
        let targets = || few.into_iter().chain(many.iter().map(String::as_str));
        for target in targets().chain(targets()) {
            for site in ["site", "sit", "e", ""] {
                assert_eq!(keys.get(site, target), key_of(site, target, &[], &[]), "{site} {target}");
            }
        }
    }

    #[test]
    fn memory_of_known_keys_is_bounded() {
        let keys = KnownKeys::default();
        for number in 0..10_000 {
            keys.get("site", &format!("/{number}{}", "x".repeat(number % 400)));
        }
        let slots = keys.slots.borrow();
        let bytes: usize = slots.iter().map(|slot| slot.text.capacity()).sum();
        assert!(slots.len() == KEYS && bytes <= 2 * KEYS * TEXT_BYTES_MAX, "{bytes}");
    }
}
