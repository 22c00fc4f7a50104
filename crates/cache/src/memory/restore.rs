//! Opening a memory tier, and finding again what an earlier process left in it.
//!
//! Beside the file of slices lies one of records. A slot is claimed back only if its record is whole, and what no
//! record claims is given back to the system before anything else is written.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_sys::file::OpenFile;
use rustix::fs::{FlockOperation, flock};

use super::record::{HEADER_BYTES, Header, RECORD_BYTES, SlotRecord, place};
use super::slot::Slot;
use super::{
    DESCRIPTION_ROOM_BYTES, Entry, Holder, MemoryTier, PAGE_BYTES, SLOTS_PER_SLICE, State, TierError,
    TierLimits, punch, stride,
};
use crate::Key;
use crate::admission::{Admission, Uses};

/// The files in the tier's directory.
pub(crate) const SLICES_NAME: &str = "slices";
pub(crate) const RECORDS_NAME: &str = "records";

/// What an earlier process left in a tier.
#[derive(Default)]
pub struct Restored {
    pub(crate) objects: HashMap<Key, Arc<Dormant>>,
    /// Slices that are there again.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Why what was there could not be kept, if there was anything.
    pub dropped: Option<&'static str>,
}

/// Ids begin as nanoseconds since 1970. With one that is greater than this, later ones would run out of numbers.
const OBJECT_MAX: u64 = u64::MAX / 2;

/// An object of an earlier process that nobody has asked for yet.
pub(crate) struct Dormant {
    pub(crate) object: u64,
    pub(crate) object_length: Option<u64>,
    slots: Mutex<Vec<Left>>,
}

/// A slice that an earlier process left.
pub(crate) struct Left {
    pub(crate) record: SlotRecord,
    pub(crate) slot: Arc<Slot>,
}

impl Dormant {
    /// Its slices, and the newest description that came with one of them. It has none afterwards.
    pub(crate) fn wake(&self) -> Option<(Vec<u8>, Vec<Left>)> {
        let mut slots = std::mem::take(&mut *self.slots());
        slots.sort_unstable_by_key(|left| std::cmp::Reverse(left.record.revision));
        let description = slots.iter().find_map(|left| left.slot.description(&left.record))?;
        Some((description, slots))
    }

