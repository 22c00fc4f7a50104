//! Both tiers of a cache: memory, and the disks behind it if there are any.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use penstock_metrics::TierCounters;

use crate::budget::Budget;
use crate::disk::{DiskError, DiskLimits, Disks};
use crate::draining;
use crate::event::Report;
use crate::memory::{BusySlots, GivenTier, MemoryTier, Restored, Scrubber, TierError, TierLimits};
use crate::purge::{NotKept, PurgeLimits, Purges};

/// The configuration of the tiers.
#[derive(Clone, Copy, Debug)]
pub struct TierOptions<'o> {
    /// Directory of the memory tier.
    pub memory: &'o Path,
    /// Its size.
    pub memory_limits: TierLimits,
    /// Directories of the disk tier with their limits; none without a disk tier.
    pub disks: &'o [(PathBuf, DiskLimits)],
    /// The budget of the index of the disks; the same as that of [`crate::Index`].
    pub budget: &'o Arc<Budget>,
    /// Limits of the list of purges, which lies in all directories.
    pub purge_limits: PurgeLimits,
    /// The list, if [`Tiers::open_waiting`] has opened it.
    pub purges: Option<&'o Arc<Purges>>,
}

/// Tiers that were opened, with what earlier processes left in them.
pub struct OpenedTiers {
    /// The tiers.
    pub tiers: Arc<Tiers>,
    /// Objects in memory.
    pub restored: Restored,
    /// The list of purges.
    pub purges: Arc<Purges>,
}

/// Why the tiers cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The memory tier cannot.
    Memory(TierError),
    /// The disks cannot. A disk that fails alone is no error: it is left out.
    Disks(DiskError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Disks(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Both tiers of a cache.
pub struct Tiers {
    memory: Arc<MemoryTier>,
    /// Empty without disks, and while a predecessor has them.
    disks: OnceLock<Arc<Disks>>,
    scrubber: Scrubber,
}

impl Tiers {
    /// Opens both tiers and the list of purges; blocks for a moment. A disk that cannot be used is left out, and `report`
    /// is called; so it is when other files take the space of the memory tier.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        options: &TierOptions<'_>,
        report: Report,
        now: SystemTime,
    ) -> Result<OpenedTiers, OpenError> {
        let memory = MemoryTier::open(options.memory, options.memory_limits, now);
        let (memory, restored) = memory.map_err(OpenError::Memory)?;
        let rest = open_disks(options, Arc::clone(&report), now).inspect_err(|_| memory.preserve());
        let (disks, purges) = rest?;
        Ok(OpenedTiers { tiers: Self::reporting(memory, disks, report), restored, purges })
    }

    /// Takes over the memory tier of a process that runs beside this one, and opens the list of purges. The disks stay with
    /// that process until [`Self::add_disks`].
    ///
    /// # Errors
    /// See [`OpenError`]; [`TierError::Draining`] if the tier is another one.
    pub fn open_given(
        options: &TierOptions<'_>,
        given: GivenTier,
        report: Report,
        now: SystemTime,
    ) -> Result<OpenedTiers, OpenError> {
        let memory = MemoryTier::open_given(options.memory, options.memory_limits, given, now);
        let (memory, restored) = memory.map_err(OpenError::Memory)?;
        let purges = open_purges(options, None, now).map_err(OpenError::Memory)?;
        Ok(OpenedTiers { tiers: Self::reporting(memory, None, report), restored, purges })
    }

    /// Opens the disks that the predecessor had. Blocks for a moment.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn add_disks(
        &self,
        options: &TierOptions<'_>,
        report: Report,
        now: SystemTime,
    ) -> Result<(), OpenError> {
        let (Some(disks), _) = open_disks(options, report, now)? else { return Ok(()) };
        self.memory.remember_at_least(disks.slices_max());
        // Only one thread adds them.
        drop(self.disks.set(disks));
        Ok(())
    }

    /// Gives the memory tier to a successor; see [`MemoryTier`]. `None` if it cannot be given.
    pub fn give_away(&self) -> Option<GivenTier> {
        self.memory.give_away()
    }

    /// Uses the memory tier again, which the successor has not taken.
    pub fn take_back(&self) {
        self.memory.take_back();
    }

    /// The slots that this process still needs, after it has given the memory tier away.
    pub fn busy_slots(&self) -> BusySlots {
        self.memory.busy_slots()
    }

    /// What the predecessor still needs of the memory tier; `None` if it has ended.
    pub fn set_predecessor(&self, busy: Option<&BusySlots>) {
        self.memory.set_predecessor(busy);
    }

    /// Whether no process has locked one of the disks.
    pub fn are_disks_free(options: &TierOptions<'_>) -> bool {
        !options.disks.iter().any(|(directory, _)| Disks::is_locked(directory))
    }

    /// Opens a memory tier without a directory, for the time in which the tiers of `options` belong to a process that
    /// drains. Purges are kept in the directory of the memory tier, so that later they apply to what is there.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_waiting(options: &TierOptions<'_>, now: SystemTime) -> Result<OpenedTiers, OpenError> {
        let memory = MemoryTier::without_directory(options.memory_limits, now).map_err(OpenError::Memory)?;
        let purges = open_purges(options, None, now).map_err(OpenError::Memory)?;
        Ok(OpenedTiers { tiers: Self::new(memory, None), restored: Restored::default(), purges })
    }

    /// Whether no process has locked one of the tiers.
    pub fn are_free(options: &TierOptions<'_>) -> bool {
        !MemoryTier::is_locked(options.memory) && Self::are_disks_free(options)
    }

    /// A memory tier, and the disks that its slices may move to.
    pub fn new(memory: Arc<MemoryTier>, disks: Option<Arc<Disks>>) -> Arc<Self> {
        Self::reporting(memory, disks, Arc::new(|_| {}))
    }

    fn reporting(memory: Arc<MemoryTier>, disks: Option<Arc<Disks>>, report: Report) -> Arc<Self> {
        if let Some(disks) = &disks {
            // A slice that is requested twice while the disks are written once has earned a place there.
            memory.remember_at_least(disks.slices_max());
        }
        let scrubber = Scrubber::start(&memory, report);
        let disks = disks.map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Self { memory, disks, scrubber })
    }

    /// The memory tier.
    pub fn memory(&self) -> &Arc<MemoryTier> {
        &self.memory
    }

    /// The disks, if there are any.
    pub fn disks(&self) -> Option<&Arc<Disks>> {
        self.disks.get()
    }

    /// A number for a new object, greater than all before and those found on the disks so far.
    pub(crate) fn next_object(&self) -> u64 {
        if let Some(disks) = self.disks() {
            self.memory.skip_objects_to(disks.newest_object());
        }
        self.memory.next_object()
    }

    pub(crate) fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Bytes of one slice.
    pub fn slice_bytes(&self) -> u32 {
        self.memory.slice_bytes()
    }

    /// How many whole slices fit into memory.
    pub fn slices_max(&self) -> u64 {
        self.memory.slices_max()
    }

    /// Counters of the memory tier.
    pub fn counters(&self) -> TierCounters {
        self.memory.counters()
    }

    /// Leaves everything in the files for the next process: this one is about to end.
    pub fn preserve(&self) {
        self.memory.preserve();
    }

    /// Tells a successor that this process, which has the tiers, is about to end; `memory` is the memory tier's directory.
    ///
    /// # Errors
    /// When the mark cannot be made there.
    pub fn announce_end(memory: &Path) -> io::Result<()> {
        draining::mark(memory)
    }

    /// Takes that back: this process keeps the tiers.
    pub fn withdraw_end(memory: &Path) {
        draining::clear(memory);
    }
}

