//! Random bytes of the library, which the system seeds.

use std::fmt;

/// A random number for values that must be unlikely, not secret; 0 if the system's generator fails.
pub fn random_number() -> u64 {
    let mut bytes = [0; 8];
    match fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

/// The system's random number generator failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system's random number generator failed")
    }
}

impl std::error::Error for NoRandomness {}

/// Fills `bytes` with random bytes.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    boring::rand::rand_bytes(bytes).map_err(|_| NoRandomness)
}
