//! What is shown of sessions that are resumed.

use super::{closed, open};
use crate::metrics::exposition::{Kind, Metric};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_early_data_total",
        kind: Kind::Counter,
        help: "Handshakes with early data (0-RTT): `accepted` may be acted upon at once, `delayed` only when the handshake is finished, `rejected` was thrown away and is sent again.",
        labels: &[
            closed("outcome", &["accepted", "delayed", "rejected"]),
            open(
                "reason",
                "`none`, or a short name: `replayed`, `before_start`, `register_full`, `clock_set_back` for delayed; `not_resumed`, `ticket_age`, `hello_retry`, `alpn`, `off` and others for rejected",
            ),
        ],
        read: |seen, out| {
            for ((outcome, reason), count) in seen.tally(|shard| &shard.resumption.early_data) {
                out.sample(&[outcome, reason], count);
            }
        },
    },
    Metric {
        name: "penstock_early_requests_total",
        kind: Kind::Counter,
        help: "Requests that came as early data: `answered` at once, `refused` with 425, `waited` for the end of the handshake; `abandoned` counts connections on which that end did not come in time.",
        labels: &[open("outcome", "`answered`, `refused`, `waited`, `abandoned`")],
        read: |seen, out| {
            for (outcome, count) in seen.tally(|shard| &shard.resumption.early_requests) {
                out.sample(&[outcome], count);
            }
        },
    },
    Metric {
        name: "penstock_session_cache_lookups_total",
        kind: Kind::Counter,
        help: "Sessions of TLS 1.2 that clients without tickets offered to resume.",
        labels: &[closed("outcome", &["hit", "miss", "expired"])],
        read: |seen, out| {
            let counts = seen.sessions();
            out.sample(&["hit"], counts.hits);
            out.sample(&["miss"], counts.misses);
            out.sample(&["expired"], counts.expired);
        },
    },
    Metric {
        name: "penstock_session_cache_waits_total",
        kind: Kind::Counter,
        help: "Handshakes that waited for a session that is kept elsewhere; after the deadline they are full ones.",
        labels: &[closed("outcome", &["answered", "deadline"])],
        read: |seen, out| {
            out.sample(&["answered"], seen.sum(|shard| shard.resumption.waits_answered.get()));
            out.sample(&["deadline"], seen.sum(|shard| shard.resumption.waits_timed_out.get()));
        },
    },
    Metric {
        name: "penstock_session_cache_stored_total",
        kind: Kind::Counter,
        help: "Sessions taken into the internal cache.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sessions().stored),
    },
    Metric {
        name: "penstock_session_cache_evictions_total",
        kind: Kind::Counter,
        help: "Sessions that left the internal cache before their time, because it was full.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sessions().evicted),
    },
    Metric {
        name: "penstock_session_cache_sessions",
        kind: Kind::Gauge,
        help: "Sessions in the internal cache.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sessions().sessions),
    },
    Metric {
        name: "penstock_session_cache_bytes",
        kind: Kind::Gauge,
        help: "Memory of the internal session cache, with what keeping the sessions costs.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sessions().bytes),
    },
];
