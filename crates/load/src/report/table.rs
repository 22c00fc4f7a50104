//! The table, the heading and the progress line.

use std::fmt::Write;
use std::time::Duration;

use super::format::{bits, count, grouped, milliseconds, mode_name, per_second, rounded, seconds};
use crate::latencies::Latencies;
use crate::plan::{ConnectionEnding, HttpProtocol, LoadMode, Plan};
use crate::run::{Interval, RunResult};
use crate::tally::Tally;

const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// The heading before the run: target, addresses and extent.
pub fn heading(plan: &Plan) -> String {
    let addresses: Vec<String> = plan.addresses.iter().map(ToString::to_string).collect();
    let noun = if let LoadMode::Playback(_) = plan.mode { "viewer" } else { "connection" };
    let mut line = format!("{} from {}", mode_name(&plan.mode), plan.target);
    if addresses.len() > 1 || addresses.first().is_some_and(|address| *address != plan.target.authority()) {
        _ = write!(line, " at {}", addresses.join(", "));
    }
    _ = write!(line, ": {}", count(plan.connections as u64, noun));
    if plan.protocol != HttpProtocol::Http1 {
        _ = write!(line, " over {}", protocol(plan));
    }
    if plan.threads > 1 {
        _ = write!(line, " on {} threads", plan.threads);
    }
    if let Some(rate) = plan.rate {
        _ = write!(line, ", {rate} per second whatever the server does");
    }
    if let Some(operations) = plan.operations {
        _ = write!(line, ", {} in all", grouped(operations));
    }
    if let Some(duration) = plan.duration {
        _ = write!(line, ", for {}", seconds(duration));
    }
    line
}

/// The protocol, and the number of streams if there are several.
fn protocol(plan: &Plan) -> String {
    let name = match plan.protocol {
        HttpProtocol::Http1 => "HTTP/1.1",
        HttpProtocol::Http2 { .. } => "HTTP/2",
        HttpProtocol::Http3 { .. } => "HTTP/3",
    };
    match plan.protocol.streams() {
        1 => name.to_owned(),
        streams => format!("{name} with {streams} streams each"),
    }
}

/// The progress line.
pub fn line(mode: &LoadMode, moment: &Interval, tally: &Tally) -> String {
    let length = moment.length.as_secs_f64();
    let players = match mode {
        LoadMode::Playback(_) => viewers(moment, tally),
        _ => String::new(),
    };
    format!(
        "{:>5}  {:>9}/s  {}{players}  errors {}  p50 {}  p99 {}  CPU {:.0} %",
        seconds(Duration::from_secs(moment.at.as_secs())),
        grouped(rounded(per_second(moment.operations, moment.length))),
        bits(moment.bytes, moment.length),
        grouped(tally.errors_total()),
        milliseconds(moment.p50),
        milliseconds(moment.p99),
        moment.cpu.as_secs_f64() / length * 100.0,
    )
}

/// Viewers, stalls and the live distance in the progress line.
fn viewers(moment: &Interval, tally: &Tally) -> String {
    let mut text = format!(
        "  viewers {}  stalls {} ({} now)",
        grouped(tally.in_flight),
        grouped(tally.playback.stalls),
        grouped(moment.stalled)
    );
    if moment.live_distance > Duration::ZERO {
        _ = write!(text, "  live -{}", seconds(moment.live_distance));
    }
    text
}

