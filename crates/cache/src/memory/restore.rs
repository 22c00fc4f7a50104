//! Opens a memory tier and restores the slices of an earlier process.
//!
//! A slot is restored only if its record is whole. All other slots are given back to the system before anything is
//! written.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::SystemTime;

use penstock_sys::file::OpenFile;
use penstock_sys::lock::Unpoisoned;
use rustix::fs::{FlockOperation, flock};

use super::files::{
    KEY_NAME, MEMORY_FILE_NAME, QUEUE_NAME, RECORDS_NAME, SLICES_NAME, TierDirectory, memory_file,
};
use super::holder::{ExpectedBytes, Holder};
use super::layout::SlotLayout;
use super::limits::{DESCRIPTION_BYTES_MAX, SLICES_MIN, TierError, TierLimits, TierWarning, slice_length};
use super::predecessor::{BusySlots, GivenTier, same_file};
use super::queue_file::QueueFile;
use super::record::{Header, RecordKey, SECRET_BYTES, SlotRecord, place};
use super::record_file::{file_bytes, for_each_record, read_header};
use super::slice_file::{SliceFile, memory_slices, punch, punch_data};
use super::slot::{Slot, description_offset, ghost};
use super::tier::{MemoryTier, TierFiles, available_bytes};
use crate::draining;
use crate::key::{Key, KeyHashing};

/// The objects of an earlier process.
#[derive(Default)]
pub struct Restored {
    pub(crate) objects: HashMap<Key, Arc<Dormant>, KeyHashing>,
    /// Slices that were restored.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Why the slices of an earlier process were dropped, if there were any.
    pub dropped: Option<&'static str>,
    /// Warnings for the operator.
    pub warning: Option<TierWarning>,
}

/// Ids begin as nanoseconds since 1970. A greater one than this is refused: later ones would run out of numbers.
pub(crate) const OBJECT_MAX: u64 = u64::MAX / 2;

/// An object of an earlier process that was not requested yet.
pub(crate) struct Dormant {
    pub(crate) object: u64,
    pub(crate) object_length: Option<u64>,
    slots: Mutex<Vec<RestoredSlice>>,
}

/// A slice of an earlier process.
pub(crate) struct RestoredSlice {
    pub(crate) record: SlotRecord,
    pub(crate) slot: Arc<Slot>,
}

impl Dormant {
    /// Takes its slices, and the newest metadata that is whole.
    pub(crate) fn take(&self) -> Option<(Vec<u8>, Vec<RestoredSlice>)> {
        let mut slots = std::mem::take(&mut *self.slots());
        slots.sort_unstable_by_key(|left| Reverse(left.record.revision));
        let metadata = slots.iter().find_map(|left| left.slot.metadata(&left.record))?;
        Some((metadata, slots))
    }

