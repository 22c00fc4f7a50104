//! The Prometheus text of all metrics.

use crate::exposition::Lines;
use crate::metric::{Family, Sources};
use crate::readings::Readings;
use crate::registry::Metrics;
use crate::table::TABLE;

impl Metrics {
    /// All metrics in the Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn render(&self, readings: &Readings) -> String {
        let from = Sources { metrics: self, readings };
        let mut text = String::with_capacity(16 * 1024);
        for metric in TABLE.iter().flat_map(|section| section.metrics) {
            (metric.read)(&from, &mut Family(&mut Lines::begin(metric, &mut text)));
        }
        text
    }
}
