//! The metrics of connections.

use crate::labels::{Protocol, Refusal};
use crate::metric::{Kind, Label, Metric, closed, open};

const LISTENER: Label = open("listener", "the address as configured; `other` beyond 63 listeners");
const PROTOCOL: Label = closed("protocol", Protocol::LABELS);

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_connections_total",
        kind: Kind::Counter,
        help: "Connections accepted and served.",
        labels: &[LISTENER, PROTOCOL],
        read: |from, out| {
            for listener in from.metrics.listener_connections() {
                out.sample(&[&listener.address, listener.protocol.label()], listener.opened);
            }
        },
    },
    Metric {
        name: "penstock_connections",
        kind: Kind::Gauge,
        help: "Open connections.",
        labels: &[LISTENER, PROTOCOL],
        read: |from, out| {
            for listener in from.metrics.listener_connections() {
                out.sample(&[&listener.address, listener.protocol.label()], listener.open());
            }
        },
    },
    Metric {
        name: "penstock_connections_refused_total",
        kind: Kind::Counter,
        help: "Connections closed right after they were accepted, or (`evicted`) idle ones closed in favour of new ones.",
        labels: &[closed("reason", Refusal::LABELS)],
        read: |from, out| {
            out.each(|why: Refusal| from.metrics.sum(|shard| shard.refused[why as usize].get()))
        },
    },
    Metric {
        name: "penstock_accept_errors_total",
        kind: Kind::Counter,
        help: "Failures of the `accept` call.",
        labels: &[open("reason", "a fixed set of short names")],
        read: |from, out| out.reasons(from, |shard| &shard.accept_errors),
    },
];
