//! A fast keyed hash of short texts: multiplications of 64 bits whose halves are folded. A client that does not know the key cannot
//! look for two texts with the same hash. At worst two keys would be counted as one.

use std::hash::{BuildHasher as _, RandomState};

/// The secret.
#[derive(Debug)]
pub(crate) struct KeyedHash([u64; 2]);

impl Default for KeyedHash {
    fn default() -> Self {
        let state = RandomState::new();
        Self([state.hash_one(0_u8), state.hash_one(1_u8)])
    }
}

impl KeyedHash {
    /// The hash of these texts one behind the other; where one ends matters.
    pub(crate) fn of(&self, parts: &[&str]) -> u64 {
        parts.iter().fold(self.0[0], |hash, part| self.with(hash, part.as_bytes()))
    }

    /// The hash of a number.
    pub(crate) fn of_number(&self, number: u64) -> u64 {
        self.mixed(self.0[0], number)
    }

    /// The hash of a text behind those of another hash.
    pub(crate) fn with(&self, hash: u64, text: &[u8]) -> u64 {
        let (words, rest) = text.as_chunks::<8>();
        let hash = words.iter().fold(hash, |hash, word| self.mixed(hash, u64::from_le_bytes(*word)));
        // The last eight bytes: those of the words among them are mixed twice, which is faster than to copy the rest.
        let last = match text.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte)),
        };
        // The length tells a text from one with zeros behind it.
        self.mixed(self.mixed(hash, last), text.len() as u64)
    }

    fn mixed(&self, hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ word) * u128::from(self.0[1] | 1);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        low ^ high ^ hash.rotate_left(23)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_differ_also_of_texts_that_are_alike_and_between_keys() {
        let hashes = KeyedHash::default();
        let mut seen = HashSet::new();
        for number in 0..20_000 {
            assert!(seen.insert(hashes.of(&["video.example", &format!("/film/{number}/")])), "{number}");
        }
        for parts in [&["ab", "c"][..], &["a", "bc"], &["abc"], &["abc", ""], &["", "abc"], &["abc\0"], &[]] {
            assert!(seen.insert(hashes.of(parts)), "{parts:?}");
        }
        assert_ne!(KeyedHash::default().of(&["a"]), hashes.of(&["a"]));
        // All bits take part: the upper ones choose a place, too.
        let (ones, zeros) =
            seen.iter().fold((0, u64::MAX), |(ones, zeros), hash| (ones | hash, zeros & hash));
        assert_eq!((ones, zeros), (u64::MAX, 0));
    }
}
