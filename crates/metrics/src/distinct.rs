//! How many different names there were, in constant memory (HyperLogLog; Flajolet, Fusy, Gandouet, Meunier 2007).

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Registers of one counter; the standard error is 1.04 divided by the root of their number: 3.3 %.
const REGISTERS: usize = 1024;

/// The bits of a hash that choose a register.
const REGISTER_BITS: u32 = REGISTERS.ilog2();

/// Keyed, so that clients cannot choose names with rare hashes; one key, so that workers count the same name once.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Counts different names. One worker writes, any thread reads.
#[derive(Debug)]
pub(crate) struct Distinct([AtomicU8; REGISTERS]);

impl Default for Distinct {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; REGISTERS])
    }
}

impl Distinct {
    pub(crate) fn add(&self, name: &str) {
        self.add_hash(HASHES.hash_one(name));
    }

    fn add_hash(&self, hash: u64) {
        let place = usize::try_from(hash >> (u64::BITS - REGISTER_BITS)).unwrap_or(0);
        // The rest of the hash has at least one bit set.
        let rank = (hash << REGISTER_BITS | 1 << (REGISTER_BITS - 1)).leading_zeros() + 1;
        let rank = u8::try_from(rank).unwrap_or(u8::MAX);
        if let Some(register) = self.0.get(place)
            && register.load(Relaxed) < rank
        {
            register.store(rank, Relaxed);
        }
    }
}

/// The number of different names in all of these together, estimated.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate is not negative")]
pub(crate) fn estimate<'d>(counters: impl IntoIterator<Item = &'d Distinct>) -> u64 {
    let mut registers = [0_u8; REGISTERS];
    for counter in counters {
        for (known, register) in registers.iter_mut().zip(&counter.0) {
            *known = (*known).max(register.load(Relaxed));
        }
    }
    let size = REGISTERS as f64;
    let empty = registers.iter().filter(|rank| **rank == 0).count();
    let sum: f64 = registers.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
    let raw = 0.7213 / (1.0 + 1.079 / size) * size * size / sum;
    let estimate = match empty {
        1.. if raw <= 2.5 * size => size * (size / empty as f64).ln(),
        _ => raw,
    };
    estimate.round() as u64
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn the_estimate_is_close_and_a_name_counts_once_in_all_workers() {
        // Without a secret, so that each run is the same.
        let hash = |number: u32| BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
        let (one, other) = (Distinct::default(), Distinct::default());
        assert_eq!(estimate([&one, &other]), 0);
        for number in 0..3 {
            one.add_hash(hash(number));
            other.add_hash(hash(number));
        }
        assert_eq!(estimate([&one, &other]), 3);
        for number in 0..50_000 {
            let counter = if number % 3 == 0 { &one } else { &other };
            counter.add_hash(hash(number));
            other.add_hash(hash(number));
        }
        let seen = estimate([&one, &other]);
        // Three times the standard error.
        assert!((45_000..55_000).contains(&seen), "{seen}");
        let named = Distinct::default();
        named.add("session");
        named.add("session");
        assert_eq!(estimate([&named]), 1);
    }
}
