//! The file of records, by which the next process finds the slices again: a header, and a record for each slot.
//!
//! All numbers are little-endian. A record is written after the bytes that it describes and cleared before they go. It
//! has a checksum that depends on its slot and on a secret key, so only a process that can read the key can make one; a
//! damaged record counts as none, and so do zeros. The bytes themselves have a checksum without a key in the record.

use crate::key::Key;
use crate::numbers::{u32_at, u64_at};

/// Bytes of the header.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 64;
/// Bytes of the key of a directory.
pub(super) const SECRET_BYTES: usize = 16;
/// Bytes of the encoded header.
pub(super) const ENCODED_HEADER_BYTES: usize = 36;
/// First bytes of the file; the last character is the version of the format.
const MAGIC: &[u8; 8] = b"PNSTKM02";

/// Offset of the record of a slot.
pub(super) fn place(slot: u32) -> u64 {
    HEADER_BYTES + u64::from(slot) * RECORD_BYTES as u64
}

/// The secret key of the records of a directory.
#[derive(Clone, Copy)]
pub(super) struct RecordKey([u64; 2]);

impl RecordKey {
    pub(super) fn new(secret: [u8; SECRET_BYTES]) -> Self {
        Self([0, 8].map(|half| u64_at(&secret, half).unwrap_or(0)))
    }

    /// The checksum of a record: SipHash-2-4, which cannot be guessed without the key.
    #[expect(deprecated, reason = "it lacks speed for hash tables only; the replacement has no keys")]
    fn checksum(self, slot: u32, fields: &[u8]) -> u64 {
        use std::hash::{Hasher, SipHasher};
        let mut hasher = SipHasher::new_with_keys(self.0[0], self.0[1]);
        hasher.write(&slot.to_le_bytes());
        hasher.write(fields);
        hasher.finish()
    }
}

/// The header of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: u64,
    pub(super) slice_bytes: u32,
    pub(super) slots: u32,
    /// The file of slices that the records describe.
    pub(super) inode: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; ENCODED_HEADER_BYTES] {
        let mut bytes = [0; ENCODED_HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.slice_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.inode.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..ENCODED_HEADER_BYTES)?;
        let whole = &bytes[..8] == MAGIC && crc32fast::hash(&bytes[..32]) == u32_at(bytes, 32)?;
        let header = Self {
            slice_bytes: u32_at(bytes, 8)?,
            slots: u32_at(bytes, 12)?,
            inode: u64_at(bytes, 16)?,
            bytes: u64_at(bytes, 24)?,
        };
        whole.then_some(header)
    }
}

/// The content of a slot.
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
    /// Bytes of the metadata behind them.
    pub(crate) metadata: u32,
    /// Whether another node keeps the slice. The highest bit of the bytes of the metadata.
    pub(crate) is_copy: bool,
    /// Checksum of those.
    pub(crate) description_checksum: u32,
    /// Of two records of metadata of an object, the one with the higher number is newer.
    pub(crate) revision: u32,
}

/// Set beside the bytes of the metadata of a copy.
const COPY: u32 = 1 << 31;

/// Written for a length that is unknown.
const UNKNOWN: u64 = u64::MAX;

impl SlotRecord {
    pub(super) fn encode(&self, slot: u32, key: RecordKey) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[8..16].copy_from_slice(&self.object.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.key);
        bytes[32..40].copy_from_slice(&self.object_length.unwrap_or(UNKNOWN).to_le_bytes());
        let numbers = [
            self.slice,
            self.length,
            self.checksum,
            self.metadata | if self.is_copy { COPY } else { 0 },
            self.description_checksum,
            self.revision,
        ];
        for (place, number) in bytes[40..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        seal(&mut bytes, slot, key);
        bytes
    }

    /// `None` for a slot without a record, and for one whose record is damaged or was made without the key.
    pub(super) fn decode(bytes: &[u8], slot: u32, key: RecordKey) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.get(..RECORD_BYTES)?.try_into().ok()?;
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        if is_empty || key.checksum(slot, &bytes[8..]) != u64_at(bytes, 0)? {
            return None;
        }
        let metadata = u32_at(bytes, 52)?;
        Some(Self {
            object: u64_at(bytes, 8)?,
            key: bytes.get(16..32)?.try_into().ok()?,
            object_length: u64_at(bytes, 32).filter(|length| *length != UNKNOWN),
            slice: u32_at(bytes, 40)?,
            length: u32_at(bytes, 44)?,
            checksum: u32_at(bytes, 48)?,
            metadata: metadata & !COPY,
            is_copy: metadata & COPY != 0,
            description_checksum: u32_at(bytes, 56)?,
            revision: u32_at(bytes, 60)?,
        })
    }
}

/// Puts the checksum of an encoded record in front.
pub(super) fn seal(record: &mut [u8; RECORD_BYTES], slot: u32, key: RecordKey) {
    let checksum = key.checksum(slot, &record[8..]);
    record[..8].copy_from_slice(&checksum.to_le_bytes());
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
        metadata: 300,
        is_copy: false,
        description_checksum: 9,
        revision: 2,
    };

    fn key() -> RecordKey {
        RecordKey::new([5; SECRET_BYTES])
    }

    #[test]
    fn a_record_is_decoded_as_it_was_encoded() {
        assert_eq!(SlotRecord::decode(&RECORD.encode(9, key()), 9, key()), Some(RECORD));
        let copy = SlotRecord { is_copy: true, ..RECORD };
        assert_eq!(SlotRecord::decode(&copy.encode(9, key()), 9, key()), Some(copy));
        let endless = SlotRecord { object_length: None, ..RECORD };
        assert_eq!(SlotRecord::decode(&endless.encode(0, key()), 0, key()), Some(endless));
    }

    #[test]
    fn a_record_of_another_slot_or_key_is_refused() {
        let bytes = RECORD.encode(9, key());
        assert_eq!(SlotRecord::decode(&bytes, 8, key()), None);
        assert_eq!(SlotRecord::decode(&bytes, 9, RecordKey::new([6; SECRET_BYTES])), None);
    }

    #[test]
    fn zeros_are_no_record_and_a_flipped_bit_is_detected() {
        assert_eq!(SlotRecord::decode(&[0; RECORD_BYTES], 0, key()), None);
        assert_eq!(SlotRecord::decode(&[], 0, key()), None);
        for place in 0..RECORD_BYTES * 8 {
            let mut bytes = RECORD.encode(1, key());
            bytes[place / 8] ^= 1 << (place % 8);
            assert_eq!(SlotRecord::decode(&bytes, 1, key()), None, "bit {place}");
        }
    }

    #[test]
    fn a_header_of_another_format_is_refused() {
        let header = Header { bytes: 1 << 30, slice_bytes: 65_536, slots: 128, inode: 4 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        let mut other = bytes;
        other[7] += 1;
        assert_eq!(Header::decode(&other), None);
        assert_eq!(Header::decode(&bytes[..20]), None);
    }
}
