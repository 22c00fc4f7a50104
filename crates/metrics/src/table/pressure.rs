//! The metrics of what the server gives up while the CPU is short.

use crate::labels::Sacrifice;
use crate::metric::{Kind, Metric, closed};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_pressure_given_up",
        kind: Kind::Gauge,
        help: "1 while the server does without this because the CPU is short: an unlimited rate of full handshakes, fetching segments in advance, compressing files anew, ChaCha20-Poly1305.",
        labels: &[closed("what", Sacrifice::LABELS)],
        read: |from, out| out.each(|what: Sacrifice| u64::from(from.metrics.given_up().is(what))),
    },
    Metric {
        name: "penstock_pressure_changes_total",
        kind: Kind::Counter,
        help: "How often this was given up or taken back.",
        labels: &[closed("what", Sacrifice::LABELS)],
        read: |from, out| out.each(|what: Sacrifice| from.metrics.given_up().changes(what)),
    },
    Metric {
        name: "penstock_handshake_rate_limit",
        kind: Kind::Gauge,
        help: "Full TLS handshakes in a second that all workers together make at most; none without a limit. With `limits.handshake_rate: auto` it follows the busy share of the workers.",
        labels: &[],
        read: |from, out| out.optional(from.metrics.given_up().handshake_rate()),
    },
];
