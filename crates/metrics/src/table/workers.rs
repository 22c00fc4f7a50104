//! The metrics of workers.

use crate::metric::{Kind, Label, Metric, open};

const WORKER: Label = open("worker", "its number, from 0");

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_worker_busy_ratio",
        kind: Kind::Gauge,
        help: "Share of the last second that the worker spent on the CPU, from 0 to 1.",
        labels: &[WORKER],
        read: |from, out| {
            for (worker, shard) in from.metrics.shards.iter().enumerate() {
                out.sample(&[&worker.to_string()], shard.busy.ratio());
            }
        },
    },
    Metric {
        name: "penstock_worker_busy_seconds_total",
        kind: Kind::Counter,
        help: "CPU time of the worker.",
        labels: &[WORKER],
        read: |from, out| {
            for (worker, shard) in from.metrics.shards.iter().enumerate() {
                out.seconds(&[&worker.to_string()], shard.busy.total_nanoseconds.get());
            }
        },
    },
    Metric {
        name: "penstock_worker_panics_total",
        kind: Kind::Counter,
        help: "Panics that ended a connection: each is a bug.",
        labels: &[WORKER],
        read: |from, out| {
            for (worker, shard) in from.metrics.shards.iter().enumerate() {
                out.sample(&[&worker.to_string()], shard.panics.get());
            }
        },
    },
];
