//! Arbitrary records, found in a tier's directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::files::{KEY_NAME, QUEUE_NAME, RECORDS_NAME, SLICES_NAME};
use super::inspect::inspect;
use super::layout::SlotLayout;
use super::limits::{DESCRIPTION_BYTES_MAX, TierLimits};
use super::record::{HEADER_BYTES, Header, RECORD_BYTES, RecordKey, SECRET_BYTES, SlotRecord, seal};
use super::slot::description_offset;
use super::tier::MemoryTier;
use crate::contents::Depth;
use crate::numbers::u32_at;
use crate::scratch::Scratch;

const LIMITS: TierLimits = TierLimits { bytes: 4 * 4096, slice_bytes: 4096, scrub_bytes_per_second: 0 };
const SLOTS: u8 = 8;
const SECRET: [u8; SECRET_BYTES] = [7; SECRET_BYTES];
/// Of each slot, as many bytes of its slice come from the input.
const CONTENT_BYTES: usize = 32;

/// Body of the fuzz target `cache_files` for the memory tier: no records make it fail, and what it restores it restores
/// back again.
///
/// The input is one byte of choices, a record for each slot, and the first bytes of each slice.
pub(crate) fn fuzz_records(input: &[u8]) {
    let Some((&choices, bytes)) = input.split_first() else { return };
    let layout = SlotLayout::new(LIMITS);
    assert_eq!(u32::from(SLOTS), layout.slots());
    let directory = Scratch::new();
    let (slices, records) = (directory.path().join(SLICES_NAME), directory.path().join(RECORDS_NAME));
    let mut content = vec![0; usize::try_from(layout.file_bytes()).expect("it is small")];
    let mut of_slots = vec![0; usize::from(SLOTS) * RECORD_BYTES];
    let given = bytes.len().min(of_slots.len());
    of_slots[..given].copy_from_slice(&bytes[..given]);
    let place = |slot| usize::try_from(layout.start(slot)).expect("it is small");
    for (slot, piece) in (0..u32::from(SLOTS)).zip(bytes[given..].chunks(CONTENT_BYTES)) {
        content[place(slot)..][..piece.len()].copy_from_slice(piece);
    }
    if choices & 1 != 0 {
        for (slot, record) in (0..).zip(of_slots.chunks_exact_mut(RECORD_BYTES)) {
            mend(record, slot, &content[place(slot)..]);
        }
    }
    fs::write(&slices, &content).expect("it can be written");
    fs::write(directory.path().join(KEY_NAME), SECRET).expect("it can be written");
    let inode = fs::metadata(&slices).expect("it is there").ino();
    let TierLimits { bytes: tier_bytes, slice_bytes, .. } = LIMITS;
    let header = Header { bytes: tier_bytes, slice_bytes, slots: SLOTS.into(), inode };
    let mut whole = header.encode().to_vec();
    whole.resize(usize::try_from(HEADER_BYTES).expect("it is small"), 0);
    whole.extend_from_slice(&of_slots);
    if choices & 2 != 0 {
        // A file that ends where the input ends.
        whole.truncate(bytes.len());
    }
    fs::write(&records, &whole).expect("it can be written");
    let checksum = if choices & 4 != 0 { crc32fast::hash(bytes) } else { 0 };
    let popular = [&checksum.to_le_bytes(), bytes].concat();
    fs::write(directory.path().join(QUEUE_NAME), popular).expect("it can be written");
    for depth in [Depth::Count, Depth::Metadata, Depth::Verify] {
        if let Ok(contents) = inspect(directory.path(), depth) {
            assert!(contents.slices + contents.damaged <= u64::from(SLOTS), "{contents:?}");
        }
    }
    reopen(&directory);
}

/// The contents of the tier are restored by the next process.
fn reopen(directory: &Scratch) {
    let open = || MemoryTier::open(directory.path(), LIMITS, UNIX_EPOCH).expect("no records make it fail");
    let (tier, first) = open();
    assert!(first.slices <= u64::from(SLOTS) && first.objects.len() as u64 <= first.slices);
    tier.preserve();
    let counted = (first.slices, first.bytes, first.objects.len());
    drop((first, tier));
    let (tier, again) = open();
    assert_eq!((again.slices, again.bytes, again.objects.len()), counted);
    again.objects.values().for_each(|dormant| {
        let Some((metadata, slots)) = dormant.take() else { return };
        assert!(metadata.len() <= DESCRIPTION_BYTES_MAX && !slots.is_empty());
        for left in &slots {
            assert!(left.record.length <= LIMITS.slice_bytes && left.record.object == dormant.object);
        }
    });
    drop((again, tier));
}

/// Gives a record the checksums that it would have if it were whole.
fn mend(record: &mut [u8], number: u32, slot: &[u8]) {
    if record.iter().all(|byte| *byte == 0) {
        return;
    }
    let field = |record: &[u8], place| u32_at(record, place).unwrap_or(0);
    let (length, metadata) = (field(record, 44), field(record, 52));
    let at = usize::try_from(description_offset(length.min(LIMITS.slice_bytes))).expect("it is small");
    let bytes = slot.get(..length as usize).unwrap_or_default();
    record[48..52].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let bytes = slot.get(at..).and_then(|rest| rest.get(..metadata as usize)).unwrap_or_default();
    record[56..60].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let key = RecordKey::new(SECRET);
    let record: &mut [u8; RECORD_BYTES] = record.try_into().expect("a record has its length");
    seal(record, number, key);
    let read = SlotRecord::decode(record, number, key).expect("it is whole now");
    assert_eq!(SlotRecord::decode(&read.encode(number, key), number, key), Some(read));
}
