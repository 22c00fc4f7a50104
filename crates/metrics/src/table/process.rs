//! The metrics of the process.

use crate::exposition::{Family, Kind, seconds};
use crate::metric::Metric;
use crate::process;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Resident memory, the mapped file pages in use included.",
        labels: &[],
        read: |_, out| whole(out, process::resident_memory_bytes()),
    },
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        help: "Open file descriptors.",
        labels: &[],
        read: |_, out| whole(out, process::open_descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "The limit on open file descriptors.",
        labels: &[],
        read: |_, out| whole(out, process::descriptors_max()),
    },
    Metric {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        help: "CPU time of all threads, in user and kernel mode.",
        labels: &[],
        read: |_, out| {
            if let Some(nanoseconds) = process::cpu_nanoseconds() {
                out.sample(&[], seconds(nanoseconds));
            }
        },
    },
];

/// Writes a value that the system may not provide; then there is no sample.
fn whole(out: &mut Family<'_>, value: Option<u64>) {
    if let Some(value) = value {
        out.sample(&[], value);
    }
}
