//! The Prometheus text format, version 0.0.4: one [`Family`] of lines for each [`Metric`] of the table.

use std::fmt::{self, Write as _};

use super::Observatory;
use super::cells::{BUCKET_BOUNDS_NANOSECONDS, Distribution};

/// One row of the table of metrics: how it is called, what it means, and where its values come from.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What is measured and in which unit, in a sentence.
    pub(super) help: &'static str,
    pub(super) labels: &'static [Label],
    /// Writes one sample for each combination of label values.
    pub(super) read: fn(&Observatory, &mut Family<'_>),
}

/// How the values of a metric move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets by duration.
    Histogram,
}

/// A label and the values it can have.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) name: &'static str,
    pub(super) values: Values,
}

/// The values a label can have.
#[derive(Debug)]
pub(super) enum Values {
    /// Exactly these.
    Closed(&'static [&'static str]),
    /// Any number that is bounded elsewhere; described in words.
    Open(&'static str),
}

/// The lines of one metric.
#[derive(Debug)]
pub(super) struct Family<'a> {
    metric: &'static Metric,
    text: &'a mut String,
}

/// A sample's value: counters stay exact integers, whatever their size.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
}

impl Kind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl<'a> Family<'a> {
    /// Writes all samples of a metric with what stands above them.
    pub(super) fn write(metric: &'static Metric, observatory: &Observatory, text: &'a mut String) {
        put(text, format_args!("# HELP {} {}\n", metric.name, Escaped::help(metric.help)));
        put(text, format_args!("# TYPE {} {}\n", metric.name, metric.kind.label()));
        (metric.read)(observatory, &mut Self { metric, text });
    }

    /// One sample; `labels` are the values in the order of the metric's labels.
    pub(super) fn sample(&mut self, labels: &[&str], value: impl Into<Value>) {
        self.line("", labels, None, value.into());
    }

    /// One gauge or counter of seconds, from nanoseconds.
    pub(super) fn seconds(&mut self, labels: &[&str], nanoseconds: u64) {
        self.sample(labels, seconds(nanoseconds));
    }

    /// The cumulative buckets, the sum and the count of a histogram.
    pub(super) fn distribution(&mut self, labels: &[&str], distribution: &Distribution) {
        let bounds = BUCKET_BOUNDS_NANOSECONDS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let mut cumulative = 0;
        for (bound, bucket) in bounds.zip(distribution.buckets) {
            cumulative += bucket;
            self.line("_bucket", labels, Some(bound), Value::Whole(cumulative));
        }
        self.line("_sum", labels, None, Value::Real(seconds(distribution.sum_nanoseconds)));
        self.line("_count", labels, None, Value::Whole(cumulative));
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<f64>, value: Value) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        put(self.text, format_args!("{}{suffix}", self.metric.name));
        let mut opening = '{';
        for (label, value) in self.metric.labels.iter().zip(labels) {
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
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    // Writing to a String cannot fail, so there is nothing to lose here.
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

/// Text with a backslash before what would end it early; only in label values are quotes special.
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
