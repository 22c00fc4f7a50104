//! Where the samples of a metric go: the Prometheus text format, version 0.0.4, or a list that `/status.json` is made of.

use std::fmt::{self, Write as _};

use crate::cells::{BUCKET_BOUNDS_NANOSECONDS, CounterVec, Distribution};
use crate::labels::LabelValue;
use crate::metric::{Metric, Sources};
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

/// Receives the samples of one metric; `labels` are the values in the order of the metric's labels.
pub(crate) trait Sink {
    fn sample(&mut self, labels: &[&str], value: Value);
    fn distribution(&mut self, labels: &[&str], distribution: Distribution);
}

/// What the row of a metric writes to.
pub(crate) struct Family<'a>(pub(crate) &'a mut dyn Sink);

/// The lines of one metric in the Prometheus text format.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    name: &'static str,
    labels: &'static [Label],
    text: &'a mut String,
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

impl Sink for Samples {
    fn sample(&mut self, labels: &[&str], value: Value) {
        self.values.push((labels.iter().copied().map(str::to_owned).collect(), value));
    }

    fn distribution(&mut self, labels: &[&str], distribution: Distribution) {
        self.distributions.push((labels.iter().copied().map(str::to_owned).collect(), distribution));
    }
}

impl Sink for Lines<'_> {
    fn sample(&mut self, labels: &[&str], value: Value) {
        self.line("", labels, None, value);
    }

    fn distribution(&mut self, labels: &[&str], distribution: Distribution) {
        let bounds = BUCKET_BOUNDS_NANOSECONDS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let mut cumulative = 0;
        for (bound, bucket) in bounds.zip(distribution.buckets) {
            cumulative += bucket;
            self.line("_bucket", labels, Some(bound), Value::Whole(cumulative));
        }
        self.line("_sum", labels, None, Value::Real(seconds(distribution.sum_nanoseconds)));
        self.line("_count", labels, None, Value::Whole(cumulative));
    }
}

impl<'a> Lines<'a> {
    /// Writes the HELP and TYPE lines of a metric.
    pub(crate) fn begin(metric: &Metric, text: &'a mut String) -> Self {
        let Metric { name, kind, help, labels, .. } = metric;
        put(text, format_args!("# HELP {name} {}\n", Escaped::help(help)));
        put(text, format_args!("# TYPE {name} {}\n", kind.label()));
        Self { name, labels, text }
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<f64>, value: Value) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        put(self.text, format_args!("{}{suffix}", self.name));
        let mut opening = '{';
        for (label, value) in self.labels.iter().zip(labels) {
            put(self.text, format_args!("{opening}{}=\"{}\"", label.name, Escaped::label(value)));
            opening = ',';
        }
        if let Some(bound) = bound {
            put(self.text, format_args!("{opening}le=\"{}\"", Value::Real(bound)));
            opening = ',';
        }
        if opening == ',' {
            self.text.push('}');
        }
        put(self.text, format_args!(" {value}\n"));
    }
}

/// Nanoseconds as seconds; a sum of more than 100 days loses its last nanoseconds.
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(arguments).unwrap_or_default();
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

/// Text with backslash escapes. Quotes are special only in label values.
struct Escaped<'a> {
    text: &'a str,
    quoted: bool,
}

impl<'a> Escaped<'a> {
    fn label(text: &'a str) -> Self {
        Self { text, quoted: true }
    }

    fn help(text: &'a str) -> Self {
        Self { text, quoted: false }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.text.chars() {
            match character {
                '\\' => out.write_str("\\\\")?,
                '\n' => out.write_str("\\n")?,
                '"' if self.quoted => out.write_str("\\\"")?,
                _ => out.write_char(character)?,
            }
        }
        Ok(())
    }
}
