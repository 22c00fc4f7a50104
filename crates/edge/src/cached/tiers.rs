//! The tiers as the configuration asks for them, and what the log says of them.

use std::sync::Arc;
use std::time::SystemTime;

use penstock_cache::{DiskEvent, DiskLimits, Disks, MemoryTier, Restored, TierLimits};
use penstock_config::{Cache, DiskTier, limits};

use crate::server::StartError;

/// Opens the tiers.
///
/// # Errors
/// [`StartError::Cache`] or [`StartError::Disk`]. A disk that does not work is no error: it is left out.
pub(super) fn open(written: &Cache) -> Result<(Arc<MemoryTier>, Restored), StartError> {
    let limits = TierLimits { bytes: written.memory.size, slice_bytes: written.slice };
    let directory = &written.memory.directory;
    let opened = MemoryTier::open(directory, limits, SystemTime::now());
    let (tier, restored) = opened.map_err(StartError::Cache)?;
    if let Some(why) = restored.dropped {
        tracing::info!("the memory tier in {} begins empty: {why}", directory.display());
    } else if restored.slices > 0 {
        let (slices, kib) = (restored.slices, restored.bytes / 1024);
        tracing::info!("the memory tier in {} has kept {slices} slices, {kib} KiB", directory.display());
    }
    if !written.disks.is_empty() {
        let of = |disk: &DiskTier| (disk.directory.clone(), disk_limits(disk.size, written));
        let disks: Vec<_> = written.disks.iter().map(of).collect();
        let disks = Disks::open(&disks, Box::new(|event| say(&event))).map_err(StartError::Disk)?;
        tier.set_disks(disks);
    }
    Ok((tier, restored))
}

fn disk_limits(bytes: u64, written: &Cache) -> DiskLimits {
    let slice_bytes = written.slice;
    // What waits to be written stays in memory meanwhile, and must not take the room of what is coming.
    let share = written.memory.size / limits::DISK_WRITES_MEMORY_SHARE;
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

/// As many segments as a disk should have, unless they become too small or too large.
fn segment_bytes(bytes: u64, slice_bytes: u32) -> u64 {
    let least = limits::DISK_SEGMENT_SLICES_MIN * u64::from(slice_bytes);
    (bytes / limits::DISK_SEGMENTS).clamp(least, limits::DISK_SEGMENT_BYTES_MAX)
}

fn say(event: &DiskEvent<'_>) {
    match event {
        DiskEvent::Read { directory, segments, lost, slices, took } => {
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
