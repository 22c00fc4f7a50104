//! What goes on in the background on each disk: finding out what is there, then looking at it again and again.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::format::{Entry, TOMBSTONE};
use super::index::{Arrival, Place};
use super::one::{Disk, count};
use super::segment::Unusable;
use super::{DiskEvent, one};
use crate::Key;

/// How often the directory is looked for, and the scrub goes on.
const TICK: Duration = Duration::from_secs(1);

/// Reads the disk's tables, then scrubs until the disk is dropped.
pub(crate) fn keep(disk: &Weak<Disk>) {
    if let Some(disk) = disk.upgrade() {
        find_out(&disk);
    }
    let mut scrub = Scrub::default();
    loop {
        thread::sleep(TICK);
        let Some(disk) = disk.upgrade() else { return };
        if !disk.is_in_service() {
            return;
        }
        if disk.is_there() {
            scrub.go_on(&disk);
        } else {
            disk.fail("its directory is not there any more");
        }
    }
}

/// Fills the index from the segments' tables, the newest first: of two versions of an object the newer counts, and a
/// tombstone counts for what was written before it.
fn find_out(disk: &Disk) {
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
                    slices += u64::from(take_in(disk, segment.number, entry, &mut gone));
                }
                if !finished && let Err(why) = segment.finish_for_another(&entries) {
                    disk.note_unusable(&why);
                }
            }
            // What is of another version, of another slice, or no segment at all.
            Err(Unusable::Damaged) => {
                lost += 1;
                disk.lose(segment);
            }
            Err(why @ Unusable::Io(_)) => disk.note_unusable(&why),
        }
    }
    disk.common.index.has_been_read();
    let (directory, segments) = (disk.directory.as_path(), newest_first.len());
    (disk.common.report)(DiskEvent::Read { directory, segments, lost, slices, took: begun.elapsed() });
}

fn take_in(disk: &Disk, number: u32, entry: &Entry, gone: &mut HashMap<Key, u64>) -> bool {
    if entry.slice == TOMBSTONE {
        let upto = gone.entry(entry.key).or_default();
        *upto = entry.object.max(*upto);
        return false;
    }
    if gone.get(&entry.key).is_some_and(|upto| *upto >= entry.object) {
        return false;
    }
    let place = Place::new(disk.code(number), entry.place, entry.slice, entry.object);
    disk.common.index.insert(&entry.key, entry.object, place, Arrival::Found);
    true
}

/// Looks at everything on the disk, slowly, and drops what has changed.
#[derive(Default)]
struct Scrub {
    /// The segment that is being looked at.
    segment: u32,
    /// What is left of it, the last first.
    left: Vec<Entry>,
}

impl Scrub {
    /// As much as is due in one tick.
    fn go_on(&mut self, disk: &Disk) {
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
            self.look_at(disk, &entry);
        }
    }

    fn begin_next(&mut self, disk: &Disk) -> bool {
        let all = disk.all();
        // Not the newest, which is being written.
        let Some((_, full)) = all.split_last() else { return false };
        let next = full.iter().find(|segment| segment.number > self.segment).or_else(|| full.first());
        let Some(segment) = next else { return false };
        // Round once and not more often in one tick, where little is there.
        let again = segment.number <= self.segment;
        self.segment = segment.number;
        match segment.entries(disk.limits.slice_bytes) {
            Ok((entries, _)) => self.left = entries.into_iter().rev().collect(),
            Err(Unusable::Damaged) => disk.lose(segment),
            Err(why @ Unusable::Io(_)) => disk.note_unusable(&why),
        }
        !again
    }

    fn look_at(&self, disk: &Disk, entry: &Entry) {
        if entry.slice == TOMBSTONE {
            return;
        }
        let wanted = one::Wanted { key: entry.key, object: entry.object, slice: entry.slice };
        let place = Place::new(disk.code(self.segment), entry.place, entry.slice, entry.object);
        if disk.common.index.find(&entry.key, entry.object, entry.slice) != Some(place) {
            // Nobody would find it.
            return;
        }
        if disk.read(&wanted, &place, |_| Ok(())).is_some() {
            // That was no reader.
            disk.counts.read.fetch_sub(1, Ordering::Relaxed);
        }
        count(&disk.counts.scrubbed_bytes, u64::from(entry.length));
    }
}
