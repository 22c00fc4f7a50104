//! Maintenance of each disk in the background: a scan of what is there, then a scrub without end.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::device::Disk;
use super::format::{TOMBSTONE, TableEntry};
use super::index::{Arrival, RecordPlace};
use super::segment::Unusable;
use super::shared::count;
use super::slice::SliceName;
use crate::event::TierEvent;
use crate::key::Key;
use crate::memory::OBJECT_MAX;

/// How often the directory is checked and the scrub continues.
const TICK: Duration = Duration::from_secs(1);

/// Scans the disk, then scrubs until it is dropped.
pub(super) fn run(disk: &Weak<Disk>) {
    if let Some(disk) = disk.upgrade() {
        scan(&disk);
    }
    let mut scrub = Scrub::default();
    loop {
        thread::sleep(TICK);
        let Some(disk) = disk.upgrade() else { return };
        if !disk.is_in_service() {
            return;
        }
        if disk.is_there() {
            scrub.advance(&disk);
        } else {
            disk.fail("its directory is not there any more");
        }
    }
}

/// Fills the index from the segments' tables, the newest first: of two versions of an object the newer counts, and a
/// tombstone covers what was written before it.
fn scan(disk: &Disk) {
    let begun = Instant::now();
    let mut slices = 0;
    let mut gone: HashMap<Key, u64> = HashMap::new();
    let left = disk.all().into_iter().filter(|segment| segment.number < disk.begins);
    let newest_first: Vec<_> = left.rev().collect();
    let mut lost = 0;
    for segment in &newest_first {
        if !disk.is_in_service() {
            break;
        }
        match segment.entries(disk.limits.slice_bytes) {
            Ok((entries, finished)) => {
                for entry in entries.iter().rev() {
                    slices += u64::from(index_entry(disk, segment.number, entry, &mut gone));
                }
                if !finished && let Err(why) = segment.finish_for_another(&entries) {
                    disk.note_unusable(&why);
                }
            }
            // Another version, another slice size, or no segment at all.
            Err(Unusable::Damaged) => {
                lost += 1;
                disk.discard(segment);
            }
            Err(why @ Unusable::Io(_)) => disk.note_unusable(&why),
        }
    }
    disk.shared.index.finish_scan();
    let (directory, segments) = (disk.directory.as_path(), newest_first.len());
    (disk.shared.report)(TierEvent::Scanned { directory, segments, lost, slices, took: begun.elapsed() });
}

fn index_entry(disk: &Disk, number: u32, entry: &TableEntry, gone: &mut HashMap<Key, u64>) -> bool {
    if entry.object <= OBJECT_MAX {
        disk.shared.newest_object.fetch_max(entry.object, Ordering::Relaxed);
    }
    if entry.slice == TOMBSTONE {
        let upto = gone.entry(entry.key).or_default();
        *upto = entry.object.max(*upto);
        return false;
    }
    if gone.get(&entry.key).is_some_and(|upto| *upto >= entry.object) {
        return false;
    }
    let place = RecordPlace::new(disk.code(number), entry.place, entry.slice, entry.object);
    disk.shared.index.insert(&entry.key, entry.object, place, Arrival::Found);
    true
}

/// Checks everything on the disk, slowly, and drops what has changed.
#[derive(Default)]
struct Scrub {
    /// The segment that is being checked.
    segment: u32,
    /// Its entries that are still to be checked, the last first.
    left: Vec<TableEntry>,
}

impl Scrub {
    /// Checks as much as is due in one tick.
    fn advance(&mut self, disk: &Disk) {
        let due = disk.limits.scrub_bytes_per_second;
        let mut done = 0;
        while done < due {
            let Some(entry) = self.left.pop() else {
                if !self.begin_next(disk) {
                    return;
                }
                continue;
            };
            done += u64::from(entry.length);
            self.check(disk, &entry);
        }
    }

    fn begin_next(&mut self, disk: &Disk) -> bool {
        let all = disk.all();
        // All but the newest, which is being written.
        let Some((_, full)) = all.split_last() else { return false };
        let next = full.iter().find(|segment| segment.number > self.segment).or_else(|| full.first());
        let Some(segment) = next else { return false };
        // At most one round in a tick.
        let again = segment.number <= self.segment;
        self.segment = segment.number;
        match segment.entries(disk.limits.slice_bytes) {
            Ok((entries, _)) => self.left = entries.into_iter().rev().collect(),
            Err(Unusable::Damaged) => disk.discard(segment),
            Err(why @ Unusable::Io(_)) => disk.note_unusable(&why),
        }
        !again
    }

    fn check(&self, disk: &Disk, entry: &TableEntry) {
        if entry.slice == TOMBSTONE {
            return;
        }
        let wanted = SliceName { key: entry.key, object: entry.object, slice: entry.slice };
        let place = RecordPlace::new(disk.code(self.segment), entry.place, entry.slice, entry.object);
        if disk.shared.index.find(&entry.key, entry.object, entry.slice) != Some(place) {
            // No request would find it.
            return;
        }
        if disk.check(&wanted, &place).is_some() {
            // The scrub is no reader.
            disk.counts.read.fetch_sub(1, Ordering::Relaxed);
        }
        count(&disk.counts.scrubbed_bytes, u64::from(entry.length));
    }
}
