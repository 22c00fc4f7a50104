//! The metrics of bytes sent to clients.

use crate::labels::{OutletKind, ShortReason};
use crate::metric::{Kind, Metric, closed, open};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_sent_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of heads and bodies given to sockets, before encryption.",
        labels: &[closed("outlet", OutletKind::LABELS)],
        read: |from, out| {
            out.each(|outlet: OutletKind| from.metrics.sum(|shard| shard.sent[outlet as usize].get()))
        },
    },
    Metric {
        name: "penstock_egress_connections_total",
        kind: Kind::Counter,
        help: "Connections by egress path and the reason for it.",
        labels: &[closed("kind", OutletKind::LABELS), open("reason", "a fixed set of short names")],
        read: |from, out| {
            for ((kind, reason), count) in from.metrics.sum_by_label(|shard| &shard.egress) {
                out.sample(&[kind.label(), reason], count);
            }
        },
    },
    Metric {
        name: "penstock_egress_ended_total",
        kind: Kind::Counter,
        help: "Connections that ended because the kernel failed to seal, or could not replace keys at their limit.",
        labels: &[open("reason", "a fixed set of short names")],
        read: |from, out| out.reasons(from, |shard| &shard.egress_ended),
    },
    Metric {
        name: "penstock_kernel_tls_connections",
        kind: Kind::Gauge,
        help: "Connections whose records the kernel seals, of all programs in this network namespace.",
        labels: &[closed("sealer", &["cpu", "network_card"])],
        read: |from, out| {
            out.sample(&["cpu"], from.readings.kernel_tls.cpu);
            out.sample(&["network_card"], from.readings.kernel_tls.network_card);
        },
    },
    Metric {
        name: "penstock_short_responses_total",
        kind: Kind::Counter,
        help: "Responses that ended before their last byte.",
        labels: &[closed("reason", ShortReason::LABELS)],
        read: |from, out| {
            out.each(|why: ShortReason| from.metrics.sum(|shard| shard.short_responses[why as usize].get()))
        },
    },
];
