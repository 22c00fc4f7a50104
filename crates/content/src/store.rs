//! The cache of all sites and workers: the index of objects, the tiers, the purges.
mod hand_over;
mod invalidations;
mod store_error;
mod tiers;
mod volatile;

pub use store_error::StoreError;
pub use tiers::check_space;

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::purge::{PurgeEffect, Purges, Subject};
use penstock_cache::{Budget, Index, Key, Object, OpenedTiers, Tiers};
use penstock_config::{Cache, limits};
use penstock_metrics::Prefetches;
use penstock_sys::lock::Unpoisoned;
use tokio::sync::{Semaphore, watch};

use crate::object::ObjectMetadata;
use crate::site::{CacheRequest, HttpSite, Variants, key_of};
use crate::store::invalidations::Invalidations;
use crate::store::tiers::ConfiguredTiers;
use crate::store::volatile::VolatileObjects;

/// The attempts to take over the tiers of another process.
#[derive(Debug, Default)]
struct Adoption {
    /// When the last one was made.
    last: Option<Instant>,
    /// Why it failed, as the log says.
    said: String,
}

/// Which tiers of the configuration the cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenure {
    All,
    /// A process that ends still has the disks.
    WaitsForDisks,
    /// A process that ends still has all of them.
    WaitsForAll,
}

/// The cache. All workers and all sites share one.
pub struct Store {
    /// Objects by key.
    pub(crate) index: Arc<Index<ObjectMetadata>>,
    /// Where slices are.
    pub(crate) tier: Arc<Tiers>,
    pub(crate) purges: Arc<Purges>,
    pub(crate) variants: Variants,
    /// Targets that requests of clients have changed.
    pub(crate) invalidations: Arc<Invalidations>,
    pub(crate) volatile: VolatileObjects,
    pub(crate) prefetches: Arc<Prefetches>,
    /// A [`Tenure`].
    tenure: AtomicU8,
    budget: Arc<Budget>,
    /// Whether the tiers may have objects of an earlier process.
    has_earlier_objects: bool,
    /// Whether these may be used: false until the purges are known that this machine missed.
    restores: watch::Sender<bool>,
    adoption: Mutex<Adoption>,
    /// Memory in bytes for what goes past a cache without space.
    pub(crate) past_cache: Arc<Semaphore>,
    raw: Cache,
}

impl Store {
    /// Opens the tiers that the configuration names. Blocks while their directories are read.
    ///
    /// While a process that drains has the tiers, the cache waits for them: until [`Self::successor`] it has a small memory
    /// tier of its own.
    ///
    /// # Errors
    /// [`StoreError`]. A disk that does not work is no error: it is left out and logged.
    pub fn open(raw: &Cache) -> Result<Arc<Self>, StoreError> {
        let configured = ConfiguredTiers::new(raw);
        match configured.open(None) {
            Err(error) if error.is_draining() => {
                tracing::info!("{error}: until it ends, this process caches in memory of its own");
                Ok(Self::of(
                    raw,
                    &configured,
                    configured.open_waiting()?,
                    Tenure::WaitsForAll,
                    Arc::default(),
                ))
            }
            opened => Ok(Self::of(raw, &configured, opened?, Tenure::All, Arc::default())),
        }
    }

    fn of(
        raw: &Cache,
        configured: &ConfiguredTiers<'_>,
        opened: OpenedTiers,
        tenure: Tenure,
        invalidations: Arc<Invalidations>,
    ) -> Arc<Self> {
        let OpenedTiers { tiers, restored, purges } = opened;
        let has_earlier_objects = restored.slices > 0 || tiers.disks().is_some();
        let past_cache = usize::try_from(limits::past_cache_bytes(raw.memory.size)).unwrap_or(usize::MAX);
        Arc::new(Self {
            variants: Variants::new(Arc::clone(&configured.budget)),
            invalidations,
            index: Index::new(Arc::clone(&configured.budget), restored),
            tier: tiers,
            purges,
            volatile: VolatileObjects::default(),
            prefetches: Arc::default(),
            tenure: AtomicU8::new(tenure as u8),
            budget: Arc::clone(&configured.budget),
            has_earlier_objects,
            restores: watch::Sender::new(true),
            adoption: Mutex::default(),
            past_cache: Arc::new(Semaphore::new(past_cache)),
            raw: raw.clone(),
        })
    }

