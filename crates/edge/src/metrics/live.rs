//! Counters of live streams.

use super::shard::Shard;

impl Shard {
    /// A manifest came from an origin; `kind` says which.
    pub fn manifest(&self, kind: &'static str) {
        self.expect_own_thread();
        self.manifests.add(kind);
    }

    /// A player asked for a playlist with something that may not be there yet; `outcome` says what became of it.
    pub fn reload(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.reloads.add(outcome);
    }
}
