//! Reproducible random numbers, and the distributions that loads are made of.

use std::time::Duration;

/// Random numbers for choosing, not for secrets (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `end`, which is not included and not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias is below end / 2^64.
        u64::try_from((u128::from(self.number()) * u128::from(end)) >> 64).unwrap_or(0)
    }

    /// From 0 to 1, which is not included.
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
        let bits = (self.number() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }

    /// A pause whose mean is given, as between the requests of people (exponential distribution).
    pub fn pause(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.unit()).ln())
    }
}

/// Ranks from 1 to n of which rank k is chosen in proportion to 1/k^s: a few objects are asked for most.
///
/// Rejection-inversion (Hörmann and Derflinger 1996): no table, however many objects there are.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    first: f64,
    last: f64,
    threshold: f64,
}

impl Zipf {
    /// For `count` objects and an exponent of more than 0; 1 is what the web looks like.
    pub fn new(count: u64, exponent: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 objects")]
        let count = count.max(1) as f64;
        let mut zipf = Self { count, exponent, first: 0.0, last: 0.0, threshold: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count + 0.5);
        zipf.threshold = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank, the most frequent being 0.
    pub fn choose(&self, random: &mut Random) -> u64 {
        loop {
            let place = self.last + random.unit() * (self.first - self.last);
            let exact = self.inverse(place);
            let rank = exact.round().clamp(1.0, self.count);
            if rank - exact <= self.threshold || place >= self.integral(rank + 0.5) - self.weight(rank) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "from 1 to the count, which was a u64"
                )]
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight, which is ln x for the exponent 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        let power = (1.0 - self.exponent) * ln;
        if power.abs() < 1e-9 { ln } else { power.exp_m1() / (1.0 - self.exponent) }
    }

    fn inverse(&self, y: f64) -> f64 {
        let scaled = y * (1.0 - self.exponent);
        if scaled.abs() < 1e-9 { y.exp() } else { (scaled.max(-1.0).ln_1p() / (1.0 - self.exponent)).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_an_end_are_spread_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_gives_every_rank_its_share() {
        for exponent in [0.7, 1.0, 1.3] {
            let zipf = Zipf::new(1000, exponent);
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
        assert!((0..100).all(|_| Zipf::new(1, 1.0).choose(&mut random) == 0));
    }

    #[test]
    fn pauses_have_their_mean() {
        let mut random = Random::new(5);
        let total: Duration = (0..100_000).map(|_| random.pause(Duration::from_millis(20))).sum();
        let mean = total / 100_000;
        assert!((19_700..20_300).contains(&mean.as_micros()), "{mean:?}");
    }
}