    /// No later process is to know of it either.
    pub(crate) fn strike_out(&self) {
        for left in &*self.slots() {
            left.slot.strike_out();
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Left>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder for Dormant {
    fn let_go(&self, slice: u32) {
        let mut slots = self.slots();
        let place = slots.iter().position(|left| left.record.slice == slice);
        let gone = place.map(|place| slots.swap_remove(place));
        drop(slots);
        // Without our lock: giving back pages takes a moment.
        drop(gone);
    }

    fn is_kept(&self) -> bool {
        true
    }
}

impl MemoryTier {
    /// Opens the tier in `directory`, which is made if it is missing, with what an earlier process left there. Ids of
    /// new objects begin with `now`, so that they are newer than all before.
    ///
    /// # Errors
    /// See [`TierError`].
    pub fn open(
        directory: &Path,
        limits: TierLimits,
        now: SystemTime,
    ) -> Result<(Arc<Self>, Restored), TierError> {
        let (slices, records) = (directory.join(SLICES_NAME), directory.join(RECORDS_NAME));
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| TierError::Unusable { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable(directory))?;
        let writing = open_or_create(&slices).map_err(unusable(&slices))?;
        flock(&writing, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| TierError::InUse(directory.to_owned()))?;
        let record_file = open_or_create(&records).map_err(unusable(&records))?;
        let slots = slots(limits);
        let inode = writing.metadata().map_err(unusable(&slices))?.ino();
        let header = Header { slice_bytes: limits.slice_bytes, slots, inode };
        let bytes = u64::from(slots) * stride(limits.slice_bytes);
        let (found, dropped) = match read_records(&record_file, header).map_err(unusable(&records))? {
            Ok(found) if writing.metadata().map_err(unusable(&slices))?.len() == bytes => (found, None),
            Ok(_) => (Vec::new(), Some("its file of slices has another length")),
            Err(why) => (Vec::new(), why),
        };
        if found.is_empty() {
            let records_bytes = HEADER_BYTES + u64::from(slots) * RECORD_BYTES as u64;
            begin_again(&record_file, records_bytes, &header).map_err(unusable(&records))?;
            writing.set_len(0).map_err(unusable(&slices))?;
            writing.set_len(bytes).map_err(unusable(&slices))?;
        }
        // Behind the last slot, where nothing lies.
        let spare = bytes - PAGE_BYTES;
        let last_is_free = found.iter().all(|(number, _)| *number != slots - 1);
        if last_is_free {
            punch(&writing, spare, PAGE_BYTES).map_err(|_| TierError::NoHoles(directory.to_owned()))?;
        }
        let reading = File::open(&slices).map_err(unusable(&slices))?;
        let reading = OpenFile::from_fd(reading.into()).map_err(unusable(&slices))?;
        let tier = Arc::new(Self::new(limits, slots, Arc::new(reading), writing, record_file, now));
        let mut restored = tier.restore(found).map_err(unusable(&slices))?;
        restored.dropped = dropped;
        Ok((tier, restored))
    }

    fn new(
        limits: TierLimits,
        slots: u32,
        reading: Arc<OpenFile>,
        writing: File,
        records: File,
        now: SystemTime,
    ) -> Self {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            limits,
            reading,
            writing,
            records,
            next_object: AtomicU64::new(u64::try_from(now.as_nanos()).unwrap_or(0)),
            leaving: AtomicBool::new(false),
            disks: OnceLock::new(),
            uses: (0..slots).map(|_| Uses::default()).collect(),
            dropping: OnceLock::new(),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            state: Mutex::new(State {
                free: (0..slots).rev().collect(),
                generation: 0,
                entries: (0..slots).map(|_| None).collect(),
                admission: Admission::new(),
                kept: 0,
            }),
        }
    }

    /// Takes back what the records claim, and gives the rest to the system.
    fn restore(self: &Arc<Self>, found: Vec<(u32, SlotRecord)>) -> io::Result<Restored> {
        let claimed = claims(found, self.limits.slice_bytes);
        let numbers = claimed.iter().flat_map(|(_, slots)| slots).map(|(number, _)| *number);
        let mut kept: Vec<u32> = numbers.collect();
        kept.sort_unstable();
        self.give_back_between(&kept)?;
        let mut restored = Restored::default();
        let mut state = self.state();
        state.free.retain(|number| kept.binary_search(number).is_err());
        for (key, records) in claimed {
            let newest = records.iter().map(|(_, record)| *record).max_by_key(|record| record.revision);
            let Some(newest) = newest else { continue };
            self.next_object.fetch_max(newest.object + 1, Ordering::Relaxed);
            let dormant = Arc::new(Dormant {
                object: newest.object,
                object_length: newest.object_length,
                slots: Mutex::new(Vec::with_capacity(records.len())),
            });
            let weak: Weak<Dormant> = Arc::downgrade(&dormant);
            for (number, record) in records {
                let slot = Slot::restored(self, number, &record);
                restored.slices += 1;
                restored.bytes += slot.reserved.load(Ordering::Relaxed);
                let (generation, slice, holder) = (slot.generation, record.slice, weak.clone());
                state.entries[number as usize] = Some(Entry { generation, holder, slice });
                state.admission.enter((number, generation), super::ghost(&key, slice));
                dormant.slots().push(Left { record, slot });
            }
            restored.objects.insert(key, dormant);
        }
        state.kept = restored.slices;
        self.bytes.store(restored.bytes, Ordering::Relaxed);
        Ok(restored)
    }

    /// Records without a slice are cleared, and their pages go.
    fn give_back_between(&self, kept: &[u32]) -> io::Result<()> {
        let slots = u32::try_from(self.uses.len()).unwrap_or(u32::MAX);
        let mut from = 0;
        for next in kept.iter().copied().chain([slots]) {
            if next > from {
                let count = u64::from(next - from);
                // Zeros in whole pages cost nothing, and the edges of others are written.
                punch(&self.records, place(from), count * RECORD_BYTES as u64)?;
                punch(&self.writing, u64::from(from) * self.stride(), count * self.stride())?;
            }
            from = next + 1;
        }
        Ok(())
    }
}

fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn slots(limits: TierLimits) -> u32 {
    let slots = (limits.bytes / u64::from(limits.slice_bytes)).max(1).saturating_mul(SLOTS_PER_SLICE);
    u32::try_from(slots).unwrap_or(u32::MAX)
}

/// An empty file of records.
fn begin_again(file: &File, bytes: u64, header: &Header) -> io::Result<()> {
    file.set_len(0)?;
    file.set_len(bytes)?;
    file.write_all_at(&header.encode(), 0)
}

type Found = Result<Vec<(u32, SlotRecord)>, Option<&'static str>>;

/// The records of a file, or why they say nothing to a process that wants `wanted`.
fn read_records(file: &File, wanted: Header) -> io::Result<Found> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Err(None));
    }
    let records = u64::from(wanted.slots) * RECORD_BYTES as u64;
    let mut header = [0; 28];
    if length < 28 || file.read_exact_at(&mut header, 0).is_err() {
        return Ok(Err(Some("its records are damaged")));
    }
    match Header::decode(&header) {
        None => return Ok(Err(Some("its records are damaged, or of another version"))),
        Some(header) if header.inode != wanted.inode => {
            return Ok(Err(Some("its file of slices is another")));
        }
        Some(header) if header != wanted => return Ok(Err(Some("its size or slice was another"))),
        Some(_) if length != HEADER_BYTES + records => return Ok(Err(Some("its records are damaged"))),
        Some(_) => {}
    }
    let mut bytes = vec![0; usize::try_from(records).unwrap_or(0)];
    file.read_exact_at(&mut bytes, HEADER_BYTES)?;
    let decoded = bytes.chunks_exact(RECORD_BYTES).zip(0..).filter_map(|(bytes, number)| {
        let record = SlotRecord::decode(bytes)?;
        Some((number, record))
    });
    Ok(Ok(decoded.collect()))
}

