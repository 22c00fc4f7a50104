//! What is shown of sessions that are resumed.

use super::closed;
use crate::metrics::exposition::{Kind, Metric};

pub(super) const METRICS: &[Metric] = &[
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
