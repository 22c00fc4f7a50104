//! The report as JSON. Keys are only added.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::format::{mode_name, per_second};
use crate::latencies::Latencies;
use crate::plan::{LoadMode, Plan};
use crate::run::RunResult;
use crate::tally::Tally;

const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
];

/// The whole report.
pub fn document(plan: &Plan, outcome: &RunResult) -> Value {
    let tally = &outcome.tally;
    let elapsed = outcome.elapsed;
    let mut document = json!({
        "mode": mode_name(&plan.mode),
        "target": plan.target.to_string(),
        "protocol": plan.protocol.name(),
        "streams": plan.protocol.streams(),
        "connections": plan.connections,
        "threads": plan.threads,
        "rate": plan.rate,
        "ending": plan.ending.name(),
        "seconds": elapsed.as_secs_f64(),
        "handshakes_per_second": per_second(tally.handshakes, elapsed),
        "requests_per_second": per_second(tally.requests, elapsed),
        "bytes_per_second": per_second(tally.bytes, elapsed),
        "connections_opened": tally.connections,
        "handshakes": tally.handshakes,
        "resumed": tally.resumed,
        "sessions_offered": tally.offered,
        "early_data_sent": tally.early_data_sent,
        "early_data_accepted": tally.early_data_accepted,
        "requests": tally.requests,
        "bytes": tally.bytes,
        "retried": tally.retried,
        "retried_resets": tally.retried_resets,
        "unfinished": outcome.unfinished,
        "errors_total": tally.errors_total(),
        "errors": errors(tally),
        "error_details": error_details(tally),
        "statuses": tally.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect::<Map<_, _>>(),
        "agreed": tally.agreed,
        "latency_ms": {
            "tcp": latencies(&tally.tcp),
            "tls": latencies(&tally.tls),
            "first_byte": latencies(&tally.first_byte),
            "total": latencies(&tally.total),
        },
        "addresses": addresses(tally),
        "generator": {
            "cpu_seconds": outcome.cpu.as_secs_f64(),
            "starts": tally.punctuality.starts,
            "late_starts": tally.punctuality.late,
            "worst_lateness_ms": milliseconds(tally.punctuality.worst),
            "queued_starts": tally.punctuality.queued,
        },
        "void": outcome.void,
    });
    if let LoadMode::Playback(_) = plan.mode {
        document["playback"] = playback(tally);
    }
    document
}

fn errors(tally: &Tally) -> Map<String, Value> {
    tally.errors.iter().map(|(failure, count)| (failure.name().into_owned(), json!(count))).collect()
}

fn error_details(tally: &Tally) -> Map<String, Value> {
    tally.details.iter().map(|(failure, detail)| (failure.name().into_owned(), json!(detail))).collect()
}

fn addresses(tally: &Tally) -> Map<String, Value> {
    let of = |at: &crate::tally::PerAddress| json!({"handshakes": at.handshakes, "resumed": at.resumed, "sessions_offered": at.offered, "errors": at.errors});
    tally.addresses.iter().map(|(address, at)| (address.to_string(), of(at))).collect()
}

fn playback(tally: &Tally) -> Value {
    let playback = &tally.playback;
    json!({
        "players": playback.players,
        "players_started": playback.started,
        "players_stalled": playback.players_stalled,
        "startup_ms": latencies(&playback.startup),
        "stalls": playback.stalls,
        "stalled_seconds": playback.stalled.as_secs_f64(),
        "played_seconds": playback.played.as_secs_f64(),
        "stall_ratio": playback.stall_ratio(),
        "segments": playback.segments,
        "parts": playback.parts,
        "delta_playlists": playback.delta_playlists,
        "segments_skipped": playback.skipped,
        "quality_switches": playback.switches,
        "pathway_changes": playback.pathway_changes,
        "live_distance_ms": latencies(&playback.live_distance),
    })
}

fn latencies(latencies: &Latencies) -> Value {
    let mut of = Map::new();
    of.insert("count".to_owned(), json!(latencies.count()));
    of.insert("mean".to_owned(), json!(milliseconds(latencies.mean())));
    of.insert("min".to_owned(), json!(milliseconds(latencies.min())));
    for (name, percent) in PERCENTILES {
        of.insert(name.to_owned(), json!(milliseconds(latencies.percentile(percent))));
    }
    of.insert("max".to_owned(), json!(milliseconds(latencies.max())));
    Value::Object(of)
}

/// Milliseconds to the tenth of a microsecond; more digits are noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 1e4
}
