//! The state of the program as JSON: `/status.json`. Its numbers are the samples of the table, in another shape.

mod clients;
mod sites;
mod top;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value as Json, json};

use crate::cells::Distribution;
use crate::labels::{HandshakePart, Signer, Work};
use crate::limits;
use crate::lookup::look_up;
use crate::metric::{Metric, Sources};
use crate::readings::{
    FleetEdgeReading, FleetReading, OrderedName, OrdersReading, Readings, RemoteKeysReading, SignerStatus,
};
use crate::registry::Metrics;
use crate::sample::{Samples, Value};
use crate::shard::Shard;

impl Metrics {
    /// The state of the program as JSON: `/status.json`.
    ///
    /// Keys name their unit. Counts begin at the start of the program. Shares are from 0 to 1, and null if nothing was
    /// counted.
    #[must_use]
    pub fn status(&self) -> Json {
        let of = |name| Shown::of(self, name);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "work": self.work(),
            "workers": columns(&[], &[
                ("busy_ratio", &of("penstock_worker_busy_ratio")),
                ("busy_seconds", &of("penstock_worker_busy_seconds_total")),
                ("system_seconds", &of("penstock_worker_busy_mode_seconds_total").only("mode", "system")),
                ("panics", &of("penstock_worker_panics_total")),
            ]),
            "connections": {
                "open": of("penstock_connections").total(),
                "total": of("penstock_connections_total").total(),
                "refused": of("penstock_connections_refused_total").by("reason"),
                "accept_errors": of("penstock_accept_errors_total").by("reason"),
                "listeners": columns(&["address", "protocol"], &[
                    ("open", &of("penstock_connections")),
                    ("total", &of("penstock_connections_total")),
                ]),
            },
            "handshakes": self.handshakes(),
            "clients": self.clients(),
            "tickets": {
                "issued": of("penstock_tls_tickets_issued_total").total(),
                "offered": of("penstock_tls_tickets_offered_total").by("outcome"),
            },
            "requests": {
                "total": of("penstock_requests_total").total(),
                "by_class": of("penstock_requests_total").by("status"),
                "rejections": of("penstock_request_rejections_total").by("reason"),
                "short": of("penstock_short_responses_total").by("reason"),
            },
            "sites": self.site_status(),
            "top": self.top(),
            "sent_bytes": of("penstock_sent_bytes_total").by("outlet"),
            "egress": columns(&["kind", "reason"], &[("connections", &of("penstock_egress_connections_total"))]),
            "files": {
                "open": of("penstock_open_files").total(),
                "lookups": of("penstock_open_file_lookups_total").by("result"),
                "page_cache_misses": of("penstock_page_cache_misses_total").total(),
            },
            "certificates": columns(&["subject", "kind"], &[
                ("not_after_timestamp_seconds", &of("penstock_certificate_expiry_timestamp_seconds")),
            ]),
            "reloads": of("penstock_reloads_total").by("outcome"),
            "access_log": {
                "written": of("penstock_access_log_written_total").total(),
                "dropped": of("penstock_access_log_dropped_total").by("reason"),
            },
        })
    }

    /// The shares of the busy time of each worker, of about its last thousand looks.
    fn work(&self) -> Vec<Json> {
        let shares = |shard: &Arc<Shard>| {
            let share = |work: &Work| (work.label().to_owned(), json!(shard.work.recent(*work)));
            Json::Object(Work::ALL.iter().map(share).collect())
        };
        self.shards.iter().map(shares).collect()
    }

    fn handshakes(&self) -> Json {
        let ended = Shown::of(self, "penstock_handshakes_total");
        let (ok, failed) = (ended.only("outcome", "ok"), ended.only("outcome", "failed"));
        let resumed = ok.only("resumed", "true").total();
        let durations = Shown::of(self, "penstock_handshake_seconds");
        json!({
            "ok": ok.total(),
            "failed": failed.total(),
            "failures": Shown::of(self, "penstock_handshake_failures_total").by("reason"),
            "resumed": resumed,
            "resumed_share": share(resumed, ok.total()),
            "versions": ok.shares("version"),
            "ciphers": ok.shares("cipher"),
            "groups": ok.shares("group"),
            "certificates": ok.shares("certificate"),
            "rsa_share": share(ok.only("certificate", "rsa").total(), ok.total()),
            "hello_retry_requests": Shown::of(self, "penstock_hello_retry_requests_total").total(),
            "seconds": {
                "full": durations.distribution(&["false"]).map(quantiles),
                "resumed": durations.distribution(&["true"]).map(quantiles),
            },
            "parts_seconds": self.handshake_parts(),
            "operations": columns(&["part", "algorithm"], &[
                ("count", &Shown::of(self, "penstock_handshake_operations_total")),
                ("seconds", &Shown::of(self, "penstock_handshake_operation_seconds_total")),
            ]),
            "after_response": Shown::of(self, "penstock_handshakes_after_response_total").by("status"),
        })
    }

    /// The mean of each part, for each kind of key that has signed.
    fn handshake_parts(&self) -> Map<String, Json> {
        let spent = Shown::of(self, "penstock_handshake_part_seconds");
        let mean = |part: HandshakePart, signer: Signer| {
            let spent = spent.distribution(&[part.label(), signer.label()])?;
            let count = spent.count();
            (count > 0).then(|| spent.sum() / count as f64)
        };
        let seen = Signer::ALL.iter().filter(|signer| mean(HandshakePart::Rest, **signer).is_some());
        seen.map(|signer| {
            let parts =
                HandshakePart::ALL.iter().map(|part| (part.label().to_owned(), json!(mean(*part, *signer))));
            (signer.label().to_owned(), Json::Object(parts.collect()))
        })
        .collect()
    }
}

