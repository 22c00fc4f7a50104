//! The cache passes to a successor that runs beside this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use penstock_cache::purge::NotKept;
use penstock_cache::{BusySlots, GivenTier, Tiers};
use penstock_config::Cache;

use crate::store::tiers::ConfiguredTiers;
use crate::store::{Store, StoreError, Tenure};

impl Store {
    /// Takes over the memory tier of a process that runs beside this one. Its disks follow with [`Self::adopt_disks`]. If the
    /// tier is configured in another way, the cache waits for the end of that process as in [`Self::open`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_given(raw: &Cache, given: GivenTier) -> Result<Arc<Self>, StoreError> {
        let configured = ConfiguredTiers::new(raw);
        match configured.open_given(given) {
            Err(error) if error.is_draining() => {
                tracing::info!(
                    "the memory tier in {} has another size or slice than before: until the process before ends, this one \
                     caches in memory of its own",
                    raw.memory.directory.display()
                );
                let opened = configured.open_waiting()?;
                Ok(Self::of(raw, &configured, opened, Tenure::WaitsForAll, Arc::default()))
            }
            opened => {
                let tenure = if raw.disks.is_empty() { Tenure::All } else { Tenure::WaitsForDisks };
                Ok(Self::of(raw, &configured, opened?, tenure, Arc::default()))
            }
        }
    }

    /// Whether the process before still reads from the memory tier.
    pub fn has_predecessor(&self) -> bool {
        self.tier.memory().has_predecessor()
    }

    /// Gives the memory tier to a successor: from now on nothing is filled or evicted here. `None` if that is not possible; the
    /// successor then waits for the end of this process.
    pub fn give_away(&self) -> Option<GivenTier> {
        let given = if self.waits() { None } else { self.tier.give_away() };
        if given.is_none() {
            self.announce_end();
        }
        given
    }

    /// Uses the tiers again: the successor has ended.
    pub fn take_back(&self) {
        self.tier.take_back();
        Tiers::withdraw_end(&self.raw.memory.directory);
    }

    /// Forgets all objects but those that responses read, and leaves them to the successor.
    pub fn forget_for_successor(&self) {
        self.index.clear();
    }

    /// The slots of the memory tier that responses of this process still read, for the successor.
    pub fn busy_slots(&self) -> BusySlots {
        self.tier.busy_slots()
    }

    /// Takes in the purges that the predecessor has written down since this process opened their list.
    ///
    /// # Errors
    /// [`NotKept`], if the list cannot be read.
    pub fn read_purges_again(&self) -> Result<(), NotKept> {
        self.purges.add_directory(&self.raw.memory.directory, SystemTime::now())
    }

    /// What the predecessor still reads of the memory tier; `None` if it has ended.
    pub fn set_predecessor(&self, busy: Option<&BusySlots>) {
        self.tier.set_predecessor(busy);
    }

    /// Opens the disks that the predecessor had, if the cache waits for them and they are free. Returns whether it does not wait
    /// any more. Disks that cannot be used are logged and left out.
    pub fn adopt_disks(&self) -> bool {
        if self.tenure() != Tenure::WaitsForDisks {
            return false;
        }
        let configured = ConfiguredTiers::with_budget(&self.raw, Arc::clone(&self.budget));
        match configured.add_disks(&self.tier, &self.purges) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error) => tracing::error!("the disk tier stays out of service until the next start: {error}"),
        }
        self.tenure.store(Tenure::All as u8, Ordering::Relaxed);
        true
    }
}
