//! The metrics of early data and of the session cache.

use crate::labels::LookupWait;
use crate::metric::{Kind, Metric, closed, open};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_early_data_total",
        kind: Kind::Counter,
        help: "Handshakes with early data (0-RTT): `accepted` data is processed at once, `delayed` data after the handshake, `rejected` data is discarded and sent again by the client.",
        labels: &[
            closed("outcome", &["accepted", "delayed", "rejected"]),
            open(
                "reason",
                "`none`, or a short name: `replayed`, `before_start`, `register_full`, `clock_set_back` for delayed; `not_resumed`, `ticket_age`, `hello_retry`, `alpn`, `off` and others for rejected",
            ),
        ],
        read: |from, out| {
            for ((outcome, reason), count) in from.metrics.sum_by_label(|shard| &shard.early_data) {
                out.sample(&[outcome, reason], count);
            }
        },
    },
    Metric {
        name: "penstock_early_requests_total",
        kind: Kind::Counter,
        help: "Requests that arrived as early data: `answered` at once, `refused` with 425, or `waited` for the end of the handshake; `abandoned` counts connections whose handshake did not end in time.",
        labels: &[open("outcome", "`answered`, `refused`, `waited`, `abandoned`")],
        read: |from, out| out.reasons(from, |shard| &shard.early_requests),
    },
    Metric {
        name: "penstock_session_cache_lookups_total",
        kind: Kind::Counter,
        help: "Lookups of TLS 1.2 sessions for clients without tickets.",
        labels: &[closed("outcome", &["hit", "miss", "expired"])],
        read: |from, out| {
            let counts = &from.readings.session_cache;
            out.sample(&["hit"], counts.hits);
            out.sample(&["miss"], counts.misses);
            out.sample(&["expired"], counts.expired);
        },
    },
    Metric {
        name: "penstock_session_cache_waits_total",
        kind: Kind::Counter,
        help: "Handshakes that waited for a session from a store outside this process; after the deadline they continue as full handshakes.",
        labels: &[closed("outcome", LookupWait::LABELS)],
        read: |from, out| {
            out.each(|wait: LookupWait| from.metrics.sum(|shard| shard.session_waits[wait as usize].get()))
        },
    },
    Metric {
        name: "penstock_session_cache_stored_total",
        kind: Kind::Counter,
        help: "Sessions stored in the internal cache.",
        labels: &[],
        read: |from, out| out.sample(&[], from.readings.session_cache.stored),
    },
    Metric {
        name: "penstock_session_cache_evictions_total",
        kind: Kind::Counter,
        help: "Sessions evicted from the full internal cache before they expired.",
        labels: &[],
        read: |from, out| out.sample(&[], from.readings.session_cache.evicted),
    },
    Metric {
        name: "penstock_session_cache_sessions",
        kind: Kind::Gauge,
        help: "Sessions in the internal cache.",
        labels: &[],
        read: |from, out| out.sample(&[], from.readings.session_cache.sessions),
    },
    Metric {
        name: "penstock_session_cache_bytes",
        kind: Kind::Gauge,
        help: "Memory of the internal session cache, overhead included.",
        labels: &[],
        read: |from, out| out.sample(&[], from.readings.session_cache.bytes),
    },
];