    /// Whether the cache waits for its tiers: another process still has them.
    pub fn waits(&self) -> bool {
        self.tenure() == Tenure::WaitsForAll
    }

    /// Whether the cache waits for its tiers or for the disks among them.
    pub fn waits_for_any(&self) -> bool {
        self.tenure() != Tenure::All
    }

    fn tenure(&self) -> Tenure {
        let is = |tenure: &Tenure| *tenure as u8 == self.tenure.load(Ordering::Relaxed);
        [Tenure::WaitsForDisks, Tenure::WaitsForAll].into_iter().find(is).unwrap_or(Tenure::All)
    }

    /// Holds objects of an earlier process back for as long as the guard lives; `None` if there are none.
    pub(crate) fn hold_restores(self: &Arc<Self>) -> Option<HeldRestores> {
        self.has_earlier_objects.then(|| {
            self.restores.send_replace(false);
            HeldRestores(Arc::clone(self))
        })
    }

    /// Resolves when objects of an earlier process may be used. Returns whether that took time.
    pub(crate) async fn may_restore(&self) -> bool {
        let is_held = !*self.restores.borrow();
        if is_held {
            // The sender is here.
            drop(self.restores.subscribe().wait_for(|may_restore| *may_restore).await);
        }
        is_held
    }

    /// Whether the cache waits for its tiers, they have become free, and the last attempt to use them is not too recent.
    pub fn has_successor(&self) -> bool {
        let retry = Duration::from_secs(limits::WAITING_TIER_RETRY_SECONDS);
        let last = self.adoption().last;
        self.waits()
            && last.is_none_or(|last| last.elapsed() >= retry)
            && ConfiguredTiers::new(&self.raw).are_free()
    }

    /// The cache with the configured tiers, if [`Self::has_successor`] says that there is one. Purges of either hold in both,
    /// and so do changes that clients have made.
    /// Tiers that cannot be used are logged, once for each reason, and tried again later. Blocks as [`Self::open`] does.
    pub fn successor(&self) -> Option<Arc<Self>> {
        if !self.has_successor() {
            return None;
        }
        self.adoption().last = Some(Instant::now());
        let configured = ConfiguredTiers::new(&self.raw);
        match configured.open(Some(&self.purges)) {
            Ok(opened) => {
                Some(Self::of(&self.raw, &configured, opened, Tenure::All, Arc::clone(&self.invalidations)))
            }
            Err(error) if error.is_draining() => None,
            Err(error) => {
                let said = error.to_string();
                if self.adoption().said != said {
                    let seconds = limits::WAITING_TIER_RETRY_SECONDS;
                    tracing::error!(
                        "this process keeps its small memory tier and tries again every {seconds} s: {said}"
                    );
                    self.adoption().said = said;
                }
                None
            }
        }
    }

