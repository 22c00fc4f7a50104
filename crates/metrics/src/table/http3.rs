//! The metrics of HTTP/3 and QUIC.

use crate::metric::{Kind, Metric, open};

const NAMES: &str = "a fixed set of short names; see [http3.md](http3.md#watching-it)";

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_http3_streams",
        kind: Kind::Gauge,
        help: "Requests of HTTP/3 whose work has not ended, also those that their client has reset.",
        labels: &[],
        read: |from, out| {
            let closed = from.metrics.sum(|shard| shard.http3.streams_closed.get());
            let opened = from.metrics.sum(|shard| shard.http3.streams_opened.get());
            out.sample(&[], opened.saturating_sub(closed));
        },
    },
    Metric {
        name: "penstock_http3_resets_total",
        kind: Kind::Counter,
        help: "Streams of HTTP/3 that ended early, by cause: `client` reset or stopped it, or the server reset it (`too_slow`, `truncated` and others).",
        labels: &[open("cause", "a fixed set of short names")],
        read: |from, out| out.reasons(from, |shard| &shard.http3.resets),
    },
    Metric {
        name: "penstock_quic_versions_total",
        kind: Kind::Counter,
        help: "Connections over QUIC that clients began, by version. To those of other versions than `1` the server has told its own.",
        labels: &[open("version", NAMES)],
        read: |from, out| out.reasons(from, |shard| &shard.http3.versions),
    },
    Metric {
        name: "penstock_quic_connection_ends_total",
        kind: Kind::Counter,
        help: "Connections over QUIC whose handshake was finished, by how they ended.",
        labels: &[open("reason", NAMES)],
        read: |from, out| out.reasons(from, |shard| &shard.http3.connection_ends),
    },
    Metric {
        name: "penstock_quic_answered_datagrams_total",
        kind: Kind::Counter,
        help: "Datagrams that were answered without a connection: `retry`, `stateless_reset`, `version_negotiation`.",
        labels: &[open("answer", NAMES)],
        read: |from, out| out.reasons(from, |shard| &shard.http3.answered),
    },
    Metric {
        name: "penstock_quic_dropped_datagrams_total",
        kind: Kind::Counter,
        help: "Datagrams that were dropped, by reason.",
        labels: &[open("reason", NAMES)],
        read: |from, out| out.reasons(from, |shard| &shard.http3.dropped),
    },
    Metric {
        name: "penstock_quic_packets_received_total",
        kind: Kind::Counter,
        help: "Packets received by connections over QUIC.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.http3.packets_received.get())),
    },
    Metric {
        name: "penstock_quic_packets_sent_total",
        kind: Kind::Counter,
        help: "Packets sent by connections over QUIC.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.http3.packets_sent.get())),
    },
    Metric {
        name: "penstock_quic_packets_lost_total",
        kind: Kind::Counter,
        help: "Sent packets that were taken for lost.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.http3.packets_lost.get())),
    },
    Metric {
        name: "penstock_quic_migrations_total",
        kind: Kind::Counter,
        help: "How often a client of a connection over QUIC went to another address.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.http3.migrations.get())),
    },
];