    /// Whether all its slices were evicted.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// Removes its records: a later process must not find it either.
    pub(crate) fn clear_records(&self) {
        for left in &*self.slots() {
            left.slot.clear_record();
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<RestoredSlice>> {
        self.slots.lock().unpoisoned()
    }
}

impl Holder for Dormant {
    fn release_slice(&self, slice: u32) {
        let mut slots = self.slots();
        let place = slots.iter().position(|left| left.record.slice == slice);
        let gone = place.map(|place| slots.swap_remove(place));
        drop(slots);
        // Without the lock: giving back pages takes a moment.
        drop(gone);
    }

    fn ghost(&self, slice: u32) -> Option<u64> {
        self.slots().first().map(|left| ghost(&left.record.key, slice))
    }

    fn is_kept(&self) -> bool {
        true
    }

    fn expected(&self, slice: u32) -> Option<ExpectedBytes> {
        self.slots().iter().find(|left| left.record.slice == slice).map(|left| left.slot.expected())
    }
}

impl MemoryTier {
    /// Opens the tier in `directory`, which is made if it is missing, and restores the objects of an earlier process. Ids
    /// of new objects begin with `now`, so that they are newer than all before.
    ///
    /// # Errors
    /// See [`TierError`].
    pub fn open(
        directory: &Path,
        limits: TierLimits,
        now: SystemTime,
    ) -> Result<(Arc<Self>, Restored), TierError> {
        let opened = TierDirectory::open(directory)?;
        let writing = opened.open_file(SLICES_NAME)?;
        lock(&writing, directory)?;
        Self::open_locked(opened, writing, limits, None, now)
    }

    /// Takes over the tier in `directory` from a process that runs beside this one. The other process finds slices until
    /// [`Self::set_predecessor`] says that it ends.
    ///
    /// # Errors
    /// [`TierError::Draining`] if the tier has another size or slice, or its files are not those that were given. See
    /// [`TierError`] for others.
    pub(crate) fn open_given(
        directory: &Path,
        limits: TierLimits,
        given: GivenTier,
        now: SystemTime,
    ) -> Result<(Arc<Self>, Restored), TierError> {
        let opened = TierDirectory::open(directory)?;
        let named = opened.open_file(SLICES_NAME)?;
        same_file(&given.slices, &named).map_err(|_| TierError::Draining(directory.to_owned()))?;
        Self::open_locked(opened, given.slices, limits, Some(&given.busy), now)
    }

    /// Opens the tier with its locked file of slices. `busy` are the slots of the process that gives the tier away.
    fn open_locked(
        opened: TierDirectory,
        writing: File,
        limits: TierLimits,
        busy: Option<&BusySlots>,
        now: SystemTime,
    ) -> Result<(Arc<Self>, Restored), TierError> {
        let directory = opened.path().to_owned();
        let directory = directory.as_path();
        let unusable = |name: &str| {
            let path = directory.join(name);
            move |source| TierError::Unusable { path, source }
        };
        let records = opened.open_file(RECORDS_NAME)?;
        let secret = opened.open_file(KEY_NAME)?;
        let record_key = read_key(&secret).map_err(unusable(KEY_NAME))?;
        let available = available_bytes(&writing, [&writing, &records]);
        let (bytes_max, warning) = space_for(directory, limits, available)?;
        let layout = SlotLayout::new(limits);
        let inode = writing.metadata().map_err(unusable(SLICES_NAME))?.ino();
        let header =
            Header { bytes: limits.bytes, slice_bytes: limits.slice_bytes, slots: layout.slots(), inode };
        let (found, dropped) =
            match read_records(&records, header, record_key).map_err(unusable(RECORDS_NAME))? {
                Ok(found) => (found, None),
                Err(_) if busy.is_some() => return Err(TierError::Draining(directory.to_owned())),
                Err(why) => (Vec::new(), why),
            };
        if found.is_empty() && busy.is_none() {
            clear(&records, &header).map_err(unusable(RECORDS_NAME))?;
            writing.set_len(0).map_err(unusable(SLICES_NAME))?;
        }
        let last = layout.slots() - 1;
        if busy.is_none() {
            // If it was truncated, the lost slices are noticed by their checksum.
            writing.set_len(layout.file_bytes()).map_err(unusable(SLICES_NAME))?;
        }
        if busy.is_none() && found.iter().all(|(number, _)| *number != last) {
            punch(&writing, &layout.range(last..last + 1))
                .map_err(|_| TierError::NoHoles(directory.to_owned()))?;
        }
        // Not a copy of the other descriptor, which would share its lock.
        let reading =
            OpenFile::from_fd(opened.open_file(SLICES_NAME)?.into()).map_err(unusable(SLICES_NAME))?;
        let claimed = claims(found, limits.slice_bytes, |slot| layout.space(slot));
        let slots = numbers(&claimed);
        let mut taken = slots.clone();
        taken.extend(busy.into_iter().flat_map(BusySlots::numbers).filter(|number| *number <= last));
        taken.sort_unstable();
        taken.dedup();
        release_others(&taken, &layout, &writing, &records).map_err(unusable(SLICES_NAME))?;
        let queue = QueueFile(opened.open_file(QUEUE_NAME)?);
        let popular = queue.take(layout.slots());
        let slices = SliceFile::new(reading, writing);
        let files = TierFiles { directory: Some(opened), slices, records, record_key, queue: Some(queue) };
        let tier = Arc::new(Self::new(limits, bytes_max, files, now));
        tier.claim_slots(&taken);
        let restored = tier.restore(claimed);
        if let Some(busy) = busy {
            tier.hold_for_predecessor(busy, &slots);
        }
        // After a crash all count as popular: new slices have to prove that they are.
        tier.set_popular(popular.as_ref().unwrap_or(&slots));
        Ok((tier, Restored { dropped, warning, ..restored }))
    }

    /// Makes a tier of memory alone, without a directory: it ends with this process.
    ///
    /// # Errors
    /// [`TierError::Unusable`], when the system has no memory for it.
    pub fn without_directory(limits: TierLimits, now: SystemTime) -> Result<Arc<Self>, TierError> {
        let unusable = |source| TierError::Unusable { path: MEMORY_FILE_NAME.into(), source };
        let layout = SlotLayout::new(limits);
        let slices = memory_slices(layout.file_bytes()).map_err(unusable)?;
        let records = memory_file(file_bytes(layout.slots())).map_err(unusable)?;
        // No other process reads the records.
        let record_key = RecordKey::new([0; SECRET_BYTES]);
        let files = TierFiles { directory: None, slices, records, record_key, queue: None };
        Ok(Arc::new(Self::new(limits, limits.bytes, files, now)))
    }

    /// Whether another process has locked the tier in `directory`.
    pub(crate) fn is_locked(directory: &Path) -> bool {
        draining::is_locked(&directory.join(SLICES_NAME))
    }

    /// Whether the file system of `directory`, which need not exist, has the space that a tier needs. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::open`], as far as the space is concerned.
    pub fn check_space(directory: &Path, limits: TierLimits) -> Result<Option<TierWarning>, TierError> {
        let existing = directory.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(directory);
        let own = [SLICES_NAME, RECORDS_NAME].map(|name| File::open(directory.join(name)));
        let own = own.iter().filter_map(|file| file.as_ref().ok());
        let available = File::open(existing).and_then(|existing| available_bytes(&existing, own));
        space_for(directory, limits, available).map(|(_, warning)| warning)
    }

    /// Restores the recorded slots.
    fn restore(self: &Arc<Self>, claimed: Claims) -> Restored {
        let mut restored = Restored::default();
        for (key, records) in claimed {
            let Some(newest) = newest(&records) else { continue };
            self.skip_objects_to(newest.object);
            let dormant = Arc::new(Dormant {
                object: newest.object,
                object_length: newest.object_length,
                slots: Mutex::new(Vec::with_capacity(records.len())),
            });
            let weak: Weak<Dormant> = Arc::downgrade(&dormant);
            for (number, record) in records {
                let slot = Slot::restored(self, number, &record);
                restored.slices += 1;
                slot.keep(weak.clone(), record.slice, ghost(&key, record.slice));
                dormant.slots().push(RestoredSlice { record, slot });
            }
            restored.objects.insert(key, dormant);
        }
        restored.bytes = self.counters().bytes;
        restored
    }
}

/// Locks the files of a directory for this process.
fn lock(slices: &File, directory: &Path) -> Result<(), TierError> {
    if flock(slices, FlockOperation::NonBlockingLockExclusive).is_err() {
        let path = directory.to_owned();
        let is_draining = draining::is_marked(directory);
        return Err(if is_draining { TierError::Draining(path) } else { TierError::InUse(path) });
    }
    draining::clear(directory);
    Ok(())
}

/// The secret key of a directory. A new one is made if there is none; it fits no record.
fn read_key(file: &File) -> io::Result<RecordKey> {
    let mut secret = [0; SECRET_BYTES];
    if file.metadata()?.len() != SECRET_BYTES as u64 {
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        file.set_len(0)?;
        file.write_all_at(&secret, 0)?;
    }
    file.read_exact_at(&mut secret, 0)?;
    Ok(RecordKey::new(secret))
}

/// The space of a tier of which `available` bytes are there, with a warning if that is less than its limit.
fn space_for(
    directory: &Path,
    limits: TierLimits,
    available: io::Result<u64>,
) -> Result<(u64, Option<TierWarning>), TierError> {
    let path = directory.to_owned();
    let available = match available {
        Ok(available) => available,
        Err(source) => return Err(TierError::Unusable { path, source }),
    };
    let needed = limits.bytes.min(SLICES_MIN * u64::from(limits.slice_bytes));
    if available < needed {
        return Err(TierError::TooSmall { path, available, needed });
    }
    let asked = limits.bytes;
    let warning = (available < asked).then_some(TierWarning::Shrunk { path, asked, available });
    Ok((available.min(asked), warning))
}

/// The slots of an object.
type Claims = Vec<(Key, Vec<(u32, SlotRecord)>)>;

/// The numbers of all claimed slots, in rising order.
fn numbers(claimed: &Claims) -> Vec<u32> {
    let slots = claimed.iter().flat_map(|(_, slots)| slots);
    let mut numbers: Vec<u32> = slots.map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers
}

/// Clears the records of all slots but these, which rise, and gives back their pages.
fn release_others(taken: &[u32], layout: &SlotLayout, slices: &File, records: &File) -> io::Result<()> {
    let mut from = 0;
    for next in taken.iter().copied().chain([layout.slots()]) {
        if next > from {
            punch_data(records, &(place(from)..place(next)))?;
            punch_data(slices, &layout.range(from..next))?;
        }
        from = next + 1;
    }
    Ok(())
}

/// Makes an empty file of records.
fn clear(file: &File, header: &Header) -> io::Result<()> {
    file.set_len(0)?;
    file.set_len(file_bytes(header.slots))?;
    file.write_all_at(&header.encode(), 0)
}

type Found = Result<Vec<(u32, SlotRecord)>, Option<&'static str>>;

/// The records of a file, or why they are of no use to a process that expects the header `wanted`.
fn read_records(file: &File, wanted: Header, key: RecordKey) -> io::Result<Found> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Err(None));
    }
    match read_header(file)? {
        None => return Ok(Err(Some("its records are damaged, or of another version"))),
        Some(header) if header.inode != wanted.inode => {
            return Ok(Err(Some("its file of slices is another")));
        }
        Some(header) if header != wanted => return Ok(Err(Some("its size or slice was another"))),
        Some(_) if length != file_bytes(wanted.slots) => return Ok(Err(Some("its records are damaged"))),
        Some(_) => {}
    }
    let mut found = Vec::new();
    for_each_record(file, wanted.slots, key, |slot, record| {
        found.push((slot, record));
        Ok::<_, io::Error>(())
    })?;
    Ok(Ok(found))
}

