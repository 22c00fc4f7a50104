//! The counters as text for Prometheus, and as JSON.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use penstock_metrics::{LogLoss, SignerStatus};
use serde_json::{Map, Value, json};

use crate::clients::Client;
use crate::shared::KeyserverState;

/// A metric of the whole keyserver: name, type, help, value.
type Whole = (&'static str, &'static str, &'static str, fn(&KeyserverState) -> u64);

const WHOLE: [Whole; 9] = [
    ("penstock_key_files", "gauge", "Private keys.", |shared| shared.keyring.load().len() as u64),
    ("penstock_key_threads", "gauge", "Threads that sign.", |shared| shared.threads as u64),
    ("penstock_key_queue", "gauge", "Operations that wait for a thread.", |shared| {
        shared.pool.waiting() as u64
    }),
    (
        "penstock_key_connections_total",
        "counter",
        "Connections of clients with a certificate and an entry.",
        |shared| shared.counters.connections.load(Relaxed),
    ),
    (
        "penstock_key_handshake_failures_total",
        "counter",
        "TLS handshakes that failed, such as those without a certificate of the authorities.",
        |shared| shared.counters.handshake_failures.load(Relaxed),
    ),
    (
        "penstock_key_unknown_clients_total",
        "counter",
        "Connections closed because no entry has the name in the client's certificate.",
        |shared| shared.counters.strangers.load(Relaxed),
    ),
    (
        "penstock_key_connections_refused_total",
        "counter",
        "Connections closed because the client had as many as allowed.",
        |shared| shared.counters.refused.load(Relaxed),
    ),
    (
        "penstock_key_network_refused_total",
        "counter",
        "Connections closed in their handshake to make place for newer ones: their client network had the most.",
        |shared| shared.counters.network_full.load(Relaxed),
    ),
    ("penstock_key_log_dropped_total", "counter", "Lines of the access log that were dropped.", |shared| {
        LogLoss::ALL.iter().map(|why| shared.counters.access_log.total_lost(*why)).sum()
    }),
];

/// A metric of each client: name, type, help, and the samples, each with its labels behind that of the client.
type OfClient = (&'static str, &'static str, &'static str, fn(&Client) -> Vec<(String, f64)>);

const OF_CLIENT: [OfClient; 4] = [
    ("penstock_key_operations_total", "counter", "Operations by client, kind and result.", |client| {
        let labels = |(operation, result, count): (&str, &str, u64)| {
            (format!(",operation=\"{operation}\",result=\"{result}\""), count as f64)
        };
        client.counters().counts().map(labels).collect()
    }),
    (
        "penstock_key_operation_seconds_total",
        "counter",
        "Time from the receipt of successful operations to their answers, added up.",
        |client| vec![(String::new(), client.counters().time().as_secs_f64())],
    ),
    ("penstock_key_operations_under_way", "gauge", "Operations under way by client.", |client| {
        vec![(String::new(), client.under_way() as f64)]
    }),
    ("penstock_key_connections", "gauge", "Open connections by client.", |client| {
        vec![(String::new(), client.connections() as f64)]
    }),
];

/// A metric of each token: name, type, help, and the samples, each with its labels behind that of the token.
type OfToken = (&'static str, &'static str, &'static str, fn(&SignerStatus) -> Vec<(String, f64)>);

const OF_TOKEN: [OfToken; 6] = [
    (
        "penstock_hsm_up",
        "gauge",
        "1 while there is a session with the token of the hardware module.",
        |token| vec![(String::new(), f64::from(u8::from(token.up)))],
    ),
    (
        "penstock_hsm_circuit_open",
        "gauge",
        "1 while the token gets no operations, or only one at a time, because it has failed too often.",
        |token| vec![(String::new(), f64::from(u8::from(token.circuit_open)))],
    ),
    (
        "penstock_hsm_operations_under_way",
        "gauge",
        "Operations that wait for a thread of the token, or for the token.",
        |token| vec![(String::new(), token.under_way as f64)],
    ),
    ("penstock_hsm_operations_total", "counter", "Operations of the token by result.", |token| {
        let results = SignerStatus::RESULTS.iter().zip(token.results);
        results.map(|(result, count)| (format!(",result=\"{result}\""), count as f64)).collect()
    }),
    (
        "penstock_hsm_operation_seconds_total",
        "counter",
        "Time of successful operations of the token, their time in the queue included, added up.",
        |token| vec![(String::new(), token.time.as_secs_f64())],
    ),
    ("penstock_hsm_sessions_total", "counter", "Sessions opened with the token.", |token| {
        vec![(String::new(), token.connections as f64)]
    }),
];

/// The metrics in the Prometheus text format, version 0.0.4.
pub(crate) fn render(shared: &KeyserverState) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (name, kind, help, value) in WHOLE {
        let value = value(shared);
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}").unwrap_or_default();
    }
    let clients = shared.clients.load();
    for (name, kind, help, samples) in OF_CLIENT {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").unwrap_or_default();
        for client in clients.all() {
            let label = escaped(client.name());
            for (labels, value) in samples(client) {
                writeln!(text, "{name}{{client=\"{label}\"{labels}}} {value}").unwrap_or_default();
            }
        }
    }
    let tokens = shared.tokens.load().status();
    for (name, kind, help, samples) in OF_TOKEN.into_iter().filter(|_| !tokens.is_empty()) {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").unwrap_or_default();
        for token in &tokens {
            let label = escaped(&token.name);
            for (labels, value) in samples(token) {
                writeln!(text, "{name}{{token=\"{label}\"{labels}}} {value}").unwrap_or_default();
            }
        }
    }
    text
}

/// The state for `/status.json`.
pub(crate) fn status(shared: &KeyserverState) -> Value {
    let clients = shared.clients.load();
    let clients: Vec<Value> = clients
        .all()
        .into_iter()
        .map(|client| {
            let mut operations: Map<String, Value> = Map::new();
            for (operation, result, count) in client.counters().counts() {
                let entry = operations.entry(operation).or_insert_with(|| json!({}));
                entry[result] = json!(count);
            }
            json!({
                "name": client.name(),
                "connections": client.connections(),
                "under_way": client.under_way(),
                "operations": operations,
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "keys": shared.keyring.load().len(),
        "threads": shared.threads,
        "queue": shared.pool.waiting(),
        "clients": clients,
        "tokens": shared.tokens.load().status().iter().map(token_status).collect::<Vec<_>>(),
        "unknown_clients": shared.counters.strangers.load(Relaxed),
        "handshake_failures": shared.counters.handshake_failures.load(Relaxed),
    })
}

fn token_status(token: &SignerStatus) -> Value {
    let results = SignerStatus::RESULTS.iter().zip(token.results);
    json!({
        "name": token.name,
        "up": token.up,
        "circuit_open": token.circuit_open,
        "under_way": token.under_way,
        "sessions": token.connections,
        "operations": results.map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>(),
    })
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