    fn adoption(&self) -> MutexGuard<'_, Adoption> {
        self.adoption.lock().unpoisoned()
    }

    /// Tells a successor that this process is about to end, so that it waits for the tiers instead of failing.
    pub fn announce_end(&self) {
        if self.waits() || self.tier.memory().has_successor() {
            return;
        }
        let directory = &self.raw.memory.directory;
        if let Err(error) = Tiers::announce_end(directory) {
            tracing::warn!(
                "cannot write to {}: a successor must wait for the end of this process: {error}",
                directory.display()
            );
        }
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

    /// Limits copies of what other nodes own to a part of the memory tier, in percent, while others need the space.
    pub fn limit_copies(&self, percent: u64) {
        self.tier.memory().limit_copies(percent);
    }

    /// The purges, for their counters.
    pub fn purges(&self) -> &Arc<Purges> {
        &self.purges
    }

    /// Memory in bytes for what goes past a cache without space, for all readers together.
    pub(crate) fn past_cache_bytes(&self) -> usize {
        usize::try_from(limits::past_cache_bytes(self.raw.memory.size)).unwrap_or(usize::MAX)
    }

    /// Counters of prefetched segments and slices.
    pub fn prefetches(&self) -> &Arc<Prefetches> {
        &self.prefetches
    }

    /// Takes in what an object varies by, and forgets the oldest variant if there are too many. Returns the key of the variant
    /// that `request` selects.
    pub(crate) fn learn_variants(
        &self,
        request: &CacheRequest<'_>,
        site: &str,
        object: &Object<ObjectMetadata>,
    ) -> Key {
        let (key, gone) = self.variants.learn(request, site, object.metadata().varies_by());
        if let Some(gone) = gone {
            self.index.forget(&gone, &self.tier);
        }
        key
    }

    /// The time of a request that begins now: no purge and no change so far affects its object.
    pub(crate) fn stamp(&self, now: SystemTime) -> u64 {
        self.purges.stamp(now).max(self.invalidations.latest())
    }

    /// Forgets all responses of a target of a site, stored or being fetched, because a request with these forwarded fields
    /// has changed it (RFC 9111 §4.4). Those with known keys are removed from all tiers; the others are not used by this
    /// process.
    pub(crate) fn invalidate(
        &self,
        site: &HttpSite,
        target: &str,
        fields: &[(String, String)],
        now: SystemTime,
    ) {
        self.invalidations.add(&site.name, target, || self.purges.later_stamp(now));
        let (shared, own) = (key_of(&site.name, target, &[], &[]), key_of(&site.name, target, fields, &[]));
        for primary in [shared].into_iter().chain((own != shared).then_some(own)) {
            for key in self.variants.kept(&primary).into_iter().chain([primary]) {
                self.index.forget(&key, &self.tier);
            }
        }
    }

    /// Forgets an object that was purged, and returns whether it was; marks as stale from `now` on what a soft purge made
    /// stale.
    pub(crate) fn drop_if_purged(&self, object: &Arc<Object<ObjectMetadata>>, now: Instant) -> bool {
        let gone = self.is_purged(object.metadata(), now);
        if gone {
            self.index.forget_version(object.key(), object);
        }
        gone
    }

    /// Whether an object with this metadata was purged, or its target changed by a client's request; marks it as stale from
    /// `now` on if a soft purge made it stale.
    pub(crate) fn is_purged(&self, metadata: &ObjectMetadata, now: Instant) -> bool {
        self.judge(metadata, now) == PurgeEffect::Gone
    }

    /// What purges and changes of clients mean for an object; marks it as stale from `now` on if a soft purge made it stale.
    /// An object that is gone or stale is judged again, until a response to a later request replaces or confirms it: each
    /// request that finds it must get the same answer, and the response to an earlier request does not make it fresh.
    pub(crate) fn judge(&self, metadata: &ObjectMetadata, now: Instant) -> PurgeEffect {
        let since = metadata.unpurged_until();
        let (purged, changed) = (self.purges.latest(), self.invalidations.latest());
        if since >= purged.max(changed) {
            return PurgeEffect::None;
        }
        // Determined before the object is compared with purges and changes: those that come meanwhile are later.
        let until = match self.invalidations.is_adding() {
            true => since,
            false => purged.max(self.purges.complete_until(changed)),
        };
        if self.invalidations.is_changed(&metadata.site.name, metadata.target(), since) {
            return PurgeEffect::Gone;
        }
        let effect = self.purges.judge(since, metadata.subject());
        match effect {
            PurgeEffect::Gone => {}
            PurgeEffect::Stale => metadata.make_stale(now),
            PurgeEffect::None => drop(metadata.judged.fetch_max(until, Ordering::Relaxed)),
        }
        effect
    }
}

/// Objects of an earlier process are not used.
pub(crate) struct HeldRestores(Arc<Store>);

impl Drop for HeldRestores {
    fn drop(&mut self) {
        self.0.restores.send_replace(true);
    }
}

impl ObjectMetadata {
    /// The values that purge patterns are compared with.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { place: &self.site.name, name: self.target(), tags: self.tags() }
    }
}

impl Drop for Store {
    /// Leaves the contents of the cache in the tiers for the next process, also if the start of this one fails.
    fn drop(&mut self) {
        self.tier.preserve();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("tier", &self.tier).finish_non_exhaustive()
    }
}