/// The order of an object's slots by age. Records of one revision may disagree about whether the length is known.
fn rank(&(number, record): &(u32, SlotRecord)) -> (u32, bool, Reverse<u32>) {
    (record.revision, record.object_length.is_some(), Reverse(number))
}

/// The newest record of an object.
fn newest(slots: &[(u32, SlotRecord)]) -> Option<SlotRecord> {
    slots.iter().max_by_key(|slot| rank(slot)).map(|(_, record)| *record)
}

/// The slots of each object, the oldest object first. Of two versions of an object the newer counts, of two slots of one
/// slice the one with the newest metadata.
fn claims(found: Vec<(u32, SlotRecord)>, slice_bytes: u32, space: impl Fn(u32) -> u64) -> Claims {
    let mut objects: HashMap<Key, Vec<(u32, SlotRecord)>, KeyHashing> = HashMap::default();
    for (number, record) in found {
        let fits = record.length <= slice_bytes
            && record.metadata as usize <= DESCRIPTION_BYTES_MAX
            && description_offset(record.length) + u64::from(record.metadata) <= space(number)
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
        let newest = newest(slots);
        // Without a length it broke off on its way, and its end is unknown.
        let Some(length) = newest.and_then(|record| record.object_length) else { return false };
        // Older records may have been written while the length was unknown.
        let agrees = |record: &SlotRecord| {
            record.object_length.is_none_or(|told| told == length)
                && record.length == slice_length(length, record.slice, slice_bytes)
        };
        // The newest record judges the others, so it must be right itself.
        if !newest.as_ref().is_some_and(agrees) {
            return false;
        }
        slots.retain(|(_, record)| agrees(record));
        slots.sort_unstable_by_key(|slot| (slot.1.slice, Reverse(rank(slot))));
        slots.dedup_by_key(|(_, record)| record.slice);
        true
    });
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_unstable_by_key(|(_, slots)| slots.first().map(|(_, record)| record.object));
    objects
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
        assert_eq!(ids(claims(vec![(0, record(7)), (1, record(u64::MAX))], 4096, |_| 8192)), [7]);
        assert_eq!(ids(claims(vec![(0, record(OBJECT_MAX))], 4096, |_| 8192)), [OBJECT_MAX]);
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
            let claimed = claims((0..).zip(found.iter().copied()).collect(), 4096, |_| 8192);
            claimed.iter().flat_map(|(_, slots)| slots).map(|(number, _)| *number).collect()
        };
        let (first, second) = (record(1, 0, 4096, None), record(2, 1, 10, Some(4106)));
        assert_eq!(slots(&[first, second]), [0, 1], "the length was found out later");
        assert_eq!(slots(&[record(1, 0, 4096, Some(9000)), second]), [1]);
        assert!(slots(&[first, record(2, 1, 11, Some(4106))]).is_empty(), "the newest is wrong itself");
        assert_eq!(slots(&[record(1, 1, 10, None), second]), [1], "of two places that of the newest");
        assert_eq!(slots(&[record(2, 1, 10, None), second]), [1], "of one revision that with a length");
    }
}