/// A metric of the table with its samples.
struct Shown {
    metric: &'static Metric,
    samples: Samples,
}

impl Shown {
    fn of(metrics: &Metrics, name: &str) -> Self {
        let (metric, samples) = look_up(&Sources { metrics, readings: &Readings::default() }, name);
        Self { metric, samples }
    }

    fn place(&self, label: &str) -> usize {
        self.metric.labels.iter().position(|known| known.name == label).expect("a label of the metric")
    }

    /// The samples with this label value.
    fn only(&self, label: &str, wanted: &str) -> Self {
        let place = self.place(label);
        let values = self.samples.values.iter().filter(|(labels, _)| labels[place] == wanted).cloned();
        Self { metric: self.metric, samples: Samples { values: values.collect(), ..Samples::default() } }
    }

    /// The sum of all samples.
    fn total(&self) -> u64 {
        self.samples.values.iter().map(|(_, value)| value.whole()).sum()
    }

    /// The sums of the samples by the value of one label.
    fn sums(&self, label: &str) -> Vec<(&str, u64)> {
        let place = self.place(label);
        let mut sums: Vec<(&str, u64)> = Vec::new();
        for (labels, value) in &self.samples.values {
            match sums.iter_mut().find(|(known, _)| *known == labels[place]) {
                Some((_, sum)) => *sum += value.whole(),
                None => sums.push((&labels[place], value.whole())),
            }
        }
        sums
    }

    fn by(&self, label: &str) -> Map<String, Json> {
        self.sums(label).into_iter().map(|(value, sum)| (value.to_owned(), json!(sum))).collect()
    }

    /// The count of each value of a label, and its share of all.
    fn shares(&self, label: &str) -> Map<String, Json> {
        let describe = |count| json!({"count": count, "share": share(count, self.total())});
        self.sums(label).into_iter().map(|(value, count)| (value.to_owned(), describe(count))).collect()
    }

    fn distribution(&self, labels: &[&str]) -> Option<&Distribution> {
        self.samples.distributions.iter().find(|(known, _)| known == labels).map(|(_, spent)| spent)
    }
}

