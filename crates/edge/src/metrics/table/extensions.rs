//! What clients asked for in their TLS extensions, and got.

use super::closed;
use crate::metrics::exposition::{Kind, Metric};
use crate::metrics::extensions::COMPRESSIONS;

pub(super) const METRICS: &[Metric] = &[Metric {
    name: "penstock_certificates_sent_total",
    kind: Kind::Counter,
    help: "Certificates sent, by how they were compressed (RFC 8879). Resumed handshakes need none.",
    labels: &[closed("compression", &COMPRESSIONS)],
    read: |seen, out| {
        for (place, label) in COMPRESSIONS.into_iter().enumerate() {
            out.sample(&[label], seen.sum(|shard| shard.extensions.certificates[place].get()));
        }
    },
}];
