//! Little-endian numbers in records, at offsets that may lie outside.

/// Four bytes at an offset.
pub(crate) fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

/// Eight bytes at an offset.
pub(crate) fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?))
}
