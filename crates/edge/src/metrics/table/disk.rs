//! The metrics of the disk tier.

use penstock_cache::{DiskCounters, Disks};

use super::open;
use crate::metrics::Observatory;
use crate::metrics::exposition::{Family, Kind, Metric};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_cache_disk_in_service",
        kind: Kind::Gauge,
        help: "1 while a disk of the cache is used; 0 from when it failed to the next start.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| u64::from(disk.in_service)),
    },
    Metric {
        name: "penstock_cache_disk_bytes",
        kind: Kind::Gauge,
        help: "Bytes that the segments of a disk take, with the room of the one that is being written.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| disk.bytes),
    },
    Metric {
        name: "penstock_cache_disk_written_bytes_total",
        kind: Kind::Counter,
        help: "Bytes written to a disk: slices, and what is written about them.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| disk.written_bytes),
    },
    Metric {
        name: "penstock_cache_disk_scrubbed_bytes_total",
        kind: Kind::Counter,
        help: "Bytes that were looked at in the background to find out whether they are still right.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| disk.scrubbed_bytes),
    },
    Metric {
        name: "penstock_cache_disk_errors_total",
        kind: Kind::Counter,
        help: "Calls that failed on a disk. A failed write, or three failed reads one after the other, take it out of service.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| disk.errors),
    },
    Metric {
        name: "penstock_cache_disk_segments_dropped_total",
        kind: Kind::Counter,
        help: "Segments that had to go for new ones, the oldest first.",
        labels: &[open("directory", "of the disk")],
        read: |seen, out| each(seen, out, |disk| disk.segments_dropped),
    },
    Metric {
        name: "penstock_cache_disk_slices_total",
        kind: Kind::Counter,
        help: "Slices `written` to a disk, `read` from it and found right, `promoted` back to memory, found `damaged` (and fetched again), or not read because the disk was `busy` (and fetched).",
        labels: &[open("directory", "of the disk"), open("event", "see left")],
        read: |seen, out| {
            let Some(disks) = seen.disks() else { return };
            for disk in disks.counters() {
                let directory = disk.directory.to_string_lossy();
                let events = [
                    ("written", disk.written),
                    ("read", disk.read),
                    ("promoted", disk.promoted),
                    ("damaged", disk.damaged),
                    ("busy", disk.busy),
                ];
                for (event, count) in events {
                    out.sample(&[&directory, event], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_cache_disk_slices",
        kind: Kind::Gauge,
        help: "Slices that are known to be on disks.",
        labels: &[],
        read: |seen, out| together(seen, out, |disks| disks.slices()),
    },
    Metric {
        name: "penstock_cache_disk_index_bytes",
        kind: Kind::Gauge,
        help: "Memory that the index of these slices takes.",
        labels: &[],
        read: |seen, out| together(seen, out, |disks| disks.index_bytes()),
    },
    Metric {
        name: "penstock_cache_disk_waiting_bytes",
        kind: Kind::Gauge,
        help: "Bytes of slices that wait to be written to disks.",
        labels: &[],
        read: |seen, out| together(seen, out, |disks| disks.bytes_in_flight()),
    },
    Metric {
        name: "penstock_cache_disk_skipped_total",
        kind: Kind::Counter,
        help: "Slices that were not written to a disk because too many waited; they are when they are asked for once more.",
        labels: &[],
        read: |seen, out| together(seen, out, |disks| disks.skipped()),
    },
];

/// A number of each disk.
fn each(seen: &Observatory, out: &mut Family<'_>, number: impl Fn(&DiskCounters) -> u64) {
    let Some(disks) = seen.disks() else { return };
    for disk in disks.counters() {
        out.sample(&[&disk.directory.to_string_lossy()], number(&disk));
    }
}

/// A number of all disks together.
fn together(seen: &Observatory, out: &mut Family<'_>, number: impl Fn(&Disks) -> u64) {
    if let Some(disks) = seen.disks() {
        out.sample(&[], number(&disks));
    }
}
