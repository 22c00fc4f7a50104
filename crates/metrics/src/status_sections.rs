//! Sections of `/status.json` about parts beside the workers: cache, origins, bounds, and the process.

use serde_json::{Map, Value as Json, json};

use crate::cells::Distribution;
use crate::labels::Sacrifice;
use crate::lookup::{Which, look_up, sum_of, values_of};
use crate::metric::{Sources, timestamp};
use crate::readings::{DiskTierReading, OriginRequestsReading, OriginServerReading, Readings, TierCounters};
use crate::registry::Metrics;

impl Metrics {
    /// The sections of `/status.json` that show the readings.
    #[must_use]
    pub fn sections(&self, readings: &Readings) -> Map<String, Json> {
        let from = &Sources { metrics: self, readings };
        let optional = |name| values_of(from, name, Which::All).first().copied();
        let mut sections = Map::new();
        let mut add = |name: &str, section: Json| sections.insert(name.to_owned(), section);
        add(
            "cache",
            json!({
                "requests": counts(from, "penstock_cache_requests_total"),
                "origin_received_bytes": sum_of(from, "penstock_origin_received_bytes_total", Which::All),
                "memory": readings.memory_tier.as_ref().map(memory),
                "disks": readings.disk_tier.as_ref().map_or_else(Vec::new, disks),
                "purge_list": readings.purge_list,
            }),
        );
        add(
            "origins",
            json!({
                "requests": counts(from, "penstock_origin_requests_total"),
                "retries": sum_of(from, "penstock_origin_retries_total", Which::All),
                "servers": readings.origin_servers.iter().map(origin_server).collect::<Vec<_>>(),
                "sites": readings.origin_requests.iter().map(origin_requests).collect::<Vec<_>>(),
            }),
        );
        add(
            "http",
            json!({
                "requests": counts(from, "penstock_http_requests_total"),
                "connections": counts(from, "penstock_http_connections_total"),
            }),
        );
        add(
            "pressure",
            json!({
                "given_up": given_up(self),
                "handshake_rate_limit": self.given_up().handshake_rate(),
                "handshakes_queued": sum_of(from, "penstock_handshakes_queued_total", Which::All),
                "streams_refused": sum_of(from, "penstock_http2_streams_refused_total", Which::All),
                "window_stalls": sum_of(from, "penstock_http2_flow_control_stalls_total", Which::All),
                "chacha20_last_choice": optional("penstock_chacha20_last_choice"),
                "chacha20_switches": counts(from, "penstock_chacha20_switches_total"),
                "cache_refusals": optional("penstock_cache_refusals_total"),
                "disk_writes_skipped": optional("penstock_cache_disk_skipped_total"),
            }),
        );
        add(
            "process",
            json!({
                "resident_bytes": optional("process_resident_memory_bytes"),
                "open_descriptors": optional("process_open_fds"),
                "max_descriptors": optional("process_max_fds"),
                "cpu_seconds": optional("process_cpu_seconds_total"),
            }),
        );
        sections
    }
}

/// What the server does without, and since when.
fn given_up(metrics: &Metrics) -> Json {
    let since = |what: &Sacrifice| {
        let since = metrics.given_up().since(*what)?;
        Some(json!({"what": what.label(), "since_timestamp_seconds": timestamp(since)}))
    };
    Sacrifice::ALL.iter().filter_map(since).collect()
}

/// The samples of a metric with one label, by its value.
fn counts(from: &Sources<'_>, name: &str) -> Json {
    let (_, samples) = look_up(from, name);
    let named =
        samples.values.into_iter().filter_map(|(mut labels, value)| Some((labels.pop()?, value.json())));
    Json::Object(named.collect())
}

fn memory(tier: &TierCounters) -> Json {
    json!({
        "bytes": tier.bytes,
        "bytes_max": tier.bytes_max,
        "slices": tier.slices,
        "evictions": tier.evictions,
        "refusals": tier.refusals,
        "copied_bytes": tier.copied_bytes,
        "damaged": tier.damaged,
        "in_service": tier.in_service,
        "waiting": tier.waiting,
    })
}

fn disks(tier: &DiskTierReading) -> Vec<Json> {
    let disk = |disk: &crate::readings::DiskCounters| {
        json!({
            "directory": disk.directory.display().to_string(),
            "in_service": disk.in_service,
            "bytes": disk.bytes,
            "bytes_max": disk.bytes_max,
            "segments": disk.segments,
            "written_bytes": disk.written_bytes,
            "segments_dropped": disk.segments_dropped,
            "errors": disk.errors,
            "damaged": disk.damaged,
        })
    };
    tier.disks.iter().map(disk).collect()
}

fn origin_server(server: &OriginServerReading) -> Json {
    let mean = (server.answered > 0).then(|| server.time.as_secs_f64() / server.answered as f64);
    json!({
        "url": server.url,
        "up": server.up,
        "connections": server.connections,
        "waiting": server.waiting,
        "answered": server.answered,
        "failed": server.failed,
        "seconds": server.time.as_secs_f64(),
        "mean_seconds": mean,
        "fault": server.fault,
    })
}

/// What a site asked of one server of its origin.
fn origin_requests(of: &OriginRequestsReading) -> Json {
    let outcomes = of.outcomes.iter().map(|(outcome, count)| ((*outcome).to_owned(), json!(count)));
    let times = |times: &Distribution| json!({"count": times.count(), "seconds": times.sum()});
    json!({
        "site": of.site,
        "url": of.target,
        "requests": outcomes.collect::<Map<_, _>>(),
        "connect": times(&of.connect),
        "first_byte": times(&of.first_byte),
        "response": times(&of.whole),
    })
}