impl fmt::Debug for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiers").field("memory", &self.memory).field("disks", &self.disks).finish()
    }
}

/// Opens the disks, if there are any, and the list of purges.
fn open_disks(
    options: &TierOptions<'_>,
    report: Report,
    now: SystemTime,
) -> Result<(Option<Arc<Disks>>, Arc<Purges>), OpenError> {
    let disks = match options.disks {
        [] => None,
        disks => Some(Disks::open(disks, options.budget, report).map_err(OpenError::Disks)?),
    };
    let purges = open_purges(options, disks.as_deref(), now).map_err(OpenError::Memory)?;
    Ok((disks, purges))
}

/// Opens the list of purges in the directories of all tiers. A disk without its list is left out: what was purged would
/// return from it.
fn open_purges(
    options: &TierOptions<'_>,
    disks: Option<&Disks>,
    now: SystemTime,
) -> Result<Arc<Purges>, TierError> {
    let unusable = |NotKept { path, source }| TierError::Unusable { path, source };
    let purges = match options.purges {
        Some(purges) => Arc::clone(purges),
        None => Arc::new(Purges::open(&[options.memory], options.purge_limits, now).map_err(unusable)?),
    };
    for disk in disks.map(Disks::counters).unwrap_or_default().iter().filter(|disk| disk.in_service) {
        match (purges.add_directory(&disk.directory, now), disks) {
            (Ok(()), _) => {}
            (Err(error), Some(disks)) if disks.take_out_of_service(&error.path, &error.to_string()) => {}
            (Err(error), _) => return Err(unusable(error)),
        }
    }
    Ok(purges)
}