/// The slots of each object, the oldest object first; of two versions of one the newer, of two places of one slice that
/// with the newest description.
fn claims(found: Vec<(u32, SlotRecord)>, slice_bytes: u32) -> Vec<(Key, Vec<(u32, SlotRecord)>)> {
    let mut objects: HashMap<Key, Vec<(u32, SlotRecord)>> = HashMap::new();
    for (number, record) in found {
        let fits = record.length <= slice_bytes
            && record.description as usize <= DESCRIPTION_ROOM_BYTES
            && record.object <= OBJECT_MAX;
        if !fits || record.length == 0 {
            continue;
        }
        let slots = objects.entry(record.key).or_default();
        match slots.first().map_or(record.object, |(_, first)| first.object) {
            other if other > record.object => continue,
            other if other < record.object => slots.clear(),
            _ => {}
        }
        slots.push((number, record));
    }
    objects.retain(|_, slots| {
        let newest = slots.iter().map(|(_, record)| record).max_by_key(|record| record.revision);
        // Without a length it broke off while it came, and nobody can say where it would have ended.
        let Some(length) = newest.and_then(|record| record.object_length) else { return false };
        // Older ones may have been written when nobody knew the length yet.
        let agrees = |record: &SlotRecord| {
            record.object_length.is_none_or(|told| told == length)
                && record.length == slice_length(length, record.slice, slice_bytes)
        };
        // What it says of the others is only worth believing if it is right itself.
        if !newest.is_some_and(agrees) {
            return false;
        }
        slots.retain(|(_, record)| agrees(record));
        slots.sort_unstable_by_key(|(number, record)| {
            (record.slice, std::cmp::Reverse(record.revision), *number)
        });
        slots.dedup_by_key(|(_, record)| record.slice);
        true
    });
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_unstable_by_key(|(_, slots)| slots.first().map(|(_, record)| record.object));
    objects
}

/// Bytes of a slice of an object of this length.
pub(crate) fn slice_length(object_length: u64, slice: u32, slice_bytes: u32) -> u32 {
    let before = u64::from(slice) * u64::from(slice_bytes);
    let left = object_length.saturating_sub(before).min(u64::from(slice_bytes));
    u32::try_from(left).unwrap_or(slice_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_newer_than_any_clock_claims_no_slot() {
        let record =
            |object| SlotRecord { object, object_length: Some(9), length: 9, ..SlotRecord::default() };
        let ids = |claimed: Vec<(Key, Vec<(u32, SlotRecord)>)>| -> Vec<u64> {
            claimed.iter().flat_map(|(_, slots)| slots).map(|(_, record)| record.object).collect()
        };
        assert_eq!(ids(claims(vec![(0, record(7)), (1, record(u64::MAX))], 4096)), [7]);
        assert_eq!(ids(claims(vec![(0, record(OBJECT_MAX))], 4096)), [OBJECT_MAX]);
    }

    #[test]
    fn slices_of_one_object_that_disagree_about_its_length_are_not_put_together() {
        let record = |revision, slice, length, object_length| SlotRecord {
            object: 7,
            object_length,
            slice,
            length,
            revision,
            ..SlotRecord::default()
        };
        let slots = |found: &[SlotRecord]| -> Vec<u32> {
            let claimed = claims((0..).zip(found.iter().copied()).collect(), 4096);
            claimed.iter().flat_map(|(_, slots)| slots).map(|(number, _)| *number).collect()
        };
        let (first, second) = (record(1, 0, 4096, None), record(2, 1, 10, Some(4106)));
        assert_eq!(slots(&[first, second]), [0, 1], "the length was found out later");
        assert_eq!(slots(&[record(1, 0, 4096, Some(9000)), second]), [1]);
        assert!(slots(&[first, record(2, 1, 11, Some(4106))]).is_empty(), "the newest is wrong itself");
        assert_eq!(slots(&[record(1, 1, 10, None), second]), [1], "of two places that of the newest");
    }
}
