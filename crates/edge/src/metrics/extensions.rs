//! Counters of what clients asked for in their extensions, and got; and of what the keeper does so that they can.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use penstock_tls::ocsp::{Fault, Staples};
use penstock_tls::{Compression, EncryptedHello, Extensions, Staple};

use super::cells::Counter;
use super::labels::{StapleOutcome, StapleSource};
use super::lock;
use super::shard::Shard;

/// What the keeper counts, from its own thread.
#[derive(Debug, Default)]
pub struct KeeperCounters {
    staples: [[AtomicU64; StapleOutcome::ALL.len()]; StapleSource::ALL.len()],
    current: Mutex<Option<Arc<Staples>>>,
    ech_keys: AtomicU64,
    ech_ignored: AtomicU64,
}

impl KeeperCounters {
    /// An OCSP response was looked at, or could not be had.
    pub fn staple(&self, source: StapleSource, outcome: StapleOutcome) {
        self.staples[source as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    /// Where the staples in use are found.
    pub fn set_staples(&self, staples: Arc<Staples>) {
        *lock(&self.current) = Some(staples);
    }

    /// How many keys open encrypted hellos, and how many files were no keys.
    pub fn ech_keys(&self, keys: usize, ignored: usize) {
        self.ech_keys.store(keys as u64, Relaxed);
        self.ech_ignored.store(ignored as u64, Relaxed);
    }

    /// The two of [`Self::ech_keys`].
    pub(super) fn ech_files(&self) -> [u64; 2] {
        [self.ech_keys.load(Relaxed), self.ech_ignored.load(Relaxed)]
    }

    pub(super) fn staples(&self, source: StapleSource, outcome: StapleOutcome) -> u64 {
        self.staples[source as usize][outcome as usize].load(Relaxed)
    }

    pub(super) fn current(&self) -> Option<Arc<Staples>> {
        lock(&self.current).clone()
    }
}

impl From<Fault> for StapleOutcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Malformed => Self::Malformed,
            Fault::Refused => Self::Refused,
            Fault::WrongCertificate => Self::WrongCertificate,
            Fault::BadSignature => Self::BadSignature,
            Fault::WrongResponder => Self::WrongResponder,
            Fault::Early => Self::Early,
            Fault::Stale => Self::Stale,
            Fault::Revoked => Self::Revoked,
            Fault::Unknown => Self::UnknownCertificate,
        }
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub(super) struct ExtensionCounters {
    pub(super) certificates: [Counter; COMPRESSIONS.len()],
    pub(super) staples: [Counter; STAPLES.len()],
    pub(super) encrypted_hellos: [Counter; ENCRYPTED_HELLOS.len()],
}

/// Label values, in the order of the counters.
pub(super) const COMPRESSIONS: [&str; 4] = ["none", "brotli", "zstd", "zlib"];
pub(super) const STAPLES: [&str; 3] = ["sent", "missing", "not_asked"];
pub(super) const ENCRYPTED_HELLOS: [&str; 3] = ["accepted", "rejected", "not_offered"];

impl Shard {
    /// What became of the extensions of a successful handshake.
    pub fn extensions(&self, extensions: &Extensions, resumed: bool) {
        self.expect_own_thread();
        let counters = &self.extensions;
        let hello = match extensions.encrypted_hello {
            EncryptedHello::Accepted => 0,
            EncryptedHello::Rejected => 1,
            EncryptedHello::NotOffered => 2,
        };
        counters.encrypted_hellos[hello].add(1);
        if resumed {
            return;
        }
        let staple = match extensions.staple {
            Staple::Sent => 0,
            Staple::Missing => 1,
            Staple::NotAsked => 2,
        };
        counters.staples[staple].add(1);
        let compression = match extensions.compression {
            None => 0,
            Some(Compression::Brotli) => 1,
            Some(Compression::Zstd) => 2,
            Some(Compression::Zlib) => 3,
        };
        counters.certificates[compression].add(1);
    }
}
