//! The format of a segment.
//!
//! A segment is a file: a header, then records, then, once it is full, a table of its records and a trailer. A record is
//! a header, the metadata of the object, and the bytes. All numbers are little-endian, everything has a checksum, and
//! nothing is ever overwritten. The header of a record is written after its metadata and bytes.

use crate::key::Key;
use crate::numbers::{u32_at, u64_at};

/// The first bytes of a segment; the last two characters are the version of the format.
const SEGMENT_MAGIC: &[u8; 8] = b"PNSTKD01";
/// The last bytes of a full segment.
const TRAILER_MAGIC: &[u8; 8] = b"PNSTKT01";
/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 64;
/// Bytes of an entry of the table.
pub(crate) const ENTRY_BYTES: usize = 40;
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 40;
/// The alignment of everything in a segment.
pub(crate) const UNIT_BYTES: u64 = 8;
/// The number of the slice in a record that says that all versions of an object up to this one are gone.
pub(crate) const TOMBSTONE: u32 = u32::MAX;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u32,
    pub(crate) slice_bytes: u32,
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slice_bytes.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = sealed::<SEGMENT_HEADER_BYTES>(bytes)?;
        let ours = &bytes[..8] == SEGMENT_MAGIC;
        ours.then_some(Self { number: u32_at(bytes, 8)?, slice_bytes: u32_at(bytes, 12)? })
    }
}

/// The header of a record: one slice of an object, or a tombstone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) key: Key,
    pub(crate) object: u64,
    pub(crate) object_length: u64,
    pub(crate) slice: u32,
    /// Bytes of the slice.
    pub(crate) length: u32,
    /// Checksum of those.
    pub(crate) checksum: u32,
    pub(crate) metadata: u32,
    pub(crate) description_checksum: u32,
}

impl RecordHeader {
    pub(crate) fn encode(&self, segment: u32) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.slice.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[12..16].copy_from_slice(&segment.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.object.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.object_length.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.metadata.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.description_checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// `None` where no record of this segment begins, or a damaged one.
    pub(crate) fn decode(bytes: &[u8], segment: u32) -> Option<Self> {
        let bytes = sealed::<RECORD_HEADER_BYTES>(bytes)?;
        if u32_at(bytes, 12)? != segment {
            return None;
        }
        Some(Self {
            slice: u32_at(bytes, 0)?,
            length: u32_at(bytes, 4)?,
            checksum: u32_at(bytes, 8)?,
            object: u64_at(bytes, 16)?,
            key: bytes.get(24..40)?.try_into().ok()?,
            object_length: u64_at(bytes, 40)?,
            metadata: u32_at(bytes, 48)?,
            description_checksum: u32_at(bytes, 52)?,
        })
    }

    /// From the begin of the record to the bytes of the slice.
    pub(crate) fn bytes_offset(&self) -> u64 {
        (RECORD_HEADER_BYTES as u64 + u64::from(self.metadata)).next_multiple_of(UNIT_BYTES)
    }

    /// From the begin of the record to the next one.
    pub(crate) fn record_bytes(&self) -> u64 {
        (self.bytes_offset() + u64::from(self.length)).next_multiple_of(UNIT_BYTES)
    }
}

/// An entry of the table of a full segment, for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) key: Key,
    pub(crate) object: u64,
    pub(crate) slice: u32,
    pub(crate) length: u32,
    /// Where the record begins, in units.
    pub(crate) place: u32,
}

impl TableEntry {
    pub(crate) fn of(header: &RecordHeader, place: u32) -> Self {
        let RecordHeader { key, object, slice, length, .. } = *header;
        Self { key, object, slice, length, place }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.object.to_le_bytes());
        for number in [self.slice, self.length, self.place, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            key: bytes.get(..16)?.try_into().ok()?,
            object: u64_at(bytes, 16)?,
            slice: u32_at(bytes, 24)?,
            length: u32_at(bytes, 28)?,
            place: u32_at(bytes, 32)?,
        })
    }
}

/// The end of a full segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) number: u32,
    pub(crate) entries: u32,
    pub(crate) table_checksum: u32,
}

impl Trailer {
    pub(crate) fn encode(self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(TRAILER_MAGIC);
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.table_checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = sealed::<TRAILER_BYTES>(bytes)?;
        (&bytes[..8] == TRAILER_MAGIC).then_some(Self {
            number: u32_at(bytes, 8)?,
            entries: u32_at(bytes, 12)?,
            table_checksum: u32_at(bytes, 16)?,
        })
    }
}

/// Puts the checksum of all before into the last four bytes.
fn seal(bytes: &mut [u8]) {
    if let Some((rest, last)) = bytes.split_last_chunk_mut::<4>() {
        *last = crc32fast::hash(rest).to_le_bytes();
    }
}

/// These bytes, if their checksum is right.
fn sealed<const LENGTH: usize>(bytes: &[u8]) -> Option<&[u8; LENGTH]> {
    let bytes: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
    let (rest, last) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(rest) == u32::from_le_bytes(*last)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_as_it_was_written_and_a_flipped_bit_is_noticed() {
        let segment = SegmentHeader { number: 7, slice_bytes: 65_536 };
        let record = RecordHeader {
            key: [5; 16],
            object: 99,
            object_length: 1 << 40,
            slice: 3,
            length: 1000,
            checksum: 1,
            metadata: 301,
            description_checksum: 2,
        };
        let trailer = Trailer { number: 7, entries: 12, table_checksum: 3 };
        assert_eq!(SegmentHeader::decode(&segment.encode()), Some(segment));
        assert_eq!(RecordHeader::decode(&record.encode(7), 7), Some(record));
        assert_eq!(RecordHeader::decode(&record.encode(7), 8), None, "it belongs to another segment");
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
        assert_eq!((record.bytes_offset(), record.record_bytes()), (368, 1368));
        let mut table = Vec::new();
        TableEntry::of(&record, 9).encode(&mut table);
        assert_eq!(
            (table.len(), TableEntry::decode(&table)),
            (ENTRY_BYTES, Some(TableEntry::of(&record, 9)))
        );
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut bytes = record.encode(7);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::decode(&bytes, 7), None, "bit {bit}");
        }
        assert_eq!(RecordHeader::decode(&[0; RECORD_HEADER_BYTES], 0), None, "zeros are no record");
        assert_eq!(Trailer::decode(&[]), None);
    }
}
