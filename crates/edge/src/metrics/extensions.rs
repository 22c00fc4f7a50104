//! Counters of what clients asked for in their extensions, and got.

use penstock_tls::{Compression, EncryptedHello, Extensions, Staple};

use super::cells::Counter;
use super::shard::Shard;

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
