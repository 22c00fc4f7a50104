//! A row of the table of metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::exposition::{Family, Kind, Label, Values};
use crate::readings::Readings;
use crate::registry::Metrics;

/// A row of the table: the name, meaning and labels of a metric, and the source of its values.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The quantity and its unit, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [Label],
    /// Writes one sample for each combination of label values.
    pub(crate) read: fn(&Sources<'_>, &mut Family<'_>),
}

/// The values of a scrape.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) readings: &'a Readings,
}

/// A label with exactly these values.
pub(crate) const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: Values::Closed(values) }
}

/// A label whose values are bounded elsewhere and described in words.
pub(crate) const fn open(name: &'static str, values: &'static str) -> Label {
    Label { name, values: Values::Open(values) }
}

/// Seconds since 1970; an earlier time counts as 1970.
pub(crate) fn timestamp(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
