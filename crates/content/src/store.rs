//! The cache of all sites and workers: the index of objects, the tiers, the purges.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use penstock_cache::purge::{PurgeEffect, Purges, Subject};
use penstock_cache::{Budget, Index, Object, OpenedTiers, Tiers};
use penstock_config::{Cache, limits};
use penstock_metrics::Prefetches;

use crate::metadata::ObjectMetadata;
use crate::store_error::StoreError;
use crate::tiers;
use crate::variants::Variants;
use crate::volatile::VolatileObjects;

/// The cache. All workers and all sites share one.
pub struct Store {
    /// Objects by key.
    pub(crate) index: Arc<Index<ObjectMetadata>>,
    /// Where slices are.
    pub(crate) tier: Arc<Tiers>,
    pub(crate) purges: Arc<Purges>,
    pub(crate) variants: Variants,
    pub(crate) volatile: VolatileObjects,
    pub(crate) prefetches: Arc<Prefetches>,
    raw: Cache,
}

impl Store {
    /// Opens the tiers that the configuration names. Blocks while their directories are read.
    ///
    /// # Errors
    /// [`StoreError`]. A disk that does not work is no error: it is left out and logged.
    pub fn open(raw: &Cache) -> Result<Arc<Self>, StoreError> {
        let disk_bytes = raw.disks.iter().map(|disk| disk.size).sum();
        let known_bytes = limits::known_bytes(raw.memory.size, disk_bytes, raw.slice);
        let budget = Arc::new(Budget::new(known_bytes));
        let OpenedTiers { tiers, restored, purges } = tiers::open(raw, &budget)?;
        Ok(Arc::new(Self {
            variants: Variants::new(Arc::clone(&budget)),
            index: Index::new(budget, restored),
            tier: tiers,
            purges,
            volatile: VolatileObjects::default(),
            prefetches: Arc::default(),
            raw: raw.clone(),
        }))
    }

    /// Prepares the cache for the end of the process: what it holds stays in the tiers for the next one.
    pub fn leave(&self) {
        self.tier.preserve();
    }

    /// Whether the cache was opened with this configuration.
    pub fn is_configured_as(&self, raw: &Cache) -> bool {
        self.raw == *raw
    }

    /// The tiers, for their counters.
    pub fn tier(&self) -> &Arc<Tiers> {
        &self.tier
    }

    /// The purges, for their counters.
    pub fn purges(&self) -> &Arc<Purges> {
        &self.purges
    }

    /// Counters of prefetched segments and slices.
    pub fn prefetches(&self) -> &Arc<Prefetches> {
        &self.prefetches
    }

    /// Forgets an object that was purged, and returns whether it was; marks as stale what a soft purge made stale.
    pub(crate) fn drop_if_purged(&self, object: &Arc<Object<ObjectMetadata>>) -> bool {
        let gone = self.is_purged(object.description());
        if gone {
            self.index.forget_version(object.key(), object);
        }
        gone
    }

    /// Whether an object with this metadata was purged; marks it as stale if a soft purge made it stale.
    pub(crate) fn is_purged(&self, metadata: &ObjectMetadata) -> bool {
        let verdict = self.purges.judge(&metadata.judged, || metadata.subject());
        if verdict == PurgeEffect::Stale {
            metadata.make_stale(Instant::now());
        }
        verdict == PurgeEffect::Gone
    }
}

impl ObjectMetadata {
    /// The values that purge patterns are compared with.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { place: &self.site.name, name: self.target(), tags: self.tags() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("tier", &self.tier).finish_non_exhaustive()
    }
}
