//! The metrics of certificates.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::certificates::ENDS;
use crate::labels::ReloadOutcome;
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
];