/// One object for each combination of label values, with these names for the labels and for the samples of each metric.
fn columns(labels: &[&str], metrics: &[(&str, &Shown)]) -> Vec<Json> {
    let rows = metrics.first().map_or(&[][..], |(_, shown)| &shown.samples.values);
    let row = |(place, (values, _)): (usize, &(Vec<String>, Value))| {
        let labels = labels.iter().zip(values).map(|(name, value)| ((*name).to_owned(), json!(value)));
        let samples = metrics.iter().filter_map(|(name, shown)| {
            shown.samples.values.get(place).map(|(_, value)| ((*name).to_owned(), value.json()))
        });
        Json::Object(labels.chain(samples).collect())
    };
    rows.iter().enumerate().map(row).collect()
}

impl Value {
    fn whole(self) -> u64 {
        match self {
            Self::Whole(value) => value,
            Self::Real(_) => 0,
        }
    }

    pub(crate) fn json(self) -> Json {
        match self {
            Self::Whole(value) => json!(value),
            Self::Real(value) => json!(value),
        }
    }
}

impl RemoteKeysReading {
    /// The section `private_keys` of `/status.json`.
    #[must_use]
    pub fn status(&self) -> Json {
        let signer = |signer: &SignerStatus, name: &str, connections: &str| {
            let operations = SignerStatus::RESULTS.iter().zip(signer.results);
            let mean = signer.time.as_secs_f64() / signer.results[0] as f64;
            json!({
                name: signer.name,
                "up": signer.up,
                "circuit_open": signer.circuit_open,
                "under_way": signer.under_way,
                connections: signer.connections,
                "operations": operations.map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>(),
                "mean_seconds": (signer.results[0] > 0).then_some(mean),
            })
        };
        let keyserver = |reading| signer(reading, "address", "connections");
        let token = |reading| signer(reading, "name", "sessions");
        json!({
            "fallbacks": self.fallbacks,
            "under_way": self.under_way,
            "keyservers": self.keyservers.iter().map(keyserver).collect::<Vec<_>>(),
            "tokens": self.tokens.iter().map(token).collect::<Vec<_>>(),
        })
    }
}

impl OrdersReading {
    /// The section `acme` of `/status.json`.
    #[must_use]
    pub fn status(&self) -> Json {
        let at = |time: Option<SystemTime>| {
            time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs())
        };
        let name = |one: &OrderedName| {
            json!({
                "name": one.name,
                "state": one.state,
                "not_after_timestamp_seconds": at(one.not_after),
                "next_timestamp_seconds": at(one.next),
                "error": one.error,
            })
        };
        let outcomes = self.outcomes.iter().map(|(name, count)| ((*name).to_owned(), json!(count)));
        json!({
            "orders": outcomes.collect::<Map<_, _>>(),
            "names": self.names.iter().map(name).collect::<Vec<_>>(),
            "clock": self.clock,
        })
    }
}

impl FleetReading {
    /// The edges for the section `fleet` of `/status.json`: those that miss most purges first, then those that are away. More are
    /// left out.
    #[must_use]
    pub fn members(&self) -> Vec<Json> {
        let mut edges: Vec<&FleetEdgeReading> = self.edges.iter().collect();
        edges.sort_by_key(|edge| (Reverse(edge.purges_missing), edge.is_present, edge.name.as_str()));
        let member = |edge: &FleetEdgeReading| {
            json!({
                "name": edge.name,
                "self": edge.is_own,
                "up": edge.is_present,
                "seen_timestamp_seconds": edge.seen.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
                "purges_missing": edge.purges_missing,
            })
        };
        edges.into_iter().take(limits::FLEET_EDGES_SHOWN).map(member).collect()
    }
}

fn quantiles(distribution: &Distribution) -> Json {
    let at = |share| distribution.quantile(share);
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99)})
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
