//! The metrics of players and kinds of clients.

use crate::cells::{Distribution, Histogram, Scale};
use crate::distinct::estimate;
use crate::labels::ClientKind;
use crate::metric::{Family, Kind, Label, Metric, Sources, closed, open};
use crate::players::KindOfPlayer;

const SITE: Label = open("site", "its first host, as configured; `other` beyond 1,023 sites");
const CLIENT: Label = closed("client", ClientKind::LABELS);

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_client_connections_total",
        kind: Kind::Counter,
        help: "Connections whose first request a site has answered, by the kind of client, which User-Agent of this request and the fingerprint of the handshake (JA4) tell.",
        labels: &[CLIENT],
        read: |from, out| {
            out.each(|kind: ClientKind| from.metrics.sum(|shard| shard.clients[kind as usize].get()));
        },
    },
    Metric {
        name: "penstock_client_handshakes_total",
        kind: Kind::Counter,
        help: "Handshakes of these connections, by what they negotiated.",
        labels: &[
            CLIENT,
            open("version", "as in `penstock_handshakes_total`"),
            open("cipher", "the IANA name of the cipher suite"),
            closed("resumed", &["true", "false"]),
        ],
        read: |from, out| {
            for ((kind, facts), count) in from.metrics.sum_by_label(|shard| &shard.client_handshakes) {
                let resumed = if facts.resumed { "true" } else { "false" };
                out.sample(&[kind.label(), facts.version, facts.cipher, resumed], count);
            }
        },
    },
    Metric {
        name: "penstock_client_handshake_seconds_total",
        kind: Kind::Counter,
        help: "Time that workers spent on these handshakes: their own signatures, key exchange and the rest, without what they waited for. Divided by `penstock_client_handshakes_total` it is what a handshake of such a client costs.",
        labels: &[CLIENT, closed("resumed", &["true", "false"])],
        read: |from, out| {
            for kind in ClientKind::ALL {
                for (place, resumed) in ["false", "true"].into_iter().enumerate() {
                    let spent =
                        from.metrics.sum(|shard| shard.client_handshake_time[*kind as usize][place].get());
                    out.seconds(&[kind.label(), resumed], spent);
                }
            }
        },
    },
    Metric {
        name: "penstock_player_requests_total",
        kind: Kind::Counter,
        help: "Requests with which a player said something of itself (CMCD, CTA-5004).",
        labels: &[SITE, CLIENT],
        read: |from, out| counts(from, out, |kind| kind.requests.get()),
    },
    Metric {
        name: "penstock_player_starved_requests_total",
        kind: Kind::Counter,
        help: "Requests of players whose buffer had run empty since the one before (CMCD `bs`).",
        labels: &[SITE, CLIENT],
        read: |from, out| counts(from, out, |kind| kind.starved.get()),
    },
    Metric {
        name: "penstock_player_startup_requests_total",
        kind: Kind::Counter,
        help: "Requests for what a player needed to start, to seek or to go on after an empty buffer (CMCD `su`).",
        labels: &[SITE, CLIENT],
        read: |from, out| counts(from, out, |kind| kind.startup.get()),
    },
    Metric {
        name: "penstock_player_malformed_requests_total",
        kind: Kind::Counter,
        help: "Requests with CMCD that is malformed or longer than 2 KiB, and was not read.",
        labels: &[SITE, CLIENT],
        read: |from, out| counts(from, out, |kind| kind.malformed.get()),
    },
    Metric {
        name: "penstock_player_buffer_seconds",
        kind: Kind::Histogram,
        help: "How much players had in their buffers at a request (CMCD `bl`).",
        labels: &[SITE, CLIENT],
        read: |from, out| distributions(from, out, |kind| &kind.buffer),
    },
    Metric {
        name: "penstock_player_throughput_ratio",
        kind: Kind::Histogram,
        help: "Throughput that players had measured, as a multiple of the encoded bitrate of what they asked for (CMCD `mtp` and `br`): below 1 the buffer gets shorter.",
        labels: &[SITE, CLIENT],
        read: |from, out| distributions(from, out, |kind| &kind.throughput),
    },
    Metric {
        name: "penstock_player_sessions_total",
        kind: Kind::Counter,
        help: "Different sessions of players (CMCD `sid`), estimated with a standard error of 3.3 %.",
        labels: &[SITE],
        read: |from, out| {
            for site in from.metrics.sites() {
                let heard = site.players();
                if !heard.is_empty() {
                    out.sample(&[&site.name], estimate(heard.iter().map(|players| &players.sessions)));
                }
            }
        },
    },
    Metric {
        name: "penstock_player_client_sessions_total",
        kind: Kind::Counter,
        help: "Different sessions of players (CMCD `sid`) by kind of client, estimated with a standard error of 6.5 %.",
        labels: &[SITE, CLIENT],
        read: |from, out| {
            for site in from.metrics.sites() {
                let heard = site.players();
                for kind in ClientKind::ALL.iter().filter(|_| !heard.is_empty()) {
                    let of_kind = heard.iter().map(|players| &players.kinds[*kind as usize].sessions);
                    out.sample(&[&site.name, kind.label()], estimate(of_kind));
                }
            }
        },
    },
];

fn counts(from: &Sources<'_>, out: &mut Family<'_>, count: fn(&KindOfPlayer) -> u64) {
    for site in from.metrics.sites() {
        let heard = site.players();
        for kind in ClientKind::ALL.iter().filter(|_| !heard.is_empty()) {
            let sum = heard.iter().map(|players| count(&players.kinds[*kind as usize])).sum::<u64>();
            out.sample(&[&site.name, kind.label()], sum);
        }
    }
}

/// One histogram for each site and kind that has said anything of it.
fn distributions<S: Scale + 'static>(
    from: &Sources<'_>,
    out: &mut Family<'_>,
    histogram: fn(&KindOfPlayer) -> &Histogram<S>,
) {
    for site in from.metrics.sites() {
        let heard = site.players();
        for kind in ClientKind::ALL {
            let of_kind = heard.iter().map(|players| histogram(&players.kinds[*kind as usize]));
            let seen = Distribution::of(of_kind);
            if seen.count() > 0 {
                out.distribution(&[&site.name, kind.label()], seen);
            }
        }
    }
}
