//! The metrics of private keys that are elsewhere.

use crate::exposition::Kind;
use crate::metric::{Metric, Sources, closed, open};
use crate::readings::KeyserverReading;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_private_key_fallbacks_total",
        kind: Kind::Counter,
        help: "Handshakes that the local copy of a private key signed, because the key elsewhere failed or was too slow (docs/keyserver.md).",
        labels: &[],
        read: |from, out| {
            if let Some(keys) = &from.readings.remote_keys {
                out.sample(&[], keys.fallbacks);
            }
        },
    },
    Metric {
        name: "penstock_private_key_operations_under_way",
        kind: Kind::Gauge,
        help: "Signatures by private keys elsewhere that handshakes wait for.",
        labels: &[],
        read: |from, out| {
            if let Some(keys) = &from.readings.remote_keys {
                out.sample(&[], keys.under_way);
            }
        },
    },
    Metric {
        name: "penstock_keyserver_up",
        kind: Kind::Gauge,
        help: "1 while there is a connection on which the keyserver answers.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.address], u64::from(server.up))),
    },
    Metric {
        name: "penstock_keyserver_circuit_open",
        kind: Kind::Gauge,
        help: "1 while the keyserver gets no operations, or only one at a time, because it has failed too often.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.address], u64::from(server.circuit_open))),
    },
    Metric {
        name: "penstock_keyserver_operations_under_way",
        kind: Kind::Gauge,
        help: "Operations that wait for an answer of the keyserver.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.address], server.under_way)),
    },
    Metric {
        name: "penstock_keyserver_operations_total",
        kind: Kind::Counter,
        help: "Operations of the keyserver by result. A handshake may ask two servers.",
        labels: &[open("server", SERVER), closed("result", &KeyserverReading::RESULTS)],
        read: |from, out| {
            each(from, |server| {
                for (result, count) in KeyserverReading::RESULTS.iter().zip(server.operations) {
                    out.sample(&[&server.address, result], count);
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
            each(from, |server| out.sample(&[&server.address], server.operation_time.as_secs_f64()));
        },
    },
    Metric {
        name: "penstock_keyserver_connections_total",
        kind: Kind::Counter,
        help: "Connections made to the keyserver.",
        labels: &[open("server", SERVER)],
        read: |from, out| each(from, |server| out.sample(&[&server.address], server.connections)),
    },
];

const SERVER: &str = "the address as configured";

fn each(from: &Sources<'_>, show: impl FnMut(&KeyserverReading)) {
    from.readings.remote_keys.iter().flat_map(|keys| &keys.keyservers).for_each(show);
}
