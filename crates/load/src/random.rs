//! Reproducible random choices.
//!
//! The generator is PCG64 (`rand_pcg::Pcg64`) seeded by `seed_from_u64`; both are stable across platforms and releases.
//! Thread `n` uses the seed `--seed` + `n`. The distributions come from `rand` and `rand_distr`, whose values change with
//! minor releases only; a test holds the values of this version.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

/// A seeded source of random choices. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(Pcg64);

impl Random {
    /// Equal seeds give equal choices.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// A number from 0 to `end` - 1. `end` must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// A pause with this mean, exponentially distributed as between requests of independent clients.
    pub fn pause(&mut self, mean: Duration) -> Duration {
        let factor: f64 = Exp1.sample(&mut self.0);
        mean.mul_f64(factor)
    }
}

/// Zipf's distribution: of `count` objects, number `k` (from 1) is chosen in proportion to 1/k^s.
#[derive(Clone, Copy, Debug)]
pub struct Zipf(rand_distr::Zipf<f64>);

impl Zipf {
    /// For `count` objects and an exponent above 0; requests on the web have about 1.
    pub fn new(count: u64, exponent: f64) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 objects")]
        let count = count.max(1) as f64;
        rand_distr::Zipf::new(count, exponent).ok().map(Self)
    }

    /// An object, from 0; 0 is the most frequent.
    pub fn choose(&self, random: &mut Random) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to the count, which was a u64"
        )]
        let rank = self.0.sample(&mut random.0) as u64;
        rank.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choices_in_every_release() {
        let mut random = Random::new(1);
        let numbers: Vec<u64> = (0..6).map(|_| random.below(1000)).collect();
        let zipf = Zipf::new(1000, 1.0).unwrap();
        let objects: Vec<u64> = (0..6).map(|_| zipf.choose(&mut random)).collect();
        let pauses: Vec<u128> = (0..3).map(|_| random.pause(Duration::from_secs(1)).as_millis()).collect();
        assert_eq!(numbers, [839, 17, 113, 983, 888, 475]);
        assert_eq!(objects, [1, 28, 0, 99, 7, 53]);
        assert_eq!(pauses, [106, 2136, 1078]);
        assert_ne!(Random::new(1).below(1 << 60), Random::new(2).below(1 << 60));
    }

    #[test]
    fn zipf_gives_every_rank_its_share() {
        for exponent in [0.7, 1.0, 1.3] {
            let zipf = Zipf::new(1000, exponent).unwrap();
            let mut random = Random::new(7);
            let mut counts = vec![0_u32; 1000];
            for _ in 0..200_000 {
                counts[usize::try_from(zipf.choose(&mut random)).unwrap()] += 1;
            }
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1_u32, 2, 3, 10, 50] {
                let expected = 200_000.0 * f64::from(rank).powf(-exponent) / total;
                let found = f64::from(counts[rank as usize - 1]);
                let tolerance = 5.0 * expected.sqrt();
                assert!((found - expected).abs() < tolerance, "{exponent}, {rank}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn zipf_over_one_object_is_that_object() {
        let mut random = Random::new(3);
        let zipf = Zipf::new(1, 1.0).unwrap();
        assert!((0..100).all(|_| zipf.choose(&mut random) == 0));
    }

    #[test]
    fn pauses_have_their_mean() {
        let mut random = Random::new(5);
        let total: Duration = (0..100_000).map(|_| random.pause(Duration::from_millis(20))).sum();
        let mean = total / 100_000;
        assert!((19_700..20_300).contains(&mean.as_micros()), "{mean:?}");
    }
}
