//! The report for people.

use std::fmt::Write;
use std::time::Duration;

use super::{mode_name, per_second};
use crate::plan::{Mode, Plan};
use crate::run::{Moment, Outcome};
use crate::tally::{Latencies, Tally};

const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Said before the run begins, so that nobody loads the wrong server unawares.
pub fn heading(plan: &Plan) -> String {
    let addresses: Vec<String> = plan.addresses.iter().map(ToString::to_string).collect();
    let noun = if let Mode::Playback(_) = plan.mode { "viewer" } else { "connection" };
    let mut line = format!("{} from {}", mode_name(&plan.mode), plan.target);
    if addresses.len() > 1 || addresses.first().is_some_and(|address| *address != plan.target.authority()) {
        _ = write!(line, " at {}", addresses.join(", "));
    }
    _ = write!(line, ": {}", count(plan.connections as u64, noun));
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

/// The line of live progress.
pub fn line(moment: &Moment, tally: &Tally) -> String {
    let length = moment.length.as_secs_f64();
    format!(
        "{:>5}  {:>9}/s  {}  errors {}  p50 {}  p99 {}  CPU {:.0} %",
        seconds(Duration::from_secs(moment.at.as_secs())),
        grouped(rounded(per_second(moment.operations, moment.length))),
        bits(moment.bytes, moment.length),
        grouped(tally.errors_total()),
        milliseconds(moment.p50),
        milliseconds(moment.p99),
        moment.cpu.as_secs_f64() / length * 100.0,
    )
}

/// The table at the end.
pub fn render(plan: &Plan, outcome: &Outcome) -> String {
    let tally = &outcome.tally;
    let mut text = String::new();
    rates(&mut text, plan, outcome);
    text.push('\n');
    latencies(&mut text, tally);
    if let Mode::Playback(_) = plan.mode {
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

fn rates(text: &mut String, plan: &Plan, outcome: &Outcome) {
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
                ", early data taken {} of {}",
                grouped(tally.early_data_accepted),
                grouped(tally.early_data_sent)
            );
        }
        row("handshakes", tally.handshakes, note);
    } else {
        row("connections", tally.connections, String::new());
    }
    if tally.requests > 0 || plan.mode != (Mode::Handshakes { request: false }) {
        let retried = if tally.retried > 0 {
            format!("{} sent again on a new connection", grouped(tally.retried))
        } else {
            String::new()
        };
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
    _ = writeln!(text, "in {}, the generator took {share:.0} % of a core", seconds(elapsed));
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
    _ = writeln!(
        text,
        "\nplayers\n  {} came, {} saw a picture, {} were stalled: {stalls}, {} of {} ({:.2} %)\n  {} fetched, {} \
         skipped, {}",
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

/// Each kind with what it means, and what was said of the first of it.
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

fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn milliseconds(duration: Duration) -> String {
    let value = duration.as_secs_f64() * 1e3;
    let digits = if value < 10.0 {
        3
    } else if value < 1000.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} ms")
}

fn seconds(duration: Duration) -> String {
    let value = duration.as_secs_f64();
    if duration > Duration::ZERO && value < 0.95 {
        return format!("{:.0} ms", (value * 1e3).ceil());
    }
    if value.fract() < 0.05 { format!("{value:.0} s") } else { format!("{value:.1} s") }
}

#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
pub(super) fn bits(bytes: u64, elapsed: Duration) -> String {
    let bits = bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9);
    let (value, unit) = match bits {
        1e9.. => (bits / 1e9, "Gbit/s"),
        1e6.. => (bits / 1e6, "Mbit/s"),
        _ => (bits / 1e3, "kbit/s"),
    };
    format!("{value:.2} {unit}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative")]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_so_that_they_can_be_read() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(milliseconds(Duration::from_micros(1234)), "1.234 ms");
        assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(seconds(Duration::from_secs(3)), "3 s");
        assert_eq!(seconds(Duration::from_millis(3_210)), "3.2 s");
        assert_eq!(seconds(Duration::from_micros(52_300)), "53 ms");
        assert_eq!(seconds(Duration::ZERO), "0 s");
        assert_eq!(bits(1_250_000_000, Duration::from_secs(1)), "10.00 Gbit/s");
    }
}
