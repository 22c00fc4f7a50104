//! The metrics of certificates.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::certificates::ENDS;
use crate::labels::ReloadOutcome;
use crate::limits;
use crate::metric::{Kind, Metric, closed, open};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_certificate_expiry_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When a certificate in use expires, in seconds since 1970; the 100 certificates that expire first.",
        labels: &[open("subject", "the first host name"), open("kind", "the kind of key, such as `ecdsa`")],
        read: |from, out| {
            for certificate in from.metrics.certificates.first_to_expire() {
                out.sample(&[&certificate.subject, certificate.kind], certificate.not_after_seconds);
            }
        },
    },
    Metric {
        name: "penstock_certificate_late_timestamp_seconds",
        kind: Kind::Gauge,
        help: "From when on a certificate in use should have been renewed, in seconds since 1970: 14 days before its end, but not before the last sixth of its validity; the same certificates.",
        labels: &[open("subject", "the first host name"), open("kind", "the kind of key, such as `ecdsa`")],
        read: |from, out| {
            for certificate in from.metrics.certificates.first_to_expire() {
                out.sample(&[&certificate.subject, certificate.kind], certificate.late_seconds);
            }
        },
    },
    Metric {
        name: "penstock_certificates",
        kind: Kind::Gauge,
        help: "Usable certificates by time left until they expire.",
        labels: &[open("kind", "the kind of key, such as `ecdsa`"), closed("ends", &ENDS)],
        read: |from, out| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            for ((kind, end), count) in from.metrics.certificates.by_expiry(now) {
                out.sample(&[kind, end], count);
            }
        },
    },
    Metric {
        name: "penstock_certificate_faults",
        kind: Kind::Gauge,
        help: "Certificates that cannot be used; the log names them. An older version may be in use instead.",
        labels: &[open(
            "reason",
            "`unreadable`, `no_certificate`, `no_key`, `key_mismatch`, `key_unsupported`, `too_many`",
        )],
        read: |from, out| {
            for (reason, count) in from.metrics.certificates.faults() {
                out.sample(&[reason], count);
            }
        },
    },
    Metric {
        name: "penstock_certificate_changes_total",
        kind: Kind::Counter,
        help: "Changes of certificate files, which take effect without a reload.",
        labels: &[closed("outcome", ReloadOutcome::LABELS)],
        read: |from, out| out.each(|outcome: ReloadOutcome| from.metrics.certificates.changes(outcome)),
    },
    Metric {
        name: "penstock_acme_orders_total",
        kind: Kind::Counter,
        help: "Orders of certificates (ACME) that have ended, by outcome: `issued`; `rejected` by the authority; `rate_limited`; `unavailable`, the authority cannot be reached or has a fault; `local`, storage or command.",
        labels: &[open("outcome", "as in the description")],
        read: |from, out| {
            for (outcome, count) in from.readings.orders.iter().flat_map(|orders| &orders.outcomes) {
                out.sample(&[outcome], *count);
            }
        },
    },
    Metric {
        name: "penstock_acme_names",
        kind: Kind::Gauge,
        help: "Names with a certificate of the authority (ACME), by state: `missing`, `ordering`, `waiting` for another machine, `valid`, `failing`. `/status.json` has the authority's words.",
        labels: &[open("state", "as in the description")],
        read: |from, out| {
            for (state, count) in from.readings.orders.iter().flat_map(|orders| &orders.states) {
                out.sample(&[state], *count);
            }
        },
    },
    Metric {
        name: "penstock_acme_next_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When a certificate is renewed, or its order tried again, in seconds since 1970; the first 100 names.",
        labels: &[open("subject", "the host name")],
        read: |from, out| {
            let names = from.readings.orders.iter().flat_map(|orders| &orders.names);
            for one in names.take(limits::CERTIFICATES) {
                if let Some(Ok(since)) = one.next.map(|next| next.duration_since(UNIX_EPOCH)) {
                    out.sample(&[&one.name], since.as_secs());
                }
            }
        },
    },
];
