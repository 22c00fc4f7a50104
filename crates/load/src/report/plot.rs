//! The plot of a run: rates, throughput, players and latencies per second, and the distribution of latencies.

mod axis;

use std::fmt::Write;
use std::time::Duration;

use axis::Axis;

use super::format::{bits, grouped, milliseconds, per_second, rounded};
use super::table::heading;
use crate::latencies::Latencies;
use crate::plan::{LoadMode, Plan};
use crate::run::{Interval, RunResult};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const HEADER: f64 = 96.0;
const PANEL_HEIGHT: f64 = 150.0;
/// The space for the title above and the numbers below a panel.
const GAP: f64 = 66.0;

const BLUE: &str = "#1f6feb";
const RED: &str = "#d1242f";
const GREEN: &str = "#1a7f37";
const ORANGE: &str = "#d9730d";
const PURPLE: &str = "#8250df";
const GREY: &str = "#57606a";

/// A curve. Its corners are relative to the panel, from 0 to 1; gaps separate its parts.
struct Curve {
    name: &'static str,
    colour: &'static str,
    corners: Vec<Vec<(f64, f64)>>,
    is_filled: bool,
}

/// A diagram: two axes and the curves over them.
struct Panel {
    title: &'static str,
    across: Axis,
    up: Axis,
    curves: Vec<Curve>,
}

