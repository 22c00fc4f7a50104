//! The metrics of the disk tier.

use crate::metric::{Family, Kind, Metric, Sources, open};
use crate::readings::{DiskCounters, DiskTierReading};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_cache_disk_in_service",
        kind: Kind::Gauge,
        help: "1 while a disk of the cache is in use, 0 from its failure to the next start.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| u64::from(disk.in_service)),
    },
    Metric {
        name: "penstock_cache_disk_bytes",
        kind: Kind::Gauge,
        help: "Bytes of the segments of a disk, with the reserved space of the segment being written.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.bytes),
    },
    Metric {
        name: "penstock_cache_disk_bytes_max",
        kind: Kind::Gauge,
        help: "Bytes that the segments of a disk may take: its `size`.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.bytes_max),
    },
    Metric {
        name: "penstock_cache_disk_written_bytes_total",
        kind: Kind::Counter,
        help: "Bytes written to a disk: slices and their metadata.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.written_bytes),
    },
    Metric {
        name: "penstock_cache_disk_scrubbed_bytes_total",
        kind: Kind::Counter,
        help: "Bytes whose checksums the background scrub has verified.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.scrubbed_bytes),
    },
    Metric {
        name: "penstock_cache_disk_errors_total",
        kind: Kind::Counter,
        help: "Failed calls on a disk. One failed write, or three failed reads in a row, take it out of service.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.errors),
    },
    Metric {
        name: "penstock_cache_disk_segments_dropped_total",
        kind: Kind::Counter,
        help: "Segments dropped for new ones, oldest first.",
        labels: &[open("directory", "the directory of the disk")],
        read: |from, out| each(from, out, |disk| disk.segments_dropped),
    },
    Metric {
        name: "penstock_cache_disk_slices_total",
        kind: Kind::Counter,
        help: "Slices `written` to a disk, `read` with the right checksum, `promoted` to the memory tier, found `damaged` (and fetched again), or not read because the disk was `busy` (and fetched).",
        labels: &[open("directory", "the directory of the disk"), open("event", "see the meaning")],
        read: |from, out| {
            for disk in disks(from) {
                let events = [
                    ("written", disk.written),
                    ("read", disk.read),
                    ("promoted", disk.promoted),
                    ("damaged", disk.damaged),
                    ("busy", disk.busy),
                ];
                for (event, count) in events {
                    out.sample(&[&disk.directory.to_string_lossy(), event], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_cache_disk_slices",
        kind: Kind::Gauge,
        help: "Slices in the index of the disks.",
        labels: &[],
        read: |from, out| together(from, out, |tier| tier.slices),
    },
    Metric {
        name: "penstock_cache_disk_index_bytes",
        kind: Kind::Gauge,
        help: "Memory of the index of the disks.",
        labels: &[],
        read: |from, out| together(from, out, |tier| tier.index_bytes),
    },
    Metric {
        name: "penstock_cache_disk_waiting_bytes",
        kind: Kind::Gauge,
        help: "Bytes of slices waiting to be written to disks.",
        labels: &[],
        read: |from, out| together(from, out, |tier| tier.waiting_bytes),
    },
    Metric {
        name: "penstock_cache_disk_skipped_total",
        kind: Kind::Counter,
        help: "Slices not written to a disk when they had earned it, because too many waited; each counts once, and a later request writes it.",
        labels: &[],
        read: |from, out| together(from, out, |tier| tier.skipped),
    },
];

/// The disks, if the program has any.
fn disks<'a>(from: &'a Sources<'_>) -> &'a [DiskCounters] {
    from.readings.disk_tier.as_ref().map_or(&[], |tier| &tier.disks)
}

/// A number of each disk.
fn each(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&DiskCounters) -> u64) {
    for disk in disks(from) {
        out.sample(&[&disk.directory.to_string_lossy()], number(disk));
    }
}

/// A number of all disks together.
fn together(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&DiskTierReading) -> u64) {
    out.optional(from.readings.disk_tier.as_ref().map(number));
}
