//! Opening the tiers that the configuration names, and logging what they hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::purge::{PurgeLimits, Purges};
use penstock_cache::{
    Budget, DiskLimits, GivenTier, MemoryTier, OpenedTiers, Restored, TierEvent, TierLimits, TierOptions,
    Tiers,
};
use penstock_config::{Cache, DiskTier, limits};

use crate::store::store_error::StoreError;

/// Warns of a memory tier that is larger than its file system, or of one that cannot be used. Changes nothing.
pub fn check_space(raw: &Cache) -> Option<String> {
    let limits = TierLimits { bytes: raw.memory.size, slice_bytes: raw.slice, scrub_bytes_per_second: 0 };
    match MemoryTier::check_space(&raw.memory.directory, limits) {
        Ok(warning) => warning.map(|warning| warning.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// The tiers of a configuration.
pub(crate) struct ConfiguredTiers<'c> {
    raw: &'c Cache,
    disks: Vec<(PathBuf, DiskLimits)>,
    pub(crate) budget: Arc<Budget>,
}

impl<'c> ConfiguredTiers<'c> {
    pub(crate) fn new(raw: &'c Cache) -> Self {
        let disk_bytes = raw.disks.iter().map(|disk| disk.size).sum();
        let known_bytes = limits::known_bytes(raw.memory.size, disk_bytes, raw.slice);
        Self::with_budget(raw, Arc::new(Budget::new(known_bytes)))
    }

    /// The same, for a cache that has a budget already.
    pub(crate) fn with_budget(raw: &'c Cache, budget: Arc<Budget>) -> Self {
        let of = |disk: &DiskTier| (disk.directory.clone(), disk_limits(disk.size, raw));
        Self { raw, disks: raw.disks.iter().map(of).collect(), budget }
    }

    fn options<'o>(&'o self, memory_bytes: u64, purges: Option<&'o Arc<Purges>>) -> TierOptions<'o> {
        TierOptions {
            memory: &self.raw.memory.directory,
            memory_limits: TierLimits {
                bytes: memory_bytes,
                slice_bytes: self.raw.slice,
                scrub_bytes_per_second: limits::MEMORY_SCRUB_BYTES_PER_SECOND,
            },
            disks: &self.disks,
            budget: &self.budget,
            purge_limits: PurgeLimits { purges: limits::PURGES, bytes: limits::PURGES_BYTES },
            purges,
        }
    }

    /// Opens the tiers, with the list of purges if it was opened before.
    ///
    /// # Errors
    /// [`StoreError::Memory`] or [`StoreError::Disk`]. A disk that does not work is no error: it is left out.
    pub(crate) fn open(&self, purges: Option<&Arc<Purges>>) -> Result<OpenedTiers, StoreError> {
        let options = self.options(self.raw.memory.size, purges);
        let opened = Tiers::open(&options, Arc::new(|event| say(&event)), SystemTime::now())?;
        say_restored(&opened.restored, &self.raw.memory.directory);
        Ok(opened)
    }

    /// Takes over the memory tier of a process that runs beside this one. The disks stay with that one until it has ended.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_given(&self, given: GivenTier) -> Result<OpenedTiers, StoreError> {
        let options = self.options(self.raw.memory.size, None);
        let opened = Tiers::open_given(&options, given, Arc::new(|event| say(&event)), SystemTime::now())?;
        say_restored(&opened.restored, &self.raw.memory.directory);
        Ok(opened)
    }

    /// Opens the disks that the predecessor had, if it has given them up. Returns whether it had.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn add_disks(&self, tiers: &Tiers, purges: &Arc<Purges>) -> Result<bool, StoreError> {
        let options = self.options(self.raw.memory.size, Some(purges));
        if !Tiers::are_disks_free(&options) {
            return Ok(false);
        }
        tiers.add_disks(&options, Arc::new(|event| say(&event)), SystemTime::now())?;
        Ok(true)
    }

    /// Opens a small memory tier without a directory, for as long as a process that drains has the configured ones.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_waiting(&self) -> Result<OpenedTiers, StoreError> {
        let options = self.options(self.raw.memory.size.min(limits::WAITING_TIER_BYTES), None);
        Ok(Tiers::open_waiting(&options, SystemTime::now())?)
    }

    /// Whether no process has one of the tiers.
    pub(crate) fn are_free(&self) -> bool {
        Tiers::are_free(&self.options(self.raw.memory.size, None))
    }
}

fn say_restored(restored: &Restored, directory: &Path) {
    if let Some(warning) = &restored.warning {
        tracing::warn!("{warning}");
    }
    if let Some(why) = restored.dropped {
        tracing::info!("the memory tier in {} begins empty: {why}", directory.display());
    } else if restored.slices > 0 {
        let (slices, kib) = (restored.slices, restored.bytes / 1024);
        tracing::info!("the memory tier in {} has kept {slices} slices, {kib} KiB", directory.display());
    }
}

fn disk_limits(bytes: u64, raw: &Cache) -> DiskLimits {
    let slice_bytes = raw.slice;
    // Slices that wait to be written stay in memory, and must leave space for slices that are filled.
    let share = raw.memory.size / limits::DISK_WRITES_MEMORY_SHARE;
    DiskLimits {
        bytes,
        segment_bytes: segment_bytes(bytes, slice_bytes),
        slice_bytes,
        readers: limits::DISK_READERS,
        queued_reads: limits::DISK_QUEUED_READS,
        bytes_in_flight: share.min(limits::DISK_WRITES_IN_FLIGHT_BYTES),
        open_segments: limits::DISK_OPEN_SEGMENTS,
        scrub_bytes_per_second: limits::DISK_SCRUB_BYTES_PER_SECOND,
        read_errors: limits::DISK_READ_ERRORS_MAX,
    }
}

/// The size of a disk's segments in bytes: a fixed number of segments, within bounds.
fn segment_bytes(bytes: u64, slice_bytes: u32) -> u64 {
    let least = limits::DISK_SEGMENT_SLICES_MIN * u64::from(slice_bytes);
    (bytes / limits::DISK_SEGMENTS).clamp(least, limits::DISK_SEGMENT_BYTES_MAX)
}

fn say(event: &TierEvent<'_>) {
    match event {
        TierEvent::Scanned { directory, segments, lost, slices, took } => {
            let directory = directory.display();
            tracing::info!(
                "the disk tier in {directory} has {slices} slices in {segments} segments, read in {took:?}"
            );
            if *lost > 0 {
                tracing::info!(
                    "{lost} segments of the disk tier in {directory} were damaged or of another slice size"
                );
            }
        }
        TierEvent::OutOfService { directory, reason } => {
            let directory = directory.display();
            tracing::warn!("the disk tier in {directory} is out of service until the next start: {reason}");
        }
        TierEvent::MemoryShort { directory, available, before } => tracing::warn!(
            "other files have taken space of the memory tier in {}: it can use {} of {} MiB; delete files in its file \
             system, or mount it with a larger `size=`",
            directory.display(),
            available >> 20,
            before >> 20
        ),
        TierEvent::MemoryEnough { directory, available } => tracing::info!(
            "the memory tier in {} has its space again: it can use {} MiB",
            directory.display(),
            available >> 20
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_with_their_disk() {
        const GIB: u64 = 1 << 30;
        assert_eq!(segment_bytes(16 << 20, 1 << 20), 4 << 20, "the smallest disk there may be");
        assert_eq!(segment_bytes(GIB, 1 << 20), 16 << 20);
        assert_eq!(segment_bytes(1000 * GIB, 1 << 20), 256 << 20);
        assert_eq!(segment_bytes(GIB, 16 << 20), 64 << 20);
    }
}
