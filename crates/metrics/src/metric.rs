//! A row of the table of metrics, and what it writes to.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::cells::{CounterVec, Distribution};
use crate::labels::LabelValue;
use crate::readings::Readings;
use crate::registry::Metrics;
use crate::sample::{Sink, Value, seconds};
use crate::shard::Shard;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never decreases while the process runs.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Durations, counted in buckets.
    Histogram,
}

/// A label and the values it can have.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    pub(crate) values: Values,
}

/// The values a label can have.
#[derive(Debug)]
pub(crate) enum Values {
    /// Exactly these.
    Closed(&'static [&'static str]),
    /// Any number that is bounded elsewhere; described in words.
    Open(&'static str),
}

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

/// What the row of a metric writes to.
pub(crate) struct Family<'a>(pub(crate) &'a mut dyn Sink);

impl Kind {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Family<'_> {
    /// Writes one sample; `labels` are the values in the order of the metric's labels.
    pub(crate) fn sample(&mut self, labels: &[&str], value: impl Into<Value>) {
        self.0.sample(labels, value.into());
    }

    /// Writes one sample in seconds.
    pub(crate) fn seconds(&mut self, labels: &[&str], nanoseconds: u64) {
        self.sample(labels, seconds(nanoseconds));
    }

    /// Writes the sample of a metric without labels, if the program has the value.
    pub(crate) fn optional(&mut self, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.sample(&[], value);
        }
    }

    /// Writes one sample for each value of a label.
    pub(crate) fn each<L: LabelValue>(&mut self, count: impl Fn(L) -> u64) {
        for value in L::ALL {
            self.sample(&[value.label()], count(*value));
        }
    }

    /// Writes one sample for each label value that the workers have counted.
    pub(crate) fn reasons(&mut self, from: &Sources<'_>, counts: fn(&Shard) -> &CounterVec<&'static str>) {
        for (reason, count) in from.metrics.sum_by_label(counts) {
            self.sample(&[reason], count);
        }
    }

    /// Writes the cumulative buckets, the sum and the count of a histogram.
    pub(crate) fn distribution(&mut self, labels: &[&str], distribution: Distribution) {
        self.0.distribution(labels, distribution);
    }
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
