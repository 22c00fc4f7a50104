//! Counters of live streams.

use super::shard::Shard;

impl Shard {
    /// A manifest came from an origin; `kind` says which.
    pub fn manifest(&self, kind: &'static str) {
        self.expect_own_thread();
        self.manifests.add(kind);
    }
}
