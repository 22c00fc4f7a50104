//! What is written to a disk, and what comes back to memory: pure policies.
//!
//! Most things that are asked for once are never asked for again. Written to a disk they would push out what is, and
//! wear it out; so a slice earns its place by a second request, and by another two its place in memory. A request from
//! before it had to leave memory counts, as long as the memory tier remembers its name.

/// Requests for a slice in memory, with the one that it was fetched for, that earn it a place on a disk.
const TO_DISK: u8 = 2;
/// Requests for a slice on a disk, since it was last read from there, that bring it back to memory.
const TO_MEMORY: u8 = 2;

/// What is known of a slice in memory when it is asked for.
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
pub(crate) fn goes_to_disk(slice: InMemory, bytes: u32) -> bool {
    slice.requests >= TO_DISK
        && !slice.on_disk
        // Where disks cannot keep up it tries again with the next request.
        && slice.bytes_in_flight.saturating_add(u64::from(bytes)) <= slice.bytes_in_flight_max
}

/// Whether a slice that is read from a disk comes back to memory.
pub(crate) fn comes_to_memory(requests: u8) -> bool {
    requests >= TO_MEMORY
}

/// Which of several disks a new record goes to: by key, as often as a disk is large. `None` if none is in service.
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
