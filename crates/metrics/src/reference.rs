//! `docs/metrics.md`, generated from the table.

use crate::metric::{Label, Values};
use crate::table::TABLE;

const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p penstock-metrics docs_";

/// The reference of all metrics, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = format!(
        "# Metrics\n\n\
         <!-- Generated from crates/metrics/src/table by: {COMMAND} -->\n\n\
         `GET /metrics` on the admin listener returns these metrics in the Prometheus text format (version 0.0.4).\n\
         Counters start at zero when the program starts. Names end in the unit: seconds and bytes.\n\
         No label takes a value that a client makes up: values outside a fixed or bounded set are counted as `other`.\n"
    );
    for section in TABLE {
        text += &format!("\n## {}\n\n| name | kind | meaning | labels |\n|---|---|---|---|\n", section.title);
        for metric in section.metrics {
            let labels: Vec<String> = metric.labels.iter().map(describe).collect();
            let (name, kind, help) = (metric.name, metric.kind.label(), metric.help);
            text += &format!("| `{name}` | {kind} | {help} | {} |\n", labels.join("<br>"));
        }
    }
    text
}

fn describe(label: &Label) -> String {
    match label.values {
        Values::Closed(values) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("`{}`: {}", label.name, values.join(", "))
        }
        Values::Open(meaning) => format!("`{}`: {meaning}", label.name),
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

    #[test]
    fn docs_handshakes_md_asks_for_metrics_that_are_there() {
        let text = include_str!("../../../docs/handshakes.md");
        let names = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let names: Vec<_> = names.filter(|word| word.starts_with("penstock_")).collect();
        assert!(names.len() > 20, "{names:?}");
        let metrics = || TABLE.iter().flat_map(|section| section.metrics);
        for name in names {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let known = metrics().any(|metric| metric.name == name || Some(metric.name) == family);
            assert!(known, "docs/handshakes.md: there is no metric {name}");
        }
    }

    #[test]
    fn docs_metrics_md_shows_the_table() {
        let wanted = reference();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(PATH, &wanted).unwrap();
        }
        let committed = fs::read_to_string(PATH).unwrap_or_default();
        assert!(committed == wanted, "docs/metrics.md does not show the table of metrics; run: {COMMAND}");
    }
}
