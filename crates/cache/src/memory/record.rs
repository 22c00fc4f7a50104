//! What is written beside the slices, so that the next process finds them again: a header, and a record for each slot.
//!
//! All numbers are little-endian. A record is written after the bytes it speaks of and cleared before they go, and it
//! carries its own checksum: what is not whole is not believed. Clearing makes it zeros, which are no record.

use crate::Key;
use crate::numbers::{u32_at, u64_at};

/// Bytes of the header.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 64;
/// What a file of records begins with; the last character is the version of the format.
const MAGIC: &[u8; 8] = b"PNSTKM01";

/// Where the record of a slot lies.
pub(super) fn place(slot: u32) -> u64 {
    HEADER_BYTES + u64::from(slot) * RECORD_BYTES as u64
}

/// What all records of a file have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) slice_bytes: u32,
    pub(super) slots: u32,
    /// The file of slices that the records speak of.
    pub(super) inode: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.slice_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.inode.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..28)?;
        let whole = &bytes[..8] == MAGIC && crc32fast::hash(&bytes[..24]) == u32_at(bytes, 24)?;
        let header =
            Self { slice_bytes: u32_at(bytes, 8)?, slots: u32_at(bytes, 12)?, inode: u64_at(bytes, 16)? };
        whole.then_some(header)
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotRecord {
    pub(crate) key: Key,
    pub(crate) object: u64,
    /// Length of the whole object, if it was known.
    pub(crate) object_length: Option<u64>,
    pub(crate) slice: u32,
    /// Bytes of the slice.
    pub(crate) length: u32,
    /// Checksum of those.
    pub(crate) checksum: u32,
    /// Bytes of the description that stands behind them.
    pub(crate) description: u32,
    /// Checksum of those.
    pub(crate) description_checksum: u32,
    /// Of two descriptions of an object the one with the higher number is the newer.
    pub(crate) revision: u32,
}

/// No object is that long.
const UNKNOWN: u64 = u64::MAX;

impl SlotRecord {
    pub(crate) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4..8].copy_from_slice(&self.slice.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.object.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.object_length.unwrap_or(UNKNOWN).to_le_bytes());
        bytes[48..52].copy_from_slice(&self.description.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.description_checksum.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.revision.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` for a slot without a record, and for one whose record is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_BYTES)?;
        if crc32fast::hash(&bytes[4..]) != u32_at(bytes, 0)? {
            return None;
        }
        Some(Self {
            slice: u32_at(bytes, 4)?,
            length: u32_at(bytes, 8)?,
            checksum: u32_at(bytes, 12)?,
            object: u64_at(bytes, 16)?,
            key: bytes.get(24..40)?.try_into().ok()?,
            object_length: u64_at(bytes, 40).filter(|length| *length != UNKNOWN),
            description: u32_at(bytes, 48)?,
            description_checksum: u32_at(bytes, 52)?,
            revision: u32_at(bytes, 56)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: SlotRecord = SlotRecord {
        key: [7; 16],
        object: 1 << 60,
        object_length: Some(5_000_000_000),
        slice: 3,
        length: 65_536,
        checksum: 0xdead_beef,
        description: 300,
        description_checksum: 9,
        revision: 2,
    };

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(SlotRecord::decode(&RECORD.encode()), Some(RECORD));
        let endless = SlotRecord { object_length: None, ..RECORD };
        assert_eq!(SlotRecord::decode(&endless.encode()), Some(endless));
    }

    #[test]
    fn zeros_are_no_record_and_a_flipped_bit_is_noticed() {
        assert_eq!(SlotRecord::decode(&[0; RECORD_BYTES]), None);
        assert_eq!(SlotRecord::decode(&[]), None);
        for place in 0..RECORD_BYTES * 8 {
            let mut bytes = RECORD.encode();
            bytes[place / 8] ^= 1 << (place % 8);
            assert_eq!(SlotRecord::decode(&bytes), None, "bit {place}");
        }
    }

    #[test]
    fn a_header_of_another_format_is_none() {
        let header = Header { slice_bytes: 65_536, slots: 128, inode: 4 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        let mut other = bytes;
        other[7] += 1;
        assert_eq!(Header::decode(&other), None);
        assert_eq!(Header::decode(&bytes[..20]), None);
    }
}
