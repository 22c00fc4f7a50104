//! Axes: the position of a value, and the labels.

use std::time::Duration;

use crate::report::format::{grouped, rounded};

/// An axis. Positions are from 0 to 1.
pub(super) struct Axis {
    scale: Scale,
    ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy)]
enum Scale {
    /// From 0 to this.
    Linear(f64),
    /// From one power of ten to another.
    Decades(f64, f64),
    /// Values are positions.
    Fixed,
}

impl Axis {
    /// From 0 to a round number above the highest value.
    pub(super) fn linear(highest: f64, label: impl Fn(f64) -> String) -> Self {
        let end = nice(highest);
        let ticks =
            (0..=4).map(|part| f64::from(part) / 4.0).map(|place| (place, label(place * end))).collect();
        Self { scale: Scale::Linear(end), ticks }
    }

    /// From the power of ten below the lowest value to the one above the highest. Values of 0 do not count.
    pub(super) fn decades(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high <= 0.0 {
            (low, high) = (1e-3, 1e-3);
        }
        let low = low.log10().floor();
        let high = high.log10().ceil().max(low + 1.0);
        let span = high - low;
        let mut ticks = Vec::new();
        let mut power = low;
        while power <= high {
            ticks.push(((power - low) / span, label(10_f64.powf(power))));
            // A short axis also has labels between two powers.
            if span < 2.0 && power < high {
                for step in [2.0_f64, 5.0] {
                    let at = power + step.log10();
                    ticks.push(((at - low) / span, label(10_f64.powf(at))));
                }
            }
            power += 1.0;
        }
        Self { scale: Scale::Decades(low, high), ticks }
    }

    /// Time from 0, with six to twelve labels.
    pub(super) fn time(length: Duration) -> Self {
        let whole = length.as_secs_f64();
        let step = [
            1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 43_200.0, 86_400.0,
        ]
        .into_iter()
        .find(|step| whole / step <= 12.0)
        .unwrap_or(864_000.0);
        let step = if whole < 2.0 { nice(whole / 10.0) } else { step };
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= whole * 1.0001 {
            ticks.push((at / whole, duration(at)));
            at += step;
        }
        Self { scale: Scale::Linear(whole), ticks }
    }

    /// Percentiles, as far as `count` values have any. Each step leaves a tenth of the rest.
    pub(super) fn percentiles(count: u64) -> Self {
        let end = tail(count);
        let names = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"];
        let decades =
            names.iter().zip(0_u32..).map(|(name, nines)| (f64::from(nines) / end, format!("{name} %")));
        let half = (2.0_f64.log10() / end, "50 %".to_owned());
        let mut ticks: Vec<_> = decades.filter(|(place, _)| *place <= 1.0).collect();
        ticks.push(half);
        Self { scale: Scale::Fixed, ticks }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self.scale, Scale::Decades(..))
    }

    /// The position of a value, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear(end) => value / end,
            Scale::Decades(low, high) => ((value.max(1e-12).log10() - low) / (high - low)).clamp(0.0, 1.0),
            Scale::Fixed => value,
        }
    }

    pub(super) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }
}

/// How many nines of a percentile `count` values support.
fn tail(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "its logarithm needs no more")]
    let tens = (count.max(10) as f64).log10();
    tens.clamp(1.0, 6.0)
}

/// The percentile at a position of the axis for `count` values.
pub(super) fn percent_at(place: f64, count: u64) -> f64 {
    100.0 - 100.0 * 10_f64.powf(-place * tail(count))
}

/// The next round number.
fn nice(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(highest.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= highest).unwrap_or(highest)
}

/// At most three digits, without trailing zeros.
fn short(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (factor, unit) =
        units.iter().find(|(factor, _)| value >= *factor * 0.999).unwrap_or(&units[units.len() - 1]);
    if value <= 0.0 { "0".to_owned() } else { format!("{} {unit}", short(value / factor)) }
}

/// `0.5`, `1,500`.
pub(super) fn number(value: f64) -> String {
    if value >= 1000.0 { grouped(rounded(value)) } else { short(value) }
}

/// `2.5 Gbit/s`.
pub(super) fn bits(value: f64) -> String {
    scaled(value, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
}

/// `20 ms`, from seconds.
pub(super) fn duration(value: f64) -> String {
    match value {
        7200.0.. => format!("{} h", short(value / 3600.0)),
        600.0.. => format!("{} min", short(value / 60.0)),
        _ => scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks().iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (highest, wanted) in
            [(0.0, 1.0), (3.2, 4.0), (10.0, 10.0), (11.0, 20.0), (0.4, 0.4), (73.0, 80.0)]
        {
            assert!((nice(highest) - wanted).abs() < 1e-9, "{highest}");
        }
        assert_eq!(labels(&Axis::linear(1.0, number)), ["0", "0.25", "0.5", "0.75", "1"]);
        assert_eq!(labels(&Axis::linear(7000.0, number)), ["0", "2,000", "4,000", "6,000", "8,000"]);
        assert_eq!(labels(&Axis::linear(7.3e9, bits)), ["0", "2 Gbit/s", "4 Gbit/s", "6 Gbit/s", "8 Gbit/s"]);
    }

    #[test]
    fn latencies_stand_between_powers_of_ten() {
        let axis = Axis::decades([0.0002, 0.03, 0.0].into_iter(), duration);
        assert_eq!(labels(&axis), ["100 µs", "1 ms", "10 ms", "100 ms"]);
        assert!((axis.place(0.001) - 1.0 / 3.0).abs() < 1e-9);
        let narrow = Axis::decades([0.002, 0.003].into_iter(), duration);
        assert_eq!(labels(&narrow), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(labels(&Axis::decades(std::iter::empty(), duration)).len(), 4);
    }

    #[test]
    fn time_has_a_few_round_numbers() {
        assert_eq!(labels(&Axis::time(Duration::from_secs(10))).len(), 11);
        assert_eq!(labels(&Axis::time(Duration::from_secs(60))).last(), Some(&"60 s"));
        assert_eq!(labels(&Axis::time(Duration::from_millis(50)))[1], "5 ms");
        assert_eq!(labels(&Axis::time(Duration::from_secs(86_400 * 3))).last(), Some(&"72 h"));
    }

    #[test]
    fn percentiles_go_as_far_as_the_values_do() {
        assert_eq!(labels(&Axis::percentiles(1000)), ["0 %", "90 %", "99 %", "99.9 %", "50 %"]);
        assert!((percent_at(1.0, 1000) - 99.9).abs() < 1e-9);
        assert!(percent_at(0.0, 1000).abs() < 1e-9);
        assert_eq!(labels(&Axis::percentiles(0)), ["0 %", "90 %", "50 %"]);
    }
}
