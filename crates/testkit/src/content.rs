//! Bytes that look random and can be told again: every range of a file is known without reading it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The bytes of a file: a function of a seed and the place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Content {
    /// Content that differs between seeds.
    pub fn new(seed: u64, len: u64) -> Self {
        Self { seed: mix(seed), len }
    }

    /// The bytes at these places.
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} lies in {} bytes", self.len);
        let words = range.start / 8..range.end.div_ceil(8);
        let skipped = usize::try_from(range.start % 8).unwrap();
        let wanted = usize::try_from(range.end - range.start).unwrap();
        let mut bytes = Vec::with_capacity(wanted + 16);
        for word in words {
            bytes.extend_from_slice(&mix(self.seed.wrapping_add(word)).to_le_bytes());
        }
        bytes.drain(..skipped);
        bytes.truncate(wanted);
        bytes
    }

    /// All bytes.
    pub fn all(&self) -> Vec<u8> {
        self.bytes(0..self.len)
    }

    /// Writes all bytes to a file, in place if it is there.
    pub fn write_to(&self, path: &Path) {
        const STEP: u64 = 1 << 20;
        let mut file = BufWriter::new(File::create(path).unwrap());
        for start in (0..self.len).step_by(usize::try_from(STEP).unwrap()) {
            file.write_all(&self.bytes(start..self.len.min(start + STEP))).unwrap();
        }
        file.flush().unwrap();
    }

    /// Fails unless the file has exactly these bytes.
    pub fn assert_file(&self, path: &Path) {
        self.assert_range(0..self.len, &std::fs::read(path).unwrap());
    }

    /// Fails with the place of the first difference instead of a page of numbers.
    pub fn assert_range(&self, range: Range<u64>, found: &[u8]) {
        let expected = self.bytes(range.clone());
        if expected == found {
            return;
        }
        let difference = expected.iter().zip(found).position(|(a, b)| a != b);
        assert_eq!(difference, None, "bytes {range:?} of {} differ at this place", self.len);
        assert_eq!(expected.len(), found.len(), "bytes {range:?} of {}: another length", self.len);
    }
}

/// Reproducible random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Seeded from `PENSTOCK_TEST_SEED`, else from the clock; prints the seed, which shows when a test fails.
    pub fn from_environment() -> Self {
        let seed = match std::env::var("PENSTOCK_TEST_SEED") {
            Ok(text) => text.parse().expect("PENSTOCK_TEST_SEED is a number"),
            Err(_) => mix(u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos())),
        };
        println!("to see the same again: PENSTOCK_TEST_SEED={seed}");
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// One of these, which are not none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// SplitMix64.
fn mix(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
