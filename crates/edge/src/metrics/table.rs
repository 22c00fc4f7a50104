//! The table of all metrics. Adding one is a row here; the text for Prometheus and `docs/metrics.md` follow.

mod cache;
mod certificates;
mod disk;
mod extensions;
mod live;
mod resumption;
mod tickets;
mod tls;

use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::{Family, Kind, Label, Metric, Values, seconds};
use super::labels::{
    FileLookup, LogLoss, Method, OutletKind, Protocol, Refusal, ReloadOutcome, ShortReason, StatusClass,
};
use super::{VERSION, lock};

/// Metrics that belong together.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) metrics: &'static [Metric],
}

/// All metrics.
pub(super) static TABLE: &[Section] = &[
    Section { title: "Connections", metrics: CONNECTIONS },
    Section { title: "TLS", metrics: tls::METRICS },
    Section { title: "Resumption", metrics: resumption::METRICS },
    Section { title: "TLS extensions", metrics: extensions::METRICS },
    Section { title: "Certificates", metrics: certificates::METRICS },
    Section { title: "Session tickets", metrics: tickets::METRICS },
    Section { title: "Requests", metrics: REQUESTS },
    Section { title: "Bytes out", metrics: BYTES },
    Section { title: "Files", metrics: FILES },
    Section { title: "Cache and origins", metrics: cache::METRICS },
    Section { title: "Disks of the cache", metrics: disk::METRICS },
    Section { title: "Live streams", metrics: live::METRICS },
    Section { title: "Workers", metrics: WORKERS },
    Section { title: "The program", metrics: PROGRAM },
    Section { title: "The process", metrics: PROCESS },
];

const LISTENER: Label = open("listener", "the address as configured; `other` beyond 63 listeners");
const PROTOCOL: Label = closed("protocol", Protocol::LABELS);
const OUTLET: &[&str] = OutletKind::LABELS;
const WORKER: Label = open("worker", "its number, from 0");
const REASONS: &str = "a fixed set of short names";

const CONNECTIONS: &[Metric] = &[
    Metric {
        name: "penstock_connections_total",
        kind: Kind::Counter,
        help: "Connections accepted and kept.",
        labels: &[LISTENER, PROTOCOL],
        read: |seen, out| {
            for flow in seen.flows() {
                out.sample(&[&flow.address, flow.protocol.label()], flow.opened);
            }
        },
    },
    Metric {
        name: "penstock_connections",
        kind: Kind::Gauge,
        help: "Connections open now.",
        labels: &[LISTENER, PROTOCOL],
        read: |seen, out| {
            for flow in seen.flows() {
                out.sample(&[&flow.address, flow.protocol.label()], flow.open());
            }
        },
    },
    Metric {
        name: "penstock_connections_refused_total",
        kind: Kind::Counter,
        help: "Connections closed right after they were accepted.",
        labels: &[closed("reason", Refusal::LABELS)],
        read: |seen, out| {
            for why in Refusal::ALL {
                out.sample(&[why.label()], seen.sum(|shard| shard.refused[*why as usize].get()));
            }
        },
    },
    Metric {
        name: "penstock_accept_errors_total",
        kind: Kind::Counter,
        help: "Failures of accept itself.",
        labels: &[open("reason", REASONS)],
        read: |seen, out| {
            for (reason, count) in seen.tally(|shard| &shard.accept_errors) {
                out.sample(&[reason], count);
            }
        },
    },
];

