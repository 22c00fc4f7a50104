//! The metrics of private keys that are elsewhere.

use std::time::UNIX_EPOCH;

use crate::metric::{Kind, Metric, Sources, closed, open};
use crate::readings::SignerStatus;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_private_key_fallbacks_total",
        kind: Kind::Counter,
        help: "Handshakes that the local copy of a private key signed, because the key elsewhere failed or was too slow (docs/keyserver.md).",
        labels: &[],
        read: |from, out| out.optional(from.readings.remote_keys.as_ref().map(|keys| keys.fallbacks)),
    },
    Metric {
        name: "penstock_private_key_operations_under_way",
        kind: Kind::Gauge,
        help: "Signatures by private keys elsewhere that handshakes wait for.",
        labels: &[],
        read: |from, out| out.optional(from.readings.remote_keys.as_ref().map(|keys| keys.under_way)),
    },
    Metric {
        name: "penstock_keyserver_up",
        kind: Kind::Gauge,
        help: "1 while there is a connection on which the keyserver answers.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.name], u64::from(server.up))),
    },
    Metric {
        name: "penstock_keyserver_circuit_open",
        kind: Kind::Gauge,
        help: "1 while the keyserver gets no operations, or only one at a time, because it has failed too often.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.name], u64::from(server.circuit_open))),
    },
    Metric {
        name: "penstock_keyserver_operations_under_way",
        kind: Kind::Gauge,
        help: "Operations that wait for an answer of the keyserver.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.name], server.under_way)),
    },
    Metric {
        name: "penstock_keyserver_operations_total",
        kind: Kind::Counter,
        help: "Operations of the keyserver by result. A handshake may ask two servers. `unavailable`: there is no connection; of an operation that no server could be sent, the first of the group counts it. `abandoned`: the client left first.",
        labels: &[open("server", SERVER), closed("result", &SignerStatus::RESULTS)],
        read: |from, out| {
            each(from, |server| {
                for (result, count) in SignerStatus::RESULTS.iter().zip(server.results) {
                    out.sample(&[&server.name, result], count);
                }
            });
        },
    },
    Metric {
        name: "penstock_keyserver_operation_seconds_total",
        kind: Kind::Counter,
        help: "Time of successful operations of the keyserver, added up; divided by their number it is the mean.",
        labels: &[open("server", SERVER)],
        read: |from, out| {
            each(from, |server| out.sample(&[&server.name], server.time.as_secs_f64()));
        },
    },
    Metric {
        name: "penstock_keyserver_connections_total",
        kind: Kind::Counter,
        help: "Connections made to the keyserver.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.name], server.connections)),
    },
    Metric {
        name: "penstock_keyserver_certificate_not_after_timestamp_seconds",
        kind: Kind::Gauge,
        help: "End of the certificate that the keyserver has shown last.",
        labels: &[open("server", SERVER)],
        read: |from, out| {
            each(from, |server| {
                if let Some(Ok(since)) = server.certificate_end.map(|end| end.duration_since(UNIX_EPOCH)) {
                    out.sample(&[&server.name], since.as_secs());
                }
            });
        },
    },
    Metric {
        name: "penstock_hsm_up",
        kind: Kind::Gauge,
        help: "1 while there is a session with the token of the hardware module.",
        labels: &[open("token", TOKEN)],
        read: |from, out| each_token(from, |token| out.sample(&[&token.name], u64::from(token.up))),
    },
    Metric {
        name: "penstock_hsm_circuit_open",
        kind: Kind::Gauge,
        help: "1 while the token gets no operations, or only one at a time, because it has failed too often.",
        labels: &[open("token", TOKEN)],
        read: |from, out| each_token(from, |token| out.sample(&[&token.name], u64::from(token.circuit_open))),
    },
    Metric {
        name: "penstock_hsm_operations_under_way",
        kind: Kind::Gauge,
        help: "Operations that wait for a thread of the token, or for the token.",
        labels: &[open("token", TOKEN)],
        read: |from, out| each_token(from, |token| out.sample(&[&token.name], token.under_way)),
    },
    Metric {
        name: "penstock_hsm_operations_total",
        kind: Kind::Counter,
        help: "Operations of the token by result. `abandoned`: the client left first.",
        labels: &[open("token", TOKEN), closed("result", &SignerStatus::RESULTS)],
        read: |from, out| {
            each_token(from, |token| {
                for (result, count) in SignerStatus::RESULTS.iter().zip(token.results) {
                    out.sample(&[&token.name, result], count);
                }
            });
        },
    },
    Metric {
        name: "penstock_hsm_operation_seconds_total",
        kind: Kind::Counter,
        help: "Time of successful operations of the token, their time in the queue included, added up.",
        labels: &[open("token", TOKEN)],
        read: |from, out| {
            each_token(from, |token| out.sample(&[&token.name], token.time.as_secs_f64()));
        },
    },
    Metric {
        name: "penstock_hsm_sessions_total",
        kind: Kind::Counter,
        help: "Sessions opened with the token.",
        labels: &[open("token", TOKEN)],
        read: |from, out| each_token(from, |token| out.sample(&[&token.name], token.connections)),
    },
];

const SERVER: &str = "the address as configured";

const TOKEN: &str = "the label of the token as configured";

fn each(from: &Sources<'_>, show: impl FnMut(&SignerStatus)) {
    from.readings.remote_keys.iter().flat_map(|keys| &keys.keyservers).for_each(show);
}

fn each_token(from: &Sources<'_>, show: impl FnMut(&SignerStatus)) {
    from.readings.remote_keys.iter().flat_map(|keys| &keys.tokens).for_each(show);
}
