//! Arbitrary records, found in a tier's directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::record::{HEADER_BYTES, Header, RECORD_BYTES, SlotRecord};
use super::restore::{RECORDS_NAME, SLICES_NAME};
use super::slot::description_offset;
use super::{MemoryTier, SLOTS_PER_SLICE, TierLimits, inspect, stride};
use crate::fuzz::Scratch;
use crate::inspect::Depth;
use crate::numbers::u32_at;

const LIMITS: TierLimits = TierLimits { bytes: 4096, slice_bytes: 4096 };
const SLOTS: u8 = 8;
/// Of each slot, as many bytes of its slice come from the input.
const CONTENT_BYTES: usize = 32;

/// Body of the fuzz target `cache_files` for the memory tier: no records make it fail, and what it takes back it takes
/// back again.
///
/// The input is one byte of choices, a record for each slot, and the first bytes of each slice.
pub(crate) fn fuzz_records(input: &[u8]) {
    let Some((&choices, bytes)) = input.split_first() else { return };
    assert_eq!(u64::from(SLOTS), SLOTS_PER_SLICE, "there is room for one slice");
    let directory = Scratch::new();
    let (slices, records) = (directory.path().join(SLICES_NAME), directory.path().join(RECORDS_NAME));
    let step = usize::try_from(stride(LIMITS.slice_bytes)).expect("it is small");
    let mut content = vec![0; usize::from(SLOTS) * step];
    let mut of_slots = vec![0; usize::from(SLOTS) * RECORD_BYTES];
    let given = bytes.len().min(of_slots.len());
    of_slots[..given].copy_from_slice(&bytes[..given]);
    for (slot, piece) in content.chunks_exact_mut(step).zip(bytes[given..].chunks(CONTENT_BYTES)) {
        slot[..piece.len()].copy_from_slice(piece);
    }
    if choices & 1 != 0 {
        let slots = content.chunks_exact(step);
        of_slots.chunks_exact_mut(RECORD_BYTES).zip(slots).for_each(|(record, slot)| mend(record, slot));
    }
    fs::write(&slices, &content).expect("it can be written");
    let inode = fs::metadata(&slices).expect("it is there").ino();
    let header = Header { slice_bytes: LIMITS.slice_bytes, slots: SLOTS.into(), inode };
    let mut whole = header.encode().to_vec();
    whole.resize(usize::try_from(HEADER_BYTES).expect("it is small"), 0);
    whole.extend_from_slice(&of_slots);
    if choices & 2 != 0 {
        // A file that ends where the input ends.
        whole.truncate(bytes.len());
    }
    fs::write(&records, &whole).expect("it can be written");
    for depth in [Depth::Count, Depth::Describe, Depth::Verify] {
        if let Ok(contents) = inspect(directory.path(), depth) {
            assert!(contents.slices + contents.damaged <= u64::from(SLOTS), "{contents:?}");
        }
    }
    reopen(&directory);
}

/// What was there is there again for the process after this one.
fn reopen(directory: &Scratch) {
    let open = || MemoryTier::open(directory.path(), LIMITS, UNIX_EPOCH).expect("no records make it fail");
    let (tier, first) = open();
    assert!(first.slices <= u64::from(SLOTS) && first.objects.len() as u64 <= first.slices);
    tier.leave();
    let counted = (first.slices, first.bytes, first.objects.len());
    drop((first, tier));
    let (tier, again) = open();
    assert_eq!((again.slices, again.bytes, again.objects.len()), counted);
    again.objects.values().for_each(|dormant| {
        let Some((description, slots)) = dormant.wake() else { return };
        assert!(description.len() <= super::DESCRIPTION_ROOM_BYTES && !slots.is_empty());
        for left in &slots {
            assert!(left.record.length <= LIMITS.slice_bytes && left.record.object == dormant.object);
        }
    });
    drop((again, tier));
}

/// Gives a record the checksums that it would have if it were whole.
fn mend(record: &mut [u8], slot: &[u8]) {
    if record.iter().all(|byte| *byte == 0) {
        return;
    }
    let number = |record: &[u8], place| u32_at(record, place).unwrap_or(0);
    let (length, description) = (number(record, 8), number(record, 48));
    let at = usize::try_from(description_offset(length.min(LIMITS.slice_bytes))).expect("it is small");
    let bytes = slot.get(..length as usize).unwrap_or_default();
    record[12..16].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let bytes = slot.get(at..).and_then(|rest| rest.get(..description as usize)).unwrap_or_default();
    record[52..56].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let checksum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
    let read = SlotRecord::decode(record).expect("it is whole now");
    // But for the last four bytes, which mean nothing.
    assert_eq!(SlotRecord::decode(&read.encode()), Some(read));
}
