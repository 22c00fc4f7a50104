//! The metrics of files of directories.

use crate::labels::FileLookup;
use crate::metric::{Kind, Metric, closed};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_open_files",
        kind: Kind::Gauge,
        help: "Files open in the memos of the workers.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.open_files.get())),
    },
    Metric {
        name: "penstock_open_file_lookups_total",
        kind: Kind::Counter,
        help: "Lookups in the memo of open files.",
        labels: &[closed("result", FileLookup::LABELS)],
        read: |from, out| {
            out.each(|result: FileLookup| from.metrics.sum(|shard| shard.file_lookups[result as usize].get()))
        },
    },
    Metric {
        name: "penstock_page_cache_misses_total",
        kind: Kind::Counter,
        help: "Extents that were not in the page cache and that the I/O threads had to read first.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.page_cache_misses.get())),
    },
];
