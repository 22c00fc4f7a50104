//! The metrics of sites. Other metrics of the same things have no label `site`, so these have names of their own.

use crate::cells::{Histogram, Scale};
use crate::labels::{CacheOutcome, HttpLabel, ShortReason, StatusClass};
use crate::metric::{Family, Kind, Label, Metric, Sources, closed, open};
use crate::shard::{CarriedCounters, SiteOfWorkers};
use crate::viewers::viewers;

const SITE: Label = open("site", "its first host, as configured; `other` beyond 1,023 sites");

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_site_requests_total",
        kind: Kind::Counter,
        help: "Requests that a site has answered, by the class of the status; counted when the response ended, complete or not.",
        labels: &[SITE, closed("status", StatusClass::LABELS)],
        read: |from, out| {
            each(from, out, StatusClass::ALL, StatusClass::label, |site, class| {
                site.sum(|counters| counters.requests[class as usize].get())
            });
        },
    },
    Metric {
        name: "penstock_site_body_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of the bodies of a site's responses given to sockets, before encryption; with the framing of HTTP/1.1 bodies of unknown length.",
        labels: &[SITE],
        read: |from, out| {
            for site in from.metrics.sites() {
                out.sample(&[&site.name], site.sum(|counters| counters.body_bytes.get()));
            }
        },
    },
    Metric {
        name: "penstock_site_cache_requests_total",
        kind: Kind::Counter,
        help: "Requests to a site with an HTTP origin, by cache status, as in `penstock_cache_requests_total`. Those with `hit`, `stale` and `stale_if_error` did not wait for an origin.",
        labels: &[SITE, closed("outcome", CacheOutcome::LABELS)],
        read: |from, out| {
            each(from, out, CacheOutcome::ALL, CacheOutcome::label, |site, outcome| {
                site.sum(|counters| counters.cached[outcome as usize].requests.get())
            });
        },
    },
    Metric {
        name: "penstock_site_cache_body_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of bodies given to sockets, of a site with an HTTP origin, by cache status: the share of `hit`, `stale` and `stale_if_error` is the hit ratio by bytes.",
        labels: &[SITE, closed("outcome", CacheOutcome::LABELS)],
        read: |from, out| {
            each(from, out, CacheOutcome::ALL, CacheOutcome::label, |site, outcome| {
                site.sum(|counters| counters.cached[outcome as usize].bytes.get())
            });
        },
    },
    Metric {
        name: "penstock_site_time_to_first_byte_seconds",
        kind: Kind::Histogram,
        help: "Time from the end of the request head to the first byte of the response given to the socket, by site.",
        labels: &[SITE],
        read: |from, out| {
            for site in from.metrics.sites() {
                out.distribution(&[&site.name], site.distribution(|counters| &counters.first_byte));
            }
        },
    },
    Metric {
        name: "penstock_site_short_responses_total",
        kind: Kind::Counter,
        help: "Responses of a site that ended before their last byte, by cause.",
        labels: &[SITE, closed("reason", ShortReason::LABELS)],
        read: |from, out| {
            each(from, out, ShortReason::ALL, ShortReason::label, |site, why| {
                site.sum(|counters| counters.short[why as usize].get())
            });
        },
    },
    Metric {
        name: "penstock_site_delivery_rate_bytes_per_second",
        kind: Kind::Histogram,
        help: "Rate at which clients received, as TCP (`tcpi_delivery_rate`) or QUIC has measured it last at the end of a response of at least 64 KiB; too small if the server had less to send than the path takes.",
        labels: &[SITE, closed("version", HttpLabel::LABELS)],
        read: |from, out| carried(from, out, |carried| &carried.delivery_rate),
    },
    Metric {
        name: "penstock_site_round_trip_seconds",
        kind: Kind::Histogram,
        help: "Smoothed round-trip time of the client's connection at the end of a response of at least 64 KiB.",
        labels: &[SITE, closed("version", HttpLabel::LABELS)],
        read: |from, out| carried(from, out, |carried| &carried.round_trip),
    },
    Metric {
        name: "penstock_site_retransmitted_ratio",
        kind: Kind::Histogram,
        help: "Share of the bytes sent that had been sent before (QUIC: that were lost), on the client's connection since its last response of at least 64 KiB, from 0 to 1.",
        labels: &[SITE, closed("version", HttpLabel::LABELS)],
        read: |from, out| carried(from, out, |carried| &carried.sent_again),
    },
    Metric {
        name: "penstock_site_slow_responses_total",
        kind: Kind::Counter,
        help: "Responses of at least 64 KiB that clients received more slowly than a rendition needs, by the rates of `metrics.rates`.",
        labels: &[SITE, open("rate", "bytes per second, as configured")],
        read: |from, out| {
            for site in from.metrics.sites() {
                for (place, rate) in from.metrics.rates().iter().enumerate() {
                    out.sample(
                        &[&site.name, &rate.to_string()],
                        site.sum(|counters| counters.slow[place].get()),
                    );
                }
            }
        },
    },
    Metric {
        name: "penstock_site_slow_viewers",
        kind: Kind::Gauge,
        help: "Different client addresses (of IPv6 networks of 64 bits) that in the last minute received a response of at least 64 KiB more slowly than a rendition needs, by the rates of `metrics.rates`; estimated with a standard error of 6.5 %.",
        labels: &[SITE, open("rate", "bytes per second, as configured")],
        read: |from, out| {
            for site in from.metrics.sites() {
                for (place, rate) in from.metrics.rates().iter().enumerate() {
                    let slow = viewers(&site.viewers(), Some(place), from.metrics.second());
                    out.sample(&[&site.name, &rate.to_string()], slow);
                }
            }
        },
    },
    Metric {
        name: "penstock_site_measured_viewers",
        kind: Kind::Gauge,
        help: "Different client addresses that in the last minute received a response of at least 64 KiB whose rate was measured, the slow ones included; estimated in the same way. None without `metrics.rates`.",
        labels: &[SITE],
        read: |from, out| {
            for site in from.metrics.sites().iter().filter(|_| !from.metrics.rates().is_empty()) {
                out.sample(&[&site.name], viewers(&site.viewers(), None, from.metrics.second()));
            }
        },
    },
];

/// One histogram for each site and version of HTTP that has had a response.
fn carried<S: Scale>(
    from: &Sources<'_>,
    out: &mut Family<'_>,
    histogram: fn(&CarriedCounters) -> &Histogram<S>,
) {
    for site in from.metrics.sites() {
        for version in HttpLabel::ALL {
            let seen = site.distribution(|counters| histogram(&counters.carried[*version as usize]));
            if seen.count() > 0 {
                out.distribution(&[&site.name, version.label()], seen);
            }
        }
    }
}

/// One sample for each site and value of another label.
fn each<L: Copy>(
    from: &Sources<'_>,
    out: &mut Family<'_>,
    values: &[L],
    label: fn(L) -> &'static str,
    count: impl Fn(&SiteOfWorkers<'_>, L) -> u64,
) {
    for site in from.metrics.sites() {
        for value in values {
            out.sample(&[&site.name, label(*value)], count(&site, *value));
        }
    }
}
