//! The Prometheus text format, version 0.0.4: the lines of a metric.

use std::fmt::{self, Write as _};

use crate::cells::Distribution;
use crate::metric::{Label, Metric};
use crate::sample::{Sink, Value};

/// The lines of one metric in the Prometheus text format.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    name: &'static str,
    labels: &'static [Label],
    text: &'a mut String,
}

impl Sink for Lines<'_> {
    fn sample(&mut self, labels: &[&str], value: Value) {
        self.line("", labels, None, value);
    }

    fn distribution(&mut self, labels: &[&str], distribution: Distribution) {
        let mut cumulative = 0;
        for (bound, bucket) in distribution.buckets() {
            cumulative += bucket;
            self.line("_bucket", labels, Some(bound), Value::Whole(cumulative));
        }
        self.line("_sum", labels, None, Value::Real(distribution.sum()));
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

fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(arguments).unwrap_or_default();
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
