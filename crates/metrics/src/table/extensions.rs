//! The metrics of TLS extensions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::labels::{CertificateCompression, EncryptedHello, StapleOutcome, StapleSource, StapleStatus};
use crate::metric::{Family, Kind, Label, Metric, Sources, closed, open};
use crate::readings::StapleReading;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_staples_total",
        kind: Kind::Counter,
        help: "Full handshakes by OCSP stapling; `missing` means that the client asked and there was no response to staple.",
        labels: &[closed("staple", StapleStatus::LABELS)],
        read: |from, out| {
            out.each(|value: StapleStatus| from.metrics.sum(|shard| shard.staples[value as usize].get()))
        },
    },
    Metric {
        name: "penstock_ocsp_responses_total",
        kind: Kind::Counter,
        help: "Attempts to get an OCSP response, by outcome.",
        labels: &[closed("source", StapleSource::LABELS), closed("outcome", StapleOutcome::LABELS)],
        read: |from, out| {
            for source in StapleSource::ALL {
                for outcome in StapleOutcome::ALL {
                    out.sample(
                        &[source.label(), outcome.label()],
                        from.metrics.background().staples(*source, *outcome),
                    );
                }
            }
        },
    },
    Metric {
        name: "penstock_staple_this_update_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the responder last confirmed the status of a stapled certificate, in seconds since 1970.",
        labels: &[SUBJECT, KIND],
        read: |from, out| staples(from, out, |staple| staple.this_update),
    },
    Metric {
        name: "penstock_staple_next_update_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the staple of a certificate expires and is no longer sent, in seconds since 1970.",
        labels: &[SUBJECT, KIND],
        read: |from, out| staples(from, out, |staple| staple.next_update),
    },
    Metric {
        name: "penstock_ech_handshakes_total",
        kind: Kind::Counter,
        help: "Handshakes by Encrypted Client Hello; `rejected` is an outdated key or GREASE, which look the same.",
        labels: &[closed("outcome", EncryptedHello::LABELS)],
        read: |from, out| {
            out.each(|value: EncryptedHello| {
                from.metrics.sum(|shard| shard.encrypted_hellos[value as usize].get())
            })
        },
    },
    Metric {
        name: "penstock_ech_key_files",
        kind: Kind::Gauge,
        help: "Files in the directory of ECH keys: `used`, or `ignored` because they hold no key.",
        labels: &[closed("state", &["used", "ignored"])],
        read: |from, out| {
            let [used, ignored] = from.metrics.background().ech_files();
            out.sample(&["used"], used);
            out.sample(&["ignored"], ignored);
        },
    },
    Metric {
        name: "penstock_certificates_sent_total",
        kind: Kind::Counter,
        help: "Certificates sent, by compression (RFC 8879). Resumed handshakes send none.",
        labels: &[closed("compression", CertificateCompression::LABELS)],
        read: |from, out| {
            out.each(|value: CertificateCompression| {
                from.metrics.sum(|shard| shard.certificates_sent[value as usize].get())
            })
        },
    },
];

const SUBJECT: Label = open("subject", "the first host name");
const KIND: Label = open("kind", "the kind of key, such as `ecdsa`");

/// One sample for each certificate with a staple; of several with the same labels, the one that expires first.
fn staples(from: &Sources<'_>, out: &mut Family<'_>, time: fn(&StapleReading) -> SystemTime) {
    let mut first: BTreeMap<(&str, &str), &StapleReading> = BTreeMap::new();
    for staple in &from.readings.staples {
        match first.entry((&staple.subject, staple.kind)) {
            Entry::Vacant(entry) => drop(entry.insert(staple)),
            Entry::Occupied(mut entry) if staple.next_update < entry.get().next_update => {
                entry.insert(staple);
            }
            Entry::Occupied(_) => {}
        }
    }
    for ((subject, kind), staple) in first {
        out.sample(&[subject, kind], time(staple).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    }
}
