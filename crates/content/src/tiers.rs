//! Opening the tiers that the configuration names, and logging what they hold.

use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::purge::PurgeLimits;
use penstock_cache::{Budget, DiskEvent, DiskLimits, OpenError, OpenedTiers, TierLimits, TierOptions, Tiers};
use penstock_config::{Cache, DiskTier, limits};

use crate::store_error::StoreError;

/// Opens the tiers.
///
/// # Errors
/// [`StoreError::Memory`] or [`StoreError::Disk`]. A disk that does not work is no error: it is left out.
pub(crate) fn open(raw: &Cache, budget: &Arc<Budget>) -> Result<OpenedTiers, StoreError> {
    let directory = &raw.memory.directory;
    let of = |disk: &DiskTier| (disk.directory.clone(), disk_limits(disk.size, raw));
    let disks: Vec<_> = raw.disks.iter().map(of).collect();
    let options = TierOptions {
        memory: directory,
        memory_limits: TierLimits {
            bytes: raw.memory.size,
            slice_bytes: raw.slice,
            scrub_bytes_per_second: limits::MEMORY_SCRUB_BYTES_PER_SECOND,
        },
        disks: &disks,
        budget,
        purge_limits: PurgeLimits { purges: limits::PURGES, bytes: limits::PURGES_BYTES },
    };
    let opened = Tiers::open(&options, Box::new(|event| say(&event)), SystemTime::now());
    let opened = opened.map_err(|error| match error {
        OpenError::Memory(error) => StoreError::Memory(error),
        OpenError::Disks(error) => StoreError::Disk(error),
    })?;
    let restored = &opened.restored;
    if let Some(warning) = &restored.warning {
        tracing::warn!("{warning}");
    }
    if let Some(why) = restored.dropped {
        tracing::info!("the memory tier in {} begins empty: {why}", directory.display());
    } else if restored.slices > 0 {
        let (slices, kib) = (restored.slices, restored.bytes / 1024);
        tracing::info!("the memory tier in {} has kept {slices} slices, {kib} KiB", directory.display());
    }
    Ok(opened)
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

fn say(event: &DiskEvent<'_>) {
    match event {
        DiskEvent::Scanned { directory, segments, lost, slices, took } => {
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
        DiskEvent::OutOfService { directory, reason } => {
            let directory = directory.display();
            tracing::warn!("the disk tier in {directory} is out of service until the next start: {reason}");
        }
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