/// Draws a run as SVG.
pub fn svg(plan: &Plan, outcome: &RunResult) -> String {
    let panels = panels(plan, outcome);
    #[expect(clippy::cast_precision_loss, reason = "a few panels")]
    let height = HEADER + panels.len() as f64 * (PANEL_HEIGHT + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"{GREY}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    header(&mut svg, plan, outcome);
    let mut top = HEADER + 24.0;
    for panel in &panels {
        draw(&mut svg, panel, top);
        top += PANEL_HEIGHT + GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

/// The panels of a run: players have stalls, live players also a distance from the edge.
fn panels(plan: &Plan, outcome: &RunResult) -> Vec<Panel> {
    let mut panels = vec![rates(outcome), throughput(outcome)];
    if let LoadMode::Playback(_) = plan.mode {
        panels.push(stalls(outcome));
        if outcome.intervals.iter().any(|moment| !moment.live_distance.is_zero()) {
            panels.push(live_distance(outcome));
        }
    }
    panels.extend([latencies(outcome), distribution(outcome)]);
    panels
}

#[expect(clippy::cast_precision_loss, reason = "numbers of viewers")]
fn stalls(outcome: &RunResult) -> Panel {
    let begun = |moment: &Interval| moment.stalls as f64;
    let stalled = |moment: &Interval| moment.stalled as f64;
    let up = Axis::linear(highest(outcome, &[&begun, &stalled]), axis::number);
    let mut curves = vec![
        steps("viewers stalled", RED, outcome, &up, &stalled),
        steps("stalls begun", ORANGE, outcome, &up, &begun),
    ];
    curves[0].is_filled = true;
    Panel { title: "Stalls in each second", across: time(outcome), up, curves }
}

fn live_distance(outcome: &RunResult) -> Panel {
    let distance = |moment: &Interval| moment.live_distance.as_secs_f64();
    let up = Axis::linear(highest(outcome, &[&distance]), axis::duration);
    let curves = vec![steps("median", BLUE, outcome, &up, &distance)];
    Panel { title: "Distance from the live edge", across: time(outcome), up, curves }
}

fn header(svg: &mut String, plan: &Plan, outcome: &RunResult) {
    let (tally, elapsed) = (&outcome.tally, outcome.elapsed);
    let heading = heading(plan);
    let (title, how) = heading.split_once(": ").unwrap_or((&heading, ""));
    let each = |count, noun| format!("{} {noun}/s", grouped(rounded(per_second(count, elapsed))));
    let mut summary = Vec::new();
    if plan.target.tls {
        summary.push(each(tally.handshakes, "handshakes"));
    }
    if tally.requests > 0 {
        summary.push(each(tally.requests, "requests"));
        summary.push(bits(tally.bytes, elapsed));
    }
    summary.push(format!("{} errors", grouped(tally.errors_total())));
    for percent in [50.0, 99.0] {
        summary.push(format!("p{percent} {}", milliseconds(tally.total.percentile(percent))));
    }
    let (summary, colour) = match &outcome.void {
        Some(fault) => (format!("VOID: {fault}"), RED),
        None => (summary.join("  ·  "), "#1f2328"),
    };
    for (y, style, line) in [
        (32.0, "font-size=\"19\" font-weight=\"600\" fill=\"#1f2328\"", title),
        (54.0, "font-size=\"13\"", how),
        (78.0, &format!("font-size=\"13\" font-weight=\"600\" fill=\"{colour}\""), &summary),
    ] {
        // A long URL is condensed to the width of the plot.
        #[expect(clippy::cast_precision_loss, reason = "the length of a line")]
        let is_long = line.chars().count() as f64 * 9.0 > WIDTH - 2.0 * RIGHT;
        let fit = if is_long {
            format!(" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", WIDTH - 2.0 * RIGHT)
        } else {
            String::new()
        };
        _ = writeln!(svg, "<text x=\"{RIGHT}\" y=\"{y}\" {style}{fit}>{}</text>", escaped(line));
    }
}

fn rates(outcome: &RunResult) -> Panel {
    let rate = |moment: &Interval| per_second(moment.operations, moment.length);
    let errors = |moment: &Interval| per_second(moment.errors, moment.length);
    let up = Axis::linear(highest(outcome, &[&rate, &errors]), axis::number);
    let mut curves = vec![steps("operations", BLUE, outcome, &up, &rate)];
    curves[0].is_filled = true;
    if outcome.intervals.iter().any(|moment| moment.errors > 0) {
        curves.push(steps("errors", RED, outcome, &up, &errors));
    }
    Panel { title: "Per second", across: time(outcome), up, curves }
}

fn throughput(outcome: &RunResult) -> Panel {
    let rate = |moment: &Interval| per_second(moment.bytes, moment.length) * 8.0;
    let up = Axis::linear(highest(outcome, &[&rate]), axis::bits);
    let mut curve = steps("bodies", PURPLE, outcome, &up, &rate);
    curve.is_filled = true;
    Panel { title: "Throughput", across: time(outcome), up, curves: vec![curve] }
}

fn latencies(outcome: &RunResult) -> Panel {
    let p50 = |moment: &Interval| moment.p50.as_secs_f64();
    let p99 = |moment: &Interval| moment.p99.as_secs_f64();
    let all = outcome.intervals.iter().flat_map(|moment| [p50(moment), p99(moment)]);
    let up = Axis::decades(all, axis::duration);
    let curves = vec![steps("p50", GREEN, outcome, &up, &p50), steps("p99", ORANGE, outcome, &up, &p99)];
    Panel { title: "Latency in each second", across: time(outcome), up, curves }
}

/// The points of a curve of percentiles.
const POINTS: u32 = 200;

fn distribution(outcome: &RunResult) -> Panel {
    let tally = &outcome.tally;
    let phases = [
        ("tcp", GREY, &tally.tcp),
        ("tls", PURPLE, &tally.tls),
        ("first byte", GREEN, &tally.first_byte),
        ("total", BLUE, &tally.total),
    ];
    let phases = phases.into_iter().filter(|(_, _, one)| one.count() > 0).collect::<Vec<_>>();
    let count = phases.iter().map(|(_, _, one)| one.count()).max().unwrap_or(0);
    let across = Axis::percentiles(count);
    let ends = |one: &Latencies| [one.min(), one.max()].map(|one| one.as_secs_f64());
    let up = Axis::decades(phases.iter().flat_map(|(_, _, one)| ends(one)), axis::duration);
    let curve = |(name, colour, one): &(&'static str, &'static str, &Latencies)| {
        let corner = |point: u32| {
            let x = f64::from(point) / f64::from(POINTS);
            let value = one.percentile(axis::percent_at(x, count)).as_secs_f64();
            (x, up.place(value))
        };
        Curve { name, colour, corners: vec![(0..=POINTS).map(corner).collect()], is_filled: false }
    };
    let curves = phases.iter().map(curve).collect();
    Panel { title: "Latency by percentile, of the whole run", across, up, curves }
}

/// The axis of time, to the end of the last interval.
fn time(outcome: &RunResult) -> Axis {
    Axis::time(length(outcome))
}

fn length(outcome: &RunResult) -> Duration {
    outcome.intervals.last().map_or(Duration::from_secs(1), |moment| moment.at.max(Duration::from_millis(1)))
}

fn highest(outcome: &RunResult, values: &[&dyn Fn(&Interval) -> f64]) -> f64 {
    let each = outcome.intervals.iter().flat_map(|moment| values.iter().map(|value| value(moment)));
    each.fold(0.0, f64::max)
}

/// A step per interval. On a logarithmic axis the curve has a gap where the value is 0.
fn steps(
    name: &'static str,
    colour: &'static str,
    outcome: &RunResult,
    up: &Axis,
    value: &dyn Fn(&Interval) -> f64,
) -> Curve {
    let whole = length(outcome).as_secs_f64();
    let mut corners = vec![Vec::new()];
    for moment in &outcome.intervals {
        let value = value(moment);
        if up.is_logarithmic() && value <= 0.0 {
            corners.push(Vec::new());
            continue;
        }
        let begin = moment.at.saturating_sub(moment.length).as_secs_f64() / whole;
        if let Some(part) = corners.last_mut() {
            part.extend([(begin, up.place(value)), (moment.at.as_secs_f64() / whole, up.place(value))]);
        }
    }
    Curve { name, colour, corners, is_filled: false }
}

fn draw(svg: &mut String, panel: &Panel, top: f64) {
    let (bottom, right) = (top + PANEL_HEIGHT, WIDTH - RIGHT);
    let (x, y) = (
        |place: f64| LEFT + place * (right - LEFT),
        |place: f64| bottom - place.clamp(0.0, 1.0) * PANEL_HEIGHT,
    );
    _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-size=\"13\" font-weight=\"600\" fill=\"#1f2328\">{}</text>",
        top - 12.0,
        panel.title
    );
    for (place, label) in panel.up.ticks() {
        let at = y(*place);
        _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#d8dee4\"/>");
        _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for (place, label) in panel.across.ticks() {
        let at = x(*place);
        _ = writeln!(svg, "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#afb8c1\"/>");
        _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 19.0
        );
    }
    let mut legend = right;
    for curve in panel.curves.iter().rev() {
        for corners in curve.corners.iter().filter(|corners| !corners.is_empty()) {
            let points: Vec<String> =
                corners.iter().map(|(across, up)| format!("{:.1} {:.1}", x(*across), y(*up))).collect();
            let (points, colour) = (points.join("L"), curve.colour);
            if curve.is_filled {
                let (first, last) = (x(corners[0].0), x(corners[corners.len() - 1].0));
                _ = writeln!(
                    svg,
                    "<path d=\"M{first:.1} {bottom}L{points}L{last:.1} {bottom}Z\" fill=\"{colour}\" fill-opacity=\".12\"/>"
                );
            }
            _ = writeln!(
                svg,
                "<path d=\"M{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.75\" stroke-linejoin=\"round\"/>"
            );
        }
        let at = top - 12.0;
        _ = writeln!(
            svg,
            "<text x=\"{legend:.1}\" y=\"{at:.1}\" text-anchor=\"end\" fill=\"{}\" font-weight=\"600\">{}</text>",
            curve.colour, curve.name
        );
        #[expect(clippy::cast_precision_loss, reason = "the length of a word")]
        let width = curve.name.len() as f64 * 7.5;
        legend -= width + 16.0;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn moment(at: u64, operations: u64) -> Interval {
        Interval {
            at: Duration::from_secs(at),
            length: Duration::from_secs(1),
            operations,
            errors: 0,
            bytes: operations * 1000,
            cpu: Duration::ZERO,
            p50: Duration::from_millis(operations),
            p99: Duration::from_millis(operations * 2),
            stalls: operations,
            stalled: operations / 2,
            live_distance: Duration::from_secs(operations),
        }
    }

    fn outcome(intervals: Vec<Interval>) -> RunResult {
        let elapsed = intervals.last().map_or(Duration::ZERO, |moment| moment.at);
        let (cpu, unfinished, void) = (Duration::ZERO, 0, None);
        RunResult { tally: Tally::default(), elapsed, cpu, intervals, unfinished, void }
    }

    fn all(outcome: &RunResult) -> [Panel; 6] {
        [
            rates(outcome),
            throughput(outcome),
            stalls(outcome),
            live_distance(outcome),
            latencies(outcome),
            distribution(outcome),
        ]
    }

    #[test]
    fn stalls_and_the_live_distance_are_drawn_for_each_second() {
        let outcome = outcome(vec![moment(1, 0), moment(2, 4), moment(3, 2)]);
        let heights = |curve: &Curve| curve.corners.iter().flatten().map(|(_, up)| *up).collect::<Vec<_>>();
        let stalls = stalls(&outcome);
        assert_eq!(heights(&stalls.curves[0]), [0.0, 0.0, 0.5, 0.5, 0.25, 0.25]);
        assert_eq!(heights(&stalls.curves[1]), [0.0, 0.0, 1.0, 1.0, 0.5, 0.5]);
        assert_eq!(heights(&live_distance(&outcome).curves[0]), [0.0, 0.0, 1.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn a_second_without_an_answer_breaks_the_curve_of_latencies_and_is_zero_in_that_of_rates() {
        let outcome = outcome(vec![moment(1, 5), moment(2, 0), moment(3, 10)]);
        let whole = |corners: &[Vec<(f64, f64)>]| corners.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(whole(&latencies(&outcome).curves[0].corners), [2, 2]);
        let rates = rates(&outcome);
        assert_eq!(whole(&rates.curves[0].corners), [6]);
        assert_eq!(rates.curves[0].corners[0][2..4], [(1.0 / 3.0, 0.0), (2.0 / 3.0, 0.0)]);
        assert_eq!(rates.curves.len(), 1, "no curve tells of errors that were not");
    }

    #[test]
    fn every_curve_stays_inside_its_panel() {
        let outcome = outcome(vec![moment(1, 1), moment(2, 1_000_000)]);
        for panel in all(&outcome) {
            for (across, up) in panel.curves.iter().flat_map(|curve| curve.corners.iter().flatten()) {
                assert!((0.0..=1.0).contains(across) && (0.0..=1.0).contains(up), "{}", panel.title);
            }
        }
    }

    #[test]
    fn a_run_in_which_nothing_happened_can_be_drawn() {
        for intervals in [Vec::new(), vec![moment(1, 0)]] {
            let outcome = outcome(intervals);
            for panel in all(&outcome) {
                let mut svg = String::new();
                draw(&mut svg, &panel, 0.0);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn markup_in_a_url_is_escaped() {
        assert_eq!(escaped("/?a=<b>&c"), "/?a=&lt;b&gt;&amp;c");
    }
}