const REQUESTS: &[Metric] = &[
    Metric {
        name: "penstock_requests_total",
        kind: Kind::Counter,
        help: "Requests whose response ended, whole or short.",
        labels: &[closed("status", StatusClass::LABELS), closed("method", Method::LABELS)],
        read: |seen, out| {
            for class in StatusClass::ALL {
                for method in Method::ALL {
                    let count = seen.sum(|shard| shard.requests[*method as usize][*class as usize].get());
                    out.sample(&[class.label(), method.label()], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_request_rejections_total",
        kind: Kind::Counter,
        help: "Requests turned down before they were looked at further.",
        labels: &[open("reason", REASONS)],
        read: |seen, out| {
            for (reason, count) in seen.tally(|shard| &shard.rejections) {
                out.sample(&[reason], count);
            }
        },
    },
    Metric {
        name: "penstock_request_seconds",
        kind: Kind::Histogram,
        help: "From the whole head of a request to the last byte of its response handed to the socket.",
        labels: &[],
        read: |seen, out| out.distribution(&[], &seen.distribution(|shard| &shard.request_time)),
    },
    Metric {
        name: "penstock_time_to_first_byte_seconds",
        kind: Kind::Histogram,
        help: "From the whole head of a request to the first byte of its response handed to the socket.",
        labels: &[],
        read: |seen, out| out.distribution(&[], &seen.distribution(|shard| &shard.first_byte_time)),
    },
];

const BYTES: &[Metric] = &[
    Metric {
        name: "penstock_sent_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of heads and bodies handed to sockets, counted before encryption.",
        labels: &[closed("outlet", OUTLET)],
        read: |seen, out| {
            for outlet in OutletKind::ALL {
                out.sample(&[outlet.label()], seen.sum(|shard| shard.sent[*outlet as usize].get()));
            }
        },
    },
    Metric {
        name: "penstock_egress_connections_total",
        kind: Kind::Counter,
        help: "Connections by the way their bytes leave, and why this way.",
        labels: &[closed("kind", OUTLET), open("reason", REASONS)],
        read: |seen, out| {
            for ((kind, reason), count) in seen.tally(|shard| &shard.egress) {
                out.sample(&[kind.label(), reason], count);
            }
        },
    },
    Metric {
        name: "penstock_egress_ended_total",
        kind: Kind::Counter,
        help: "Connections ended because the kernel gave up sealing, or could not change keys that had to be changed.",
        labels: &[open("reason", REASONS)],
        read: |seen, out| {
            for (reason, count) in seen.tally(|shard| &shard.egress_ended) {
                out.sample(&[reason], count);
            }
        },
    },
    Metric {
        name: "penstock_kernel_tls_connections",
        kind: Kind::Gauge,
        help: "Connections that the kernel seals now, of all programs in this network namespace.",
        labels: &[closed("sealer", &["cpu", "network_card"])],
        read: |_, out| {
            // Without its `tls` module it seals none.
            let statistics = penstock_sys::ktls::statistics().unwrap_or_default();
            out.sample(&["cpu"], statistics.open_software);
            out.sample(&["network_card"], statistics.open_device);
        },
    },
    Metric {
        name: "penstock_short_responses_total",
        kind: Kind::Counter,
        help: "Responses that ended before their last byte.",
        labels: &[closed("reason", ShortReason::LABELS)],
        read: |seen, out| {
            for why in ShortReason::ALL {
                out.sample(&[why.label()], seen.sum(|shard| shard.short_responses[*why as usize].get()));
            }
        },
    },
];

const FILES: &[Metric] = &[
    Metric {
        name: "penstock_open_files",
        kind: Kind::Gauge,
        help: "Files held open in the workers' memos.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.open_files.get())),
    },
    Metric {
        name: "penstock_open_file_lookups_total",
        kind: Kind::Counter,
        help: "Lookups in the memo of open files.",
        labels: &[closed("result", FileLookup::LABELS)],
        read: |seen, out| {
            for result in FileLookup::ALL {
                out.sample(&[result.label()], seen.sum(|shard| shard.file_lookups[*result as usize].get()));
            }
        },
    },
    Metric {
        name: "penstock_page_cache_misses_total",
        kind: Kind::Counter,
        help: "Extents that were not in memory and had to be read by the I/O threads first.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.page_cache_misses.get())),
    },
];

const WORKERS: &[Metric] = &[
    Metric {
        name: "penstock_worker_busy_ratio",
        kind: Kind::Gauge,
        help: "Share of the last second or so that the worker spent on the CPU, from 0 to 1.",
        labels: &[WORKER],
        read: |seen, out| {
            for (worker, shard) in seen.shards.iter().enumerate() {
                out.sample(&[&worker.to_string()], shard.busy.ratio());
            }
        },
    },
    Metric {
        name: "penstock_worker_busy_seconds_total",
        kind: Kind::Counter,
        help: "CPU time of the worker.",
        labels: &[WORKER],
        read: |seen, out| {
            for (worker, shard) in seen.shards.iter().enumerate() {
                out.seconds(&[&worker.to_string()], shard.busy.total_nanoseconds.get());
            }
        },
    },
    Metric {
        name: "penstock_worker_panics_total",
        kind: Kind::Counter,
        help: "Panics that ended a connection: each is a fault of the program.",
        labels: &[WORKER],
        read: |seen, out| {
            for (worker, shard) in seen.shards.iter().enumerate() {
                out.sample(&[&worker.to_string()], shard.panics.get());
            }
        },
    },
];

const PROGRAM: &[Metric] = &[
    Metric {
        name: "penstock_build_info",
        kind: Kind::Gauge,
        help: "Always 1; the version is in the label.",
        labels: &[open("version", "the version of the program")],
        read: |_, out| out.sample(&[VERSION], 1),
    },
    Metric {
        name: "penstock_start_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the program started, in seconds since 1970.",
        labels: &[],
        read: |seen, out| out.sample(&[], timestamp(seen.started_at)),
    },
    Metric {
        name: "penstock_config_loaded_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the configuration in force was loaded, in seconds since 1970.",
        labels: &[],
        read: |seen, out| out.sample(&[], timestamp(*lock(&seen.config_loaded_at))),
    },
    Metric {
        name: "penstock_reloads_total",
        kind: Kind::Counter,
        help: "Attempts to reload the configuration.",
        labels: &[closed("outcome", ReloadOutcome::LABELS)],
        read: |seen, out| {
            for outcome in ReloadOutcome::ALL {
                out.sample(&[outcome.label()], seen.reloads(*outcome));
            }
        },
    },
    Metric {
        name: "penstock_access_log_written_total",
        kind: Kind::Counter,
        help: "Access log records written.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.access_log.total_written()),
    },
    Metric {
        name: "penstock_access_log_dropped_total",
        kind: Kind::Counter,
        help: "Access log records that were never written.",
        labels: &[closed("reason", LogLoss::LABELS)],
        read: |seen, out| {
            for why in LogLoss::ALL {
                out.sample(&[why.label()], seen.access_log.total_lost(*why));
            }
        },
    },
];

const PROCESS: &[Metric] = &[
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Resident memory; pages of mapped files that are in use count too.",
        labels: &[],
        read: |_, out| whole(out, super::process::resident_memory_bytes()),
    },
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        help: "Open file descriptors.",
        labels: &[],
        read: |_, out| whole(out, super::process::open_descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "The limit on open file descriptors.",
        labels: &[],
        read: |_, out| whole(out, super::process::descriptors_max()),
    },
    Metric {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        help: "CPU time of all threads, in user and kernel mode.",
        labels: &[],
        read: |_, out| {
            if let Some(nanoseconds) = super::process::cpu_nanoseconds() {
                out.sample(&[], seconds(nanoseconds));
            }
        },
    },
];

const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: Values::Closed(values) }
}

const fn open(name: &'static str, values: &'static str) -> Label {
    Label { name, values: Values::Open(values) }
}

/// A value the system may not tell: then there is no sample.
fn whole(out: &mut Family<'_>, value: Option<u64>) {
    if let Some(value) = value {
        out.sample(&[], value);
    }
}

/// Seconds since 1970; a clock set before then counts as 1970.
fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
