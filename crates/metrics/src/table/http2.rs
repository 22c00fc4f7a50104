//! The metrics of HTTP/2, and of HTTP by version.

use crate::labels::HttpLabel;
use crate::metric::{Kind, Label, Metric, closed, open};

const VERSION: Label = closed("version", HttpLabel::LABELS);
const REASON: Label = open("reason", "a fixed set of short names; see [http2.md](http2.md#bounds)");

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_http_connections_total",
        kind: Kind::Counter,
        help: "Connections by version of HTTP, counted when it is known.",
        labels: &[VERSION],
        read: |from, out| {
            out.each(|version: HttpLabel| {
                from.metrics.sum(|shard| shard.connections_by_version[version as usize].get())
            })
        },
    },
    Metric {
        name: "penstock_http_requests_total",
        kind: Kind::Counter,
        help: "Requests whose response ended, complete or not, by version of HTTP.",
        labels: &[VERSION],
        read: |from, out| {
            out.each(|version: HttpLabel| {
                from.metrics.sum(|shard| shard.requests_by_version[version as usize].get())
            })
        },
    },
    Metric {
        name: "penstock_http2_streams",
        kind: Kind::Gauge,
        help: "Streams whose work has not ended, also those that their client has reset.",
        labels: &[],
        read: |from, out| {
            let closed = from.metrics.sum(|shard| shard.http2.streams_closed.get());
            let opened = from.metrics.sum(|shard| shard.http2.streams_opened.get());
            out.sample(&[], opened.saturating_sub(closed));
        },
    },
    Metric {
        name: "penstock_http2_resets_total",
        kind: Kind::Counter,
        help: "Streams that ended early, by cause: `client` reset it, the server reset it (`too_slow`, `truncated` and others), or a rule of RFC 9113 that the client violated.",
        labels: &[open("cause", "a fixed set of short names")],
        read: |from, out| out.reasons(from, |shard| &shard.http2.resets),
    },
    Metric {
        name: "penstock_http2_streams_refused_total",
        kind: Kind::Counter,
        help: "Streams that were refused before any work, by bound.",
        labels: &[REASON],
        read: |from, out| out.reasons(from, |shard| &shard.http2.refused),
    },
    Metric {
        name: "penstock_http2_flow_control_stalls_total",
        kind: Kind::Counter,
        help: "How often a flow-control window was empty while a response had more to send.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.http2.stalls.get())),
    },
    Metric {
        name: "penstock_http2_connection_errors_total",
        kind: Kind::Counter,
        help: "Connections that ended because of an error or a flood of the client, by the rule or bound.",
        labels: &[REASON],
        read: |from, out| out.reasons(from, |shard| &shard.http2.connection_errors),
    },
];
