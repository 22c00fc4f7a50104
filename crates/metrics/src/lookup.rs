//! The samples of a metric, by its name in the table.

use std::collections::BTreeMap;

use crate::metric::{Family, Metric, Sources};
use crate::sample::{Samples, Value};
use crate::table::TABLE;

/// A metric of the table and its present samples.
///
/// # Panics
/// If the table has no such name: names are constants of this crate, and a test reads each.
pub(crate) fn look_up(from: &Sources<'_>, name: &str) -> (&'static Metric, Samples) {
    let mut rows = TABLE.iter().flat_map(|section| section.metrics);
    let metric = rows.find(|metric| metric.name == name).expect("a name of the table");
    let mut samples = Samples::default();
    (metric.read)(from, &mut Family(&mut samples));
    (metric, samples)
}

/// Which samples of a metric count: those whose label has one of these values, or none of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// All.
    All,
    /// Those where each label has one of the values.
    Only(&'static [(&'static str, &'static [&'static str])]),
    /// Those where the label has none of the values.
    Not(&'static str, &'static [&'static str]),
}

impl Which {
    /// Whether a sample with these label values counts.
    pub(crate) fn takes(self, metric: &Metric, values: &[String]) -> bool {
        let has = |label: &str, wanted: &[&str]| {
            let place = metric.labels.iter().position(|known| known.name == label);
            place.and_then(|place| values.get(place)).is_some_and(|value| wanted.contains(&value.as_str()))
        };
        match self {
            Self::All => true,
            Self::Only(conditions) => conditions.iter().all(|(label, wanted)| has(label, wanted)),
            Self::Not(label, unwanted) => !has(label, unwanted),
        }
    }
}

/// The values that count.
pub(crate) fn values_of(from: &Sources<'_>, name: &str, which: Which) -> Vec<f64> {
    let (metric, samples) = look_up(from, name);
    let taken = samples.values.iter().filter(|(labels, _)| which.takes(metric, labels));
    taken.map(|(_, value)| value.real()).collect()
}

/// The sums of the values that count, by the value of one label. Bounded as the metric is.
pub(crate) fn sums_by(from: &Sources<'_>, name: &str, which: Which, label: &str) -> BTreeMap<String, f64> {
    let (metric, samples) = look_up(from, name);
    let place = metric.labels.iter().position(|known| known.name == label).expect("a label of the metric");
    let mut sums = BTreeMap::new();
    for (mut labels, value) in samples.values.into_iter().filter(|(labels, _)| which.takes(metric, labels)) {
        *sums.entry(labels.swap_remove(place)).or_insert(0.0) += value.real();
    }
    sums
}

/// The sum of the values that count; 0 if there is none.
pub(crate) fn sum_of(from: &Sources<'_>, name: &str, which: Which) -> f64 {
    values_of(from, name, which).iter().sum()
}

impl Value {
    /// The value as a real number; a count above 2^53 loses its last digits.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}
