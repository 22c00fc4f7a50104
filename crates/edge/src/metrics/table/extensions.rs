//! What clients asked for in their TLS extensions, and got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_tls::ocsp::Staple;

use super::{closed, open};
use crate::metrics::Observatory;
use crate::metrics::exposition::{Family, Kind, Label, Metric};
use crate::metrics::extensions::{COMPRESSIONS, ENCRYPTED_HELLOS, STAPLES};
use crate::metrics::labels::{StapleOutcome, StapleSource};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_staples_total",
        kind: Kind::Counter,
        help: "Full handshakes by whether an OCSP response went with the certificate; `missing`: asked for in vain.",
        labels: &[closed("staple", &STAPLES)],
        read: |seen, out| {
            for (place, label) in STAPLES.into_iter().enumerate() {
                out.sample(&[label], seen.sum(|shard| shard.extensions.staples[place].get()));
            }
        },
    },
    Metric {
        name: "penstock_ocsp_responses_total",
        kind: Kind::Counter,
        help: "OCSP responses looked at or asked for.",
        labels: &[closed("source", StapleSource::LABELS), closed("outcome", StapleOutcome::LABELS)],
        read: |seen, out| {
            for source in StapleSource::ALL {
                for outcome in StapleOutcome::ALL {
                    out.sample(&[source.label(), outcome.label()], seen.keeper.staples(*source, *outcome));
                }
            }
        },
    },
    Metric {
        name: "penstock_staple_this_update_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the responder last knew the status of a certificate with a staple, in seconds since 1970.",
        labels: &[SUBJECT, KIND],
        read: |seen, out| staples(seen, out, |staple| staple.this_update),
    },
    Metric {
        name: "penstock_staple_next_update_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the staple of a certificate becomes stale and is sent no more, in seconds since 1970.",
        labels: &[SUBJECT, KIND],
        read: |seen, out| staples(seen, out, |staple| staple.next_update),
    },
    Metric {
        name: "penstock_ech_handshakes_total",
        kind: Kind::Counter,
        help: "Handshakes by whether the ClientHello came encrypted; `rejected` is an old key or GREASE, which look alike.",
        labels: &[closed("outcome", &ENCRYPTED_HELLOS)],
        read: |seen, out| {
            for (place, label) in ENCRYPTED_HELLOS.into_iter().enumerate() {
                out.sample(&[label], seen.sum(|shard| shard.extensions.encrypted_hellos[place].get()));
            }
        },
    },
    Metric {
        name: "penstock_ech_key_files",
        kind: Kind::Gauge,
        help: "Files in the directory of ECH keys: `used`, or `ignored` because they are none.",
        labels: &[closed("state", &["used", "ignored"])],
        read: |seen, out| {
            let [used, ignored] = seen.keeper.ech_files();
            out.sample(&["used"], used);
            out.sample(&["ignored"], ignored);
        },
    },
    Metric {
        name: "penstock_certificates_sent_total",
        kind: Kind::Counter,
        help: "Certificates sent, by how they were compressed (RFC 8879). Resumed handshakes need none.",
        labels: &[closed("compression", &COMPRESSIONS)],
        read: |seen, out| {
            for (place, label) in COMPRESSIONS.into_iter().enumerate() {
                out.sample(&[label], seen.sum(|shard| shard.extensions.certificates[place].get()));
            }
        },
    },
];

const SUBJECT: Label = open("subject", "the first host name");
const KIND: Label = open("kind", "the kind of key, such as `ecdsa`");

/// One sample for each certificate that has a staple; of several with the same labels the one that ends first.
fn staples(seen: &Observatory, out: &mut Family<'_>, time: fn(&Staple) -> SystemTime) {
    let now = SystemTime::now();
    let all = seen.keeper.current().map(|staples| staples.all()).unwrap_or_default();
    let mut shown: BTreeMap<(&str, &str), Arc<Staple>> = BTreeMap::new();
    for one in &all {
        let Some(staple) = one.current(now) else { continue };
        let first = shown.entry((&one.name, one.kind)).or_insert_with(|| Arc::clone(&staple));
        if staple.next_update < first.next_update {
            *first = staple;
        }
    }
    for ((subject, kind), staple) in shown {
        out.sample(&[subject, kind], time(&staple).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    }
}
