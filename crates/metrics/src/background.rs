//! Counters of the background tasks that refresh OCSP responses and ECH keys.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::labels::{StapleOutcome, StapleSource};

/// Counts OCSP responses and ECH key files. Any thread may count.
#[derive(Debug, Default)]
pub struct BackgroundCounters {
    staples: [[AtomicU64; StapleOutcome::ALL.len()]; StapleSource::ALL.len()],
    ech_keys: AtomicU64,
    ech_ignored: AtomicU64,
}

impl BackgroundCounters {
    /// Counts an OCSP response, or a failed attempt to get one.
    pub fn staple(&self, source: StapleSource, outcome: StapleOutcome) {
        self.staples[source as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    /// Replaces the number of ECH keys in use, and of files in their directory that hold no key.
    pub fn ech_keys(&self, keys: usize, ignored: usize) {
        self.ech_keys.store(keys as u64, Relaxed);
        self.ech_ignored.store(ignored as u64, Relaxed);
    }

    /// The two numbers of [`Self::ech_keys`].
    pub(crate) fn ech_files(&self) -> [u64; 2] {
        [self.ech_keys.load(Relaxed), self.ech_ignored.load(Relaxed)]
    }

    pub(crate) fn staples(&self, source: StapleSource, outcome: StapleOutcome) -> u64 {
        self.staples[source as usize][outcome as usize].load(Relaxed)
    }
}
