//! A picture of a run: how many per second, and how long they took.

use std::fmt::Write;

use super::per_second;
use super::table::heading;
use crate::plan::Plan;
use crate::run::{Moment, Outcome};

const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 170.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const GAP: f64 = 50.0;

/// A curve with its colour.
type Curve<'a> = (&'a str, &'a str, Vec<f64>);

/// An SVG with three panels over time: operations, latencies, bits and errors.
pub fn svg(plan: &Plan, outcome: &Outcome) -> String {
    let moments = &outcome.moments;
    let of = |value: &dyn Fn(&Moment) -> f64| moments.iter().map(value).collect::<Vec<f64>>();
    let rate = of(&|moment| per_second(moment.operations, moment.length));
    let errors = of(&|moment| per_second(moment.errors, moment.length));
    let p50 = of(&|moment| moment.p50.as_secs_f64() * 1e3);
    let p99 = of(&|moment| moment.p99.as_secs_f64() * 1e3);
    let bits = of(&|moment| per_second(moment.bytes, moment.length) * 8.0 / 1e6);
    let panels: [(&str, Vec<Curve<'_>>); 3] = [
        ("per second", vec![("operations", "#1769aa", rate), ("errors", "#c62828", errors)]),
        ("latency, ms", vec![("p50", "#2e7d32", p50), ("p99", "#ef6c00", p99)]),
        ("Mbit/s", vec![("bodies", "#6a1b9a", bits)]),
    ];
    let height = TOP + 3.0 * (PANEL_HEIGHT + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(&heading(plan))
    );
    let last = moments.last().map_or(1.0, |moment| moment.at.as_secs_f64().max(1e-3));
    let times = of(&|moment| moment.at.as_secs_f64() / last);
    for (place, (title, curves)) in panels.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "one of three")]
        let top = TOP + place as f64 * (PANEL_HEIGHT + GAP);
        panel(&mut svg, title, curves, &times, top);
        let (x, y) = (WIDTH - RIGHT, top + PANEL_HEIGHT + 16.0);
        _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{last:.0} s</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, title: &str, curves: &[Curve<'_>], times: &[f64], top: f64) {
    let highest = curves.iter().flat_map(|(_, _, values)| values).copied().fold(0.0, f64::max);
    let scale = nice(highest);
    let bottom = top + PANEL_HEIGHT;
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let y = bottom - share * PANEL_HEIGHT;
        let right = WIDTH - RIGHT;
        _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\" fill=\"none\"/>");
        let value = scale * share;
        let (x, y) = (LEFT - 6.0, y + 4.0);
        _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", shown(value));
    }
    let mut x = LEFT;
    _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        top - 8.0,
        escaped(title)
    );
    for (name, colour, values) in curves {
        x += 110.0;
        _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            top - 8.0,
            escaped(name)
        );
        let points: Vec<String> = times
            .iter()
            .zip(values)
            .map(|(time, value)| {
                let x = LEFT + time * (WIDTH - LEFT - RIGHT);
                format!("{x:.1},{:.1}", bottom - value / scale * PANEL_HEIGHT)
            })
            .collect();
        let points = points.join(" ");
        _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
    }
}

/// The next of 1, 2, 5 and their tens, so that the axis has numbers to read.
fn nice(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(highest.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= highest)
        .unwrap_or(highest)
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (highest, wanted) in [(0.0, 1.0), (3.2, 5.0), (10.0, 10.0), (11.0, 20.0), (0.4, 0.5)] {
            assert!((nice(highest) - wanted).abs() < 1e-9, "{highest}");
        }
    }
}
