//! Numbers in records on tmpfs and on disks: little-endian, at a place that may not be there.

/// The number of four bytes at a place.
pub(crate) fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

/// The number of eight bytes at a place.
pub(crate) fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?))
}
