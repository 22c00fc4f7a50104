//! What is shown of the certificates themselves.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{closed, open};
use crate::metrics::certificates::ENDS;
use crate::metrics::exposition::{Kind, Metric};
use crate::metrics::labels::ReloadOutcome;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_certificate_expiry_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When a certificate in use ends, in seconds since 1970; of more than 100 those that end first.",
        labels: &[open("subject", "the first host name"), open("kind", "the kind of key, such as `ecdsa`")],
        read: |seen, out| {
            for certificate in seen.first_to_end() {
                out.sample(&[&certificate.subject, certificate.kind], certificate.not_after_seconds);
            }
        },
    },
    Metric {
        name: "penstock_certificates",
        kind: Kind::Gauge,
        help: "Certificates that clients can be shown, by when they end.",
        labels: &[open("kind", "the kind of key, such as `ecdsa`"), closed("ends", &ENDS)],
        read: |seen, out| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            for ((kind, end), count) in seen.certificates_by_end(now) {
                out.sample(&[kind, end], count);
            }
        },
    },
    Metric {
        name: "penstock_certificate_faults",
        kind: Kind::Gauge,
        help: "Certificates that cannot be used now; the log names them. An older version may be in use instead.",
        labels: &[open(
            "reason",
            "`unreadable`, `no_certificate`, `no_key`, `key_mismatch`, `key_unsupported`, `too_many`",
        )],
        read: |seen, out| {
            for (reason, count) in seen.certificate_faults() {
                out.sample(&[reason], count);
            }
        },
    },
    Metric {
        name: "penstock_certificate_changes_total",
        kind: Kind::Counter,
        help: "Changes of certificate files that were followed without a reload.",
        labels: &[closed("outcome", ReloadOutcome::LABELS)],
        read: |seen, out| {
            for outcome in ReloadOutcome::ALL {
                out.sample(&[outcome.label()], seen.certificate_changes(*outcome));
            }
        },
    },
];