/// The table at the end.
pub fn render(plan: &Plan, outcome: &RunResult) -> String {
    let tally = &outcome.tally;
    let mut text = String::new();
    rates(&mut text, plan, outcome);
    text.push('\n');
    latencies(&mut text, tally);
    if let LoadMode::Playback(_) = plan.mode {
        playback(&mut text, tally);
    }
    breakdown(&mut text, "agreed on", tally.agreed.iter().map(|(name, count)| (name.clone(), *count)));
    if tally.addresses.len() > 1 {
        text.push_str("\nby address\n");
        for (address, at) in &tally.addresses {
            _ = writeln!(
                text,
                "  {:>12}  {address}: resumed {} of {} offered, {}",
                grouped(at.handshakes),
                grouped(at.resumed),
                grouped(at.offered),
                count(at.errors, "error")
            );
        }
    }
    let statuses = tally.statuses.iter().map(|(status, count)| (status.to_string(), *count));
    breakdown(&mut text, "responses", statuses);
    errors(&mut text, tally);
    if let Some(fault) = &outcome.void {
        _ = write!(text, "\nVOID: {fault}\n");
    }
    text
}

fn rates(text: &mut String, plan: &Plan, outcome: &RunResult) {
    let tally = &outcome.tally;
    let elapsed = outcome.elapsed;
    let mut row = |name: &str, total: u64, note: String| {
        let rate = per_second(total, elapsed);
        let rate = if rate < 100.0 { format!("{rate:.1}") } else { grouped(rounded(rate)) };
        _ = writeln!(text, "{name:<12}{:>14}{rate:>12}/s  {note}", grouped(total));
    };
    if plan.target.tls {
        let mut note = String::new();
        if tally.offered > 0 || tally.resumed > 0 {
            note = format!("{} resumed of {} offered", grouped(tally.resumed), grouped(tally.offered));
        }
        if tally.early_data_sent > 0 {
            _ = write!(
                note,
                ", early data accepted {} of {}",
                grouped(tally.early_data_accepted),
                grouped(tally.early_data_sent)
            );
        }
        row("handshakes", tally.handshakes, note);
    } else {
        row("connections", tally.connections, String::new());
    }
    if tally.requests > 0 || plan.mode != (LoadMode::Handshakes { request: false }) {
        let mut retried = String::new();
        if tally.retried > 0 {
            _ = write!(retried, "{} sent again on a new connection", grouped(tally.retried));
        }
        if tally.retried_resets > 0 {
            _ = write!(retried, ", {} of them after a reset", grouped(tally.retried_resets));
        }
        row("requests", tally.requests, retried);
        row("bytes", tally.bytes, bits(tally.bytes, elapsed));
    }
    row("errors", tally.errors_total(), String::new());
    if outcome.unfinished > 0 {
        row("unfinished", outcome.unfinished, "cut off by the end of the run".to_owned());
    }
    if tally.punctuality.queued > 0 {
        row("queued", tally.punctuality.queued, "starts that found every connection busy".to_owned());
    }
    let share = outcome.cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) * 100.0;
    _ = writeln!(
        text,
        "in {} over {}, the generator took {share:.0} % of a core; connections end by {}",
        seconds(elapsed),
        protocol(plan),
        ending(plan)
    );
}

fn ending(plan: &Plan) -> &'static str {
    let is_http2 = plan.protocol != HttpProtocol::Http1;
    if let HttpProtocol::Http3 { .. } = plan.protocol {
        return match plan.ending {
            ConnectionEnding::CloseNotify => "CONNECTION_CLOSE",
            ConnectionEnding::Reset => "nothing",
        };
    }
    match (plan.ending, is_http2, plan.target.tls) {
        (ConnectionEnding::CloseNotify, true, true) => "GOAWAY, close_notify and FIN",
        (ConnectionEnding::CloseNotify, true, false) => "GOAWAY and FIN",
        (ConnectionEnding::CloseNotify, false, true) => "close_notify and FIN",
        (ConnectionEnding::CloseNotify, false, false) => "FIN",
        (ConnectionEnding::Reset, _, _) => "RST",
    }
}

fn latencies(text: &mut String, tally: &Tally) {
    let rows = [
        ("tcp", &tally.tcp),
        ("tls", &tally.tls),
        ("first byte", &tally.first_byte),
        ("total", &tally.total),
    ];
    let header: String = PERCENTILES.iter().map(|(name, _)| format!("{name:>11}")).collect();
    _ = writeln!(text, "{:<12}{:>11}{:>11}{header}{:>11}", "latency", "mean", "min", "max");
    for (name, one) in rows.into_iter().filter(|(_, one)| one.count() > 0) {
        _ = writeln!(text, "{name:<12}{}", latency_row(one));
    }
}

