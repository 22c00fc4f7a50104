//! The metrics of requests.

use crate::labels::{Method, StatusClass};
use crate::metric::{Kind, Metric, closed, open};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_requests_total",
        kind: Kind::Counter,
        help: "Requests whose response ended, complete or not.",
        labels: &[closed("status", StatusClass::LABELS), closed("method", Method::LABELS)],
        read: |from, out| {
            for class in StatusClass::ALL {
                for method in Method::ALL {
                    let count =
                        from.metrics.sum(|shard| shard.requests[*method as usize][*class as usize].get());
                    out.sample(&[class.label(), method.label()], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_request_rejections_total",
        kind: Kind::Counter,
        help: "Requests that the parser refused.",
        labels: &[open("reason", "a fixed set of short names")],
        read: |from, out| out.reasons(from, |shard| &shard.rejections),
    },
    Metric {
        name: "penstock_request_seconds",
        kind: Kind::Histogram,
        help: "Time from the end of the request head to the last byte of the response given to the socket.",
        labels: &[],
        read: |from, out| out.distribution(&[], from.metrics.distribution(|shard| &shard.request_time)),
    },
    Metric {
        name: "penstock_time_to_first_byte_seconds",
        kind: Kind::Histogram,
        help: "Time from the end of the request head to the first byte of the response given to the socket.",
        labels: &[],
        read: |from, out| out.distribution(&[], from.metrics.distribution(|shard| &shard.first_byte_time)),
    },
];
