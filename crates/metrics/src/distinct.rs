//! How many different names there were, in constant memory (HyperLogLog; Flajolet, Fusy, Gandouet, Meunier 2007). The standard
//! error is 1.04 divided by the root of the number of registers, which is a power of two from 64 on.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Keyed, so that clients cannot choose names with rare hashes; one key, so that workers count the same name once.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The hash of a name of which different ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHash(u64);

impl NameHash {
    /// The hash of a name, the same in all workers.
    #[must_use]
    pub fn of(name: impl Hash) -> Self {
        Self(HASHES.hash_one(name))
    }

    /// The hash of a number without a secret, so that each run of a test is the same.
    #[cfg(test)]
    pub(crate) fn of_number(number: u32) -> Self {
        use std::hash::{BuildHasherDefault, DefaultHasher};
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one(number))
    }

    /// The register of the name among so many, and the rank that it has there.
    fn place(self, registers: usize) -> (usize, u8) {
        let Self(hash) = self;
        let bits = registers.ilog2();
        let place = usize::try_from(hash >> (u64::BITS - bits)).unwrap_or(0);
        // The rest of the hash has at least one bit set.
        let rank = (hash << bits | 1 << (bits - 1)).leading_zeros() + 1;
        (place, u8::try_from(rank).unwrap_or(u8::MAX))
    }
}

/// Counts different names. One worker writes, any thread reads.
#[derive(Debug)]
pub(crate) struct Distinct<const REGISTERS: usize>([AtomicU8; REGISTERS]);

/// The same for one thread, or a sum of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers<const REGISTERS: usize>([u8; REGISTERS]);

impl<const REGISTERS: usize> Default for Distinct<REGISTERS> {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; REGISTERS])
    }
}

impl<const REGISTERS: usize> Default for Registers<REGISTERS> {
    fn default() -> Self {
        Self([0; REGISTERS])
    }
}

impl<const REGISTERS: usize> Distinct<REGISTERS> {
    pub(crate) fn add(&self, name: NameHash) {
        let (place, rank) = name.place(REGISTERS);
        if let Some(register) = self.0.get(place)
            && register.load(Relaxed) < rank
        {
            register.store(rank, Relaxed);
        }
    }

    /// Forgets all names.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|register| register.store(0, Relaxed));
    }
}

impl<const REGISTERS: usize> Registers<REGISTERS> {
    pub(crate) fn add(&mut self, name: NameHash) {
        let (place, rank) = name.place(REGISTERS);
        if let Some(register) = self.0.get_mut(place) {
            *register = rank.max(*register);
        }
    }

    /// Adds the names of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(known, rank)| *known = rank.max(*known));
    }

    /// Adds the names that a worker counts.
    pub(crate) fn merge_from(&mut self, counter: &Distinct<REGISTERS>) {
        for (known, register) in self.0.iter_mut().zip(&counter.0) {
            *known = register.load(Relaxed).max(*known);
        }
    }

    /// The number of different names, estimated.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate is not negative"
    )]
    pub(crate) fn estimate(&self) -> u64 {
        let size = REGISTERS as f64;
        let empty = self.0.iter().filter(|rank| **rank == 0).count();
        let sum: f64 = self.0.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
        let bias = if REGISTERS < 128 { 0.709 } else { 0.7213 / (1.0 + 1.079 / size) };
        let raw = bias * size * size / sum;
        let estimate = match empty {
            1.. if raw <= 2.5 * size => size * (size / empty as f64).ln(),
            _ => raw,
        };
        estimate.round() as u64
    }
}

/// The number of different names in all of these together, estimated.
pub(crate) fn estimate<'d, const REGISTERS: usize>(
    counters: impl IntoIterator<Item = &'d Distinct<REGISTERS>>,
) -> u64 {
    let mut all = Registers::default();
    counters.into_iter().for_each(|counter| all.merge_from(counter));
    all.estimate()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_close_and_a_name_counts_once_in_all_workers() {
        let (one, other) = (Distinct::<1024>::default(), Distinct::<1024>::default());
        assert_eq!(estimate([&one, &other]), 0);
        for number in 0..3 {
            one.add(NameHash::of_number(number));
            other.add(NameHash::of_number(number));
        }
        assert_eq!(estimate([&one, &other]), 3);
        for number in 0..50_000 {
            let counter = if number % 3 == 0 { &one } else { &other };
            counter.add(NameHash::of_number(number));
            other.add(NameHash::of_number(number));
        }
        let seen = estimate([&one, &other]);
        // Three times the standard error.
        assert!((45_000..55_000).contains(&seen), "{seen}");
        one.clear();
        assert_eq!(estimate([&one]), 0);
        one.add(NameHash::of("session"));
        one.add(NameHash::of("session"));
        assert_eq!(estimate([&one]), 1);
    }

    #[test]
    fn few_registers_estimate_with_a_larger_error() {
        let (mut one, mut other) = (Registers::<64>::default(), Registers::<64>::default());
        for (names, allowed) in [(5, 4..=6), (100, 61..=139), (20_000, 12_200..=27_800)] {
            for number in 0..names {
                let half = if number % 2 == 0 { &mut one } else { &mut other };
                half.add(NameHash::of_number(number));
            }
            let mut both = one;
            both.merge(&other);
            let seen = both.estimate();
            assert!(allowed.contains(&seen), "{seen} of {names}");
        }
    }
}
