//! Keys of objects, and their place in hash tables.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::numbers::u64_at;

/// The key of an object: a digest of site, path and everything else that distinguishes it, made by the caller.
pub type Key = [u8; 16];

/// The first half of a key: enough to tell objects apart where a wrong answer is noticed later.
pub(crate) fn short_name(key: &Key) -> u64 {
    let (first, _) = key.split_first_chunk().expect("a key is longer than eight bytes");
    u64::from_ne_bytes(*first)
}

/// Hashes keys with a secret for each table.
///
/// Keys are digests, but a client can choose among them: without a secret it could make thousands fall into one bucket.
#[derive(Clone)]
pub(crate) struct KeyHashing([u64; 2]);

impl Default for KeyHashing {
    fn default() -> Self {
        let random = RandomState::new();
        // Odd, so that no bit of a key is lost.
        Self([0_u8, 1].map(|half| random.hash_one(half) | 1))
    }
}

impl BuildHasher for KeyHashing {
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

    /// Half of a key, in tables that use it as the name.
    fn write_u64(&mut self, half: u64) {
        self.hash = half.wrapping_mul(self.secret[0]).rotate_left(32);
    }

    /// The length of a key, which is the same for all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_keys_are_spread_by_a_secret_of_each_table() {
        let (one, other) = (KeyHashing::default(), KeyHashing::default());
        let key = |number: u32| {
            let mut key = Key::default();
            key[12..].copy_from_slice(&number.to_le_bytes());
            key
        };
        let places = |table: &KeyHashing| {
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
