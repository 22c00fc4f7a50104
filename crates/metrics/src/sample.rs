//! The samples of a metric, and where they go.

use std::fmt;

use crate::cells::Distribution;

/// Receives the samples of one metric; `labels` are the values in the order of the metric's labels.
pub(crate) trait Sink {
    fn sample(&mut self, labels: &[&str], value: Value);
    fn distribution(&mut self, labels: &[&str], distribution: Distribution);
}

/// The samples of one metric.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) values: Vec<(Vec<String>, Value)>,
    pub(crate) distributions: Vec<(Vec<String>, Distribution)>,
}

/// The value of a sample. Counters are exact integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

impl Sink for Samples {
    fn sample(&mut self, labels: &[&str], value: Value) {
        self.values.push((labels.iter().copied().map(str::to_owned).collect(), value));
    }

    fn distribution(&mut self, labels: &[&str], distribution: Distribution) {
        self.distributions.push((labels.iter().copied().map(str::to_owned).collect(), distribution));
    }
}

/// Nanoseconds as seconds; a sum of more than 100 days loses its last nanoseconds.
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(out),
            Self::Real(value) if *value == f64::INFINITY => out.write_str("+Inf"),
            Self::Real(value) => value.fmt(out),
        }
    }
}
