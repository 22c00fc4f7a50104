//! The text of `/metrics`, parsed.

use std::collections::BTreeMap;

/// Values by name and labels, exactly as written: `penstock_connections{listener="…",protocol="https"}`.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub BTreeMap<String, f64>);

impl Metrics {
    /// Parses the text that the admin listener gives.
    ///
    /// # Panics
    /// If it is none.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let values = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a series and its value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        Self(values.collect())
    }

    /// The sum of all series of this name whose labels contain every one of these, written as `version="TLSv1.3"`.
    /// Zero if there is none.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matches = |series: &str| {
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        };
        self.0.iter().filter(|(series, _)| matches(series)).fold(0.0, |sum, (_, value)| sum + value)
    }
}
