//! Which slices are written to a disk, and which return to memory: pure policies.
//!
//! Most slices that are requested once are never requested again. Written to a disk they would push out popular ones and
//! wear it out. So the second request earns a slice its place on a disk, and two more its place in memory. A request
//! before its eviction from memory counts, as long as the memory tier remembers its name.

/// Requests for a slice in memory that earn it a place on a disk, with the one that it was fetched for.
const TO_DISK: u8 = 2;
/// Requests for a slice on a disk since it was last read that bring it back to memory.
const TO_MEMORY: u8 = 2;

/// A slice in memory at a request for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InMemory {
    /// Requests so far, this one included.
    pub(crate) requests: u8,
    /// Whether a disk has it, or is about to.
    pub(crate) on_disk: bool,
    /// Bytes that wait to be written.
    pub(crate) bytes_in_flight: u64,
    pub(crate) bytes_in_flight_max: u64,
}

/// Whether a slice is written to a disk now.
pub(crate) fn is_written(slice: InMemory, bytes: u32) -> bool {
    slice.requests >= TO_DISK
        && !slice.on_disk
        // If the disks cannot keep up, the next request tries again.
        && slice.bytes_in_flight.saturating_add(u64::from(bytes)) <= slice.bytes_in_flight_max
}

/// Whether a slice on a disk returns to memory.
pub(crate) fn is_promoted(requests: u8) -> bool {
    requests >= TO_MEMORY
}

/// The disk for a new record: by key, in proportion to size. `None` if none is in service.
pub(crate) fn choose_disk(name: u64, sizes: impl Iterator<Item = (usize, u64)> + Clone) -> Option<usize> {
    let total: u64 = sizes.clone().map(|(_, bytes)| bytes >> 20).sum();
    // A multiplication spreads keys that are alike in their lower bits.
    let drawn = name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let mut left = drawn.checked_rem(total.max(1))?;
    for (disk, bytes) in sizes.clone() {
        match left.checked_sub(bytes >> 20) {
            None => return Some(disk),
            Some(rest) => left = rest,
        }
    }
    let mut sizes = sizes;
    sizes.next().map(|(disk, _)| disk)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
