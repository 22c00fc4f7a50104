//! The metrics of the process.

use crate::metric::{Kind, Metric};
use crate::process;
use crate::sample::seconds;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Resident memory, the mapped file pages in use included.",
        labels: &[],
        read: |_, out| out.optional(process::resident_memory_bytes()),
    },
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        help: "Open file descriptors.",
        labels: &[],
        read: |_, out| out.optional(process::open_descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "The limit on open file descriptors.",
        labels: &[],
        read: |_, out| out.optional(process::descriptors_max()),
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
