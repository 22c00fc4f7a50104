//! The section `clients` of `/status.json`: connections and their handshakes by kind of client.

use serde_json::{Map, Value as Json, json};

use super::{Shown, share};
use crate::labels::ClientKind;
use crate::registry::Metrics;
use crate::sample::seconds;

impl Metrics {
    /// Each kind that has had a connection.
    pub(super) fn clients(&self) -> Map<String, Json> {
        let connections = Shown::of(self, "penstock_client_connections_total");
        let handshakes = Shown::of(self, "penstock_client_handshakes_total");
        let of_kind = |kind: &ClientKind| {
            let connections = connections.only("client", kind.label()).total();
            let done = handshakes.only("client", kind.label());
            let cost = |resumed: &str| {
                let (count, spent) = (done.only("resumed", resumed).total(), self.spent(*kind, resumed));
                json!({
                    "count": count,
                    "busy_seconds": spent,
                    "busy_seconds_mean": (count > 0).then(|| spent / count as f64),
                })
            };
            let shown = json!({
                "connections": connections,
                "handshakes": {
                    "full": cost("false"),
                    "resumed": cost("true"),
                    "resumed_share": share(done.only("resumed", "true").total(), done.total()),
                    "versions": done.shares("version"),
                    "ciphers": done.shares("cipher"),
                },
            });
            (connections > 0).then(|| (kind.label().to_owned(), shown))
        };
        ClientKind::ALL.iter().filter_map(of_kind).collect()
    }

    /// Seconds of the workers for the handshakes of a kind.
    fn spent(&self, kind: ClientKind, resumed: &str) -> f64 {
        let place = usize::from(resumed == "true");
        let nanoseconds = self.sum(|shard| shard.client_handshake_time[kind as usize][place].get());
        seconds(nanoseconds)
    }
}