fn playback(text: &mut String, tally: &Tally) {
    let playback = &tally.playback;
    for (name, one) in [("startup", &playback.startup), ("live edge", &playback.live_distance)] {
        if one.count() > 0 {
            _ = writeln!(text, "{name:<12}{}", latency_row(one));
        }
    }
    let stalls = count(playback.stalls, "stall");
    let mut fetched = count(playback.segments, "segment");
    if playback.parts > 0 {
        fetched = format!("{fetched} and {}", count(playback.parts, "part"));
    }
    if playback.delta_playlists > 0 {
        fetched = format!("{fetched} and {}", count(playback.delta_playlists, "delta playlist"));
    }
    let pathways = match playback.pathway_changes {
        0 => String::new(),
        changes => format!(", {} of pathway", count(changes, "change")),
    };
    _ = writeln!(
        text,
        "\nplayers\n  {} arrived, {} saw a picture, {} were stalled: {stalls}, {} of {} ({:.2} %)\n  {} fetched, {} \
         skipped, {}{pathways}",
        grouped(playback.players),
        grouped(playback.started),
        grouped(playback.players_stalled),
        seconds(playback.stalled),
        seconds(playback.stalled + playback.played),
        playback.stall_ratio() * 100.0,
        fetched,
        grouped(playback.skipped),
        count(playback.switches, "change") + " of quality",
    );
}

fn latency_row(one: &Latencies) -> String {
    let middle = PERCENTILES.iter().map(|(_, percent)| one.percentile(*percent));
    let all = [one.mean(), one.min()].into_iter().chain(middle).chain([one.max()]);
    all.map(|value| format!("{:>11}", milliseconds(value))).collect()
}

fn breakdown(text: &mut String, title: &str, rows: impl Iterator<Item = (String, u64)>) {
    let mut rows: Vec<(String, u64)> = rows.collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if rows.is_empty() {
        return;
    }
    _ = writeln!(text, "\n{title}");
    for (name, count) in rows {
        _ = writeln!(text, "  {:>12}  {name}", grouped(count));
    }
}

/// The kinds of failures, each with its meaning and the first case.
fn errors(text: &mut String, tally: &Tally) {
    let mut kinds: Vec<_> = tally.errors.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    if !kinds.is_empty() {
        text.push_str("\nerrors\n");
    }
    for (failure, count) in kinds {
        _ = writeln!(text, "  {:>12}  {}: {}", grouped(*count), failure.name(), failure.meaning());
        if let Some(detail) = tally.details.get(failure) {
            _ = writeln!(text, "{:>16}first at {detail}", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::player::config::PlayerConfig;

    #[test]
    fn the_progress_line_of_players_shows_stalls_and_the_live_distance() {
        let second = Duration::from_secs(1);
        let mut moment = Interval {
            at: 3 * second,
            length: second,
            operations: 20,
            errors: 0,
            bytes: 125_000,
            cpu: Duration::ZERO,
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(2),
            stalls: 1,
            stalled: 2,
            live_distance: Duration::from_millis(3200),
        };
        let mut tally = Tally { in_flight: 50, ..Tally::default() };
        tally.playback.stalls = 7;
        let playback = LoadMode::Playback(PlayerConfig::default());
        let live = line(&playback, &moment, &tally);
        assert!(live.contains("viewers 50  stalls 7 (2 now)  live -3.2 s  errors 0"), "{live}");
        moment.live_distance = Duration::ZERO;
        let film = line(&playback, &moment, &tally);
        assert!(film.contains("stalls 7 (2 now)  errors 0"), "{film}");
        assert!(!line(&LoadMode::Requests, &moment, &tally).contains("stalls"));
    }
}
