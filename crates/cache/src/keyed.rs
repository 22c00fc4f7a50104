//! Finding places in a table by key. Keys are as good as random already, but whoever asks for objects can choose among
//! them: it takes a secret to keep a client from having thousands fall into one place.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::numbers::u64_at;

/// The secret of one table.
#[derive(Clone)]
pub(crate) struct Keyed([u64; 2]);

impl Default for Keyed {
    fn default() -> Self {
        let random = RandomState::new();
        // Odd, so that no bit of a key is lost.
        Self([0_u8, 1].map(|half| random.hash_one(half) | 1))
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { secret: self.0, hash: 0 }
    }
}

/// Hashes one key.
pub(crate) struct KeyHasher {
    secret: [u64; 2],
    hash: u64,
}

impl Hasher for KeyHasher {
    fn write(&mut self, key: &[u8]) {
        let half = |place| u64_at(key, place).unwrap_or_default();
        let [first, second] = self.secret;
        let sum = half(0).wrapping_mul(first).wrapping_add(half(8).wrapping_mul(second));
        // A product's upper bits depend on all of the key; tables look at the lower ones.
        self.hash = sum.rotate_left(32);
    }

    /// Half of a key, where that is the name.
    fn write_u64(&mut self, half: u64) {
        self.hash = half.wrapping_mul(self.secret[0]).rotate_left(32);
    }

    /// Its length, which says nothing.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn keys_that_are_alike_fall_into_different_places_and_nobody_knows_which() {
        let (one, other) = (Keyed::default(), Keyed::default());
        let key = |number: u32| {
            let mut key = Key::default();
            key[12..].copy_from_slice(&number.to_le_bytes());
            key
        };
        let places = |table: &Keyed| {
            let mut places: Vec<u64> = (0..4096).map(|number| table.hash_one(key(number)) % 4096).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        // Random ones would take 63 of 100 places.
        assert!(places(&one) > 1500, "{}", places(&one));
        assert_ne!(one.hash_one(key(1)), other.hash_one(key(1)));
        assert_ne!(one.hash_one(1_u64), other.hash_one(1_u64));
    }
}
