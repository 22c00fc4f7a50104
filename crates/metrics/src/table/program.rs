//! The metrics of the program.

use crate::labels::{LogLoss, ReloadOutcome};
use crate::metric::{Kind, Metric, closed, open, timestamp};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_build_info",
        kind: Kind::Gauge,
        help: "Always 1; the label is the version.",
        labels: &[open("version", "the version of the program")],
        read: |_, out| out.sample(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Metric {
        name: "penstock_start_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the program started, in seconds since 1970.",
        labels: &[],
        read: |from, out| out.sample(&[], timestamp(from.metrics.started_at)),
    },
    Metric {
        name: "penstock_config_loaded_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the current configuration was loaded, in seconds since 1970.",
        labels: &[],
        read: |from, out| out.sample(&[], timestamp(from.metrics.config_loaded_at())),
    },
    Metric {
        name: "penstock_reloads_total",
        kind: Kind::Counter,
        help: "Reloads of the configuration.",
        labels: &[closed("outcome", ReloadOutcome::LABELS)],
        read: |from, out| out.each(|outcome: ReloadOutcome| from.metrics.reloads(outcome)),
    },
    Metric {
        name: "penstock_access_log_written_total",
        kind: Kind::Counter,
        help: "Access log records written.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.access_log.total_written()),
    },
    Metric {
        name: "penstock_access_log_dropped_total",
        kind: Kind::Counter,
        help: "Access log records dropped.",
        labels: &[closed("reason", LogLoss::LABELS)],
        read: |from, out| out.each(|why: LogLoss| from.metrics.access_log.total_lost(why)),
    },
];
