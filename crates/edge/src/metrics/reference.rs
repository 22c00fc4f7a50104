//! `docs/metrics.md`, made from the table.

use super::exposition::{Label, Values};
use super::table::TABLE;

const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p penstock-edge docs_";

/// The reference of all metrics, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = format!(
        "# Metrics\n\n\
         <!-- Generated from crates/edge/src/metrics/table.rs by: {COMMAND} -->\n\n\
         `GET /metrics` on the admin listener gives these in the Prometheus text format (version 0.0.4).\n\
         Counters start at zero with the program. Units are in the names: seconds and bytes.\n\
         No label can take a value that a client makes up: what does not fit is counted as `other`.\n"
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
    fn docs_metrics_md_shows_the_table() {
        let wanted = reference();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(PATH, &wanted).unwrap();
        }
        let committed = fs::read_to_string(PATH).unwrap_or_default();
        assert!(committed == wanted, "docs/metrics.md does not show the table of metrics; run: {COMMAND}");
    }
}
