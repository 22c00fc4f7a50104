//! The metrics of requests to the servers of origins.

use crate::cells::Distribution;
use crate::metric::{Family, Kind, Label, Metric, Sources, open};
use crate::readings::OriginRequestsReading;

const SITE: Label = open("site", "its first host, as configured");
const TARGET: Label = open("target", "the URL of the server");

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_origin_target_requests_total",
        kind: Kind::Counter,
        help: "Requests to a server of an origin, by outcome: `answered` with a head other than 502 to 504, `refused` with one of these, or a fault before the end of the head, as in `penstock_origin_requests_total`. Zero again after a reload that changes the origin.",
        labels: &[SITE, TARGET, open("outcome", "see the meaning")],
        read: |from, out| {
            for server in &from.readings.origin_requests {
                for (outcome, count) in &server.outcomes {
                    out.sample(&[&server.site, &server.target, outcome], *count);
                }
            }
        },
    },
    Metric {
        name: "penstock_origin_target_incomplete_total",
        kind: Kind::Counter,
        help: "Responses of a server of an origin whose body failed behind the head, by cause: `cut_short` if it ended before its length, `timeout`, `too_slow`, `malformed`, `trailer_too_large`. They are among the answered ones. What clients break off is not counted.",
        labels: &[SITE, TARGET, open("reason", "see the meaning")],
        read: |from, out| {
            for server in &from.readings.origin_requests {
                for (why, count) in &server.incomplete {
                    out.sample(&[&server.site, &server.target, why], *count);
                }
            }
        },
    },
    Metric {
        name: "penstock_origin_target_connect_seconds",
        kind: Kind::Histogram,
        help: "Time to open a connection to a server of an origin: name, TCP and TLS. Sites with the same origin settings share connections: the site is that of the request for which it was opened.",
        labels: &[SITE, TARGET],
        read: |from, out| times(from, out, |server| &server.connect),
    },
    Metric {
        name: "penstock_origin_target_first_byte_seconds",
        kind: Kind::Histogram,
        help: "Time from a request to a server of an origin, on a connection that is open, to the end of the head of its response.",
        labels: &[SITE, TARGET],
        read: |from, out| times(from, out, |server| &server.first_byte),
    },
    Metric {
        name: "penstock_origin_target_response_seconds",
        kind: Kind::Histogram,
        help: "Time from a request to a server of an origin to the end of its response, complete or not. A body that clients of this server take slowly takes as long.",
        labels: &[SITE, TARGET],
        read: |from, out| times(from, out, |server| &server.whole),
    },
];

fn times(from: &Sources<'_>, out: &mut Family<'_>, time: fn(&OriginRequestsReading) -> &Distribution) {
    for server in &from.readings.origin_requests {
        out.distribution(&[&server.site, &server.target], time(server).clone());
    }
}
