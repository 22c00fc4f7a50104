//! The metrics of workers.

use crate::labels::{CpuMode, Work};
use crate::metric::{Kind, Label, Metric, closed, open};

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
        name: "penstock_worker_busy_mode_seconds_total",
        kind: Kind::Counter,
        help: "CPU time of the worker in the program (`user`) and in system calls (`system`), as the kernel divides it; read once a second.",
        labels: &[WORKER, closed("mode", CpuMode::LABELS)],
        read: |from, out| {
            for (worker, shard) in from.metrics.shards.iter().enumerate() {
                for mode in CpuMode::ALL {
                    let spent = shard.busy.modes[*mode as usize].get();
                    out.seconds(&[&worker.to_string(), mode.label()], spent);
                }
            }
        },
    },
    Metric {
        name: "penstock_worker_work_samples_total",
        kind: Kind::Counter,
        help: "How often the worker was found at this work, of about 100 looks a second while it is on the CPU: the share of all is the share of the busy time. 0 without an admin listener.",
        labels: &[WORKER, closed("work", Work::LABELS)],
        read: |from, out| {
            for (worker, shard) in from.metrics.shards.iter().enumerate() {
                for work in Work::ALL {
                    out.sample(&[&worker.to_string(), work.label()], shard.work.found(*work));
                }
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
