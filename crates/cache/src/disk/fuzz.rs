//! An arbitrary file, found among the segments of a disk.

use std::convert::Infallible;
use std::fs;

use super::format::{
    ENTRY_BYTES, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, TRAILER_BYTES,
    Trailer,
};
use super::inspect::inspect;
use super::segment::{Segment, path};
use crate::contents::Depth;
use crate::numbers::u32_at;
use crate::scratch::{Scratch, seal};

const NUMBER: u32 = 7;
const SLICE_BYTES: u32 = 4096;

/// Body of the fuzz target `cache_files` for disks: whatever is in a segment, nothing is read beside it, and a table
/// that is written for its records says the same as those.
///
/// The input is one byte of choices and the segment behind its header.
pub(crate) fn fuzz_segment(input: &[u8]) {
    let Some((&choices, bytes)) = input.split_first() else { return };
    let mut file = SegmentHeader { number: NUMBER, slice_bytes: SLICE_BYTES }.encode().to_vec();
    file.extend_from_slice(bytes);
    if choices & 1 != 0 {
        mend_records(&mut file);
    }
    if choices & 2 != 0 {
        mend_table(&mut file);
    }
    let directory = Scratch::new();
    fs::write(path(directory.path(), NUMBER), &file).expect("it can be written");
    for depth in [Depth::Count, Depth::Metadata, Depth::Verify] {
        let contents = inspect(directory.path(), depth).expect("the system has no fault");
        assert!(contents.segments == 1 && contents.file_bytes == file.len() as u64);
    }
    let segment = Segment::new(directory.path(), NUMBER, file.len() as u64);
    let Ok((entries, has_table)) = segment.entries(SLICE_BYTES) else { return };
    assert!(entries.len() * ENTRY_BYTES.min(RECORD_HEADER_BYTES) <= file.len());
    let (open, _) = segment.file().expect("it is there");
    for entry in &entries {
        let Ok((header, metadata)) = segment.describe(&open, entry.place) else { continue };
        assert!(metadata.len() <= file.len());
        let mut taken = 0;
        let take = |bytes: &[u8]| {
            taken += bytes.len();
            Ok::<_, Infallible>(())
        };
        let right = segment.verify(&open, &header, entry.place, take).is_ok();
        assert!(!right || taken == header.length as usize);
        assert!(taken <= file.len(), "{taken} bytes from a file of {}", file.len());
    }
    if !has_table && segment.finish_for_another(&entries).is_ok() {
        let again = segment.entries(SLICE_BYTES).expect("its header is as it was");
        assert_eq!(again, (entries, true));
    }
}

/// Gives records the checksums that they would have if they were whole: a fuzzer would not find those.
fn mend_records(file: &mut [u8]) {
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(record) = file.get_mut(at..).filter(|rest| rest.len() >= RECORD_HEADER_BYTES) {
        let (header, rest) = record.split_at_mut(RECORD_HEADER_BYTES);
        if header.iter().all(|byte| *byte == 0) {
            return;
        }
        let number = |header: &[u8], place| u32_at(header, place).unwrap_or(0) as usize;
        let (length, metadata) = (number(header, 4), number(header, 48));
        let start = (RECORD_HEADER_BYTES + metadata).next_multiple_of(8) - RECORD_HEADER_BYTES;
        let bytes = rest.get(start..).and_then(|rest| rest.get(..length)).unwrap_or_default();
        header[8..12].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        header[12..16].copy_from_slice(&NUMBER.to_le_bytes());
        let checksum = crc32fast::hash(rest.get(..metadata).unwrap_or_default());
        header[52..56].copy_from_slice(&checksum.to_le_bytes());
        seal(header);
        let read = RecordHeader::decode(header, NUMBER).expect("it is whole now");
        // But for the four bytes that mean nothing.
        assert_eq!(RecordHeader::decode(&read.encode(NUMBER), NUMBER), Some(read));
        let Some(next) = usize::try_from(read.record_bytes()).ok().and_then(|bytes| at.checked_add(bytes))
        else {
            return;
        };
        at = next;
    }
}

/// Makes a table of the last bytes: as many entries as the first of them says.
fn mend_table(file: &mut Vec<u8>) {
    let space = file.len() - SEGMENT_HEADER_BYTES;
    let wanted = usize::from(file.last().copied().unwrap_or(0)).min(space / ENTRY_BYTES);
    let entries = u32::try_from(wanted).expect("it came from a byte");
    let table = &file[file.len() - wanted * ENTRY_BYTES..];
    let table_checksum = crc32fast::hash(table);
    let trailer = Trailer { number: NUMBER, entries, table_checksum };
    let encoded: [u8; TRAILER_BYTES] = trailer.encode();
    assert_eq!(Trailer::decode(&encoded), Some(trailer));
    file.extend_from_slice(&encoded);
}
