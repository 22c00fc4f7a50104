//! What a node says of itself to the others: some numbers of the last second, and what is wrong there.

use penstock_config::limits;
use serde_json::{Map, Value, json};

use crate::metrics::{Problem, Watch};

/// The numbers of a summary: names of [`Watch::series`].
const NUMBERS: [&str; 9] = [
    "sent_bytes_per_second",
    "requests_per_second",
    "responses_5xx_per_second",
    "connections",
    "origin_bytes_per_second",
    "cache_requests_per_second",
    "cache_hits_per_second",
    "first_byte_p99_seconds",
    "workers_busy_mean_ratio",
];

/// Problems of a node that others are told.
const PROBLEMS: usize = 8;
/// Characters of one of them.
const WORDS: usize = 200;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSummary(Map<String, Value>);

impl NodeSummary {
    /// The summary of a look at this node: its numbers in the order of [`Watch::series`], and its problems.
    pub(crate) fn of(values: &[f32], problems: &[Problem]) -> Self {
        let named = Watch::series().into_iter().zip(values).filter(|(name, _)| NUMBERS.contains(name));
        let numbers = named.map(|(name, value)| (name.to_owned(), json!(value)));
        let problems = problems
            .iter()
            .take(PROBLEMS)
            .map(|problem| json!({"severity": problem.severity.label(), "what": cut(&problem.what)}));
        let mut summary: Map<String, Value> = numbers.collect();
        summary.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        summary.insert("problems".to_owned(), problems.collect());
        Self(summary)
    }

    /// The text for another node, of at most [`limits::PEER_SUMMARY_BYTES`].
    pub(crate) fn text(&self) -> String {
        let text = Value::Object(self.0.clone()).to_string();
        if text.len() > limits::PEER_SUMMARY_BYTES { "{}".to_owned() } else { text }
    }

    /// Reads the text of another node; `None` if it is none. Only what is known is kept, within bounds: that node may have another
    /// version, or lie.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let Value::Object(said) = serde_json::from_str(text).ok()? else { return None };
        let mut summary = Map::new();
        for name in NUMBERS {
            let number = said.get(name).and_then(Value::as_f64).filter(|number| *number >= 0.0);
            summary.insert(name.to_owned(), json!(number));
        }
        let version = said.get("version").and_then(Value::as_str).map(cut);
        summary.insert("version".to_owned(), json!(version));
        let problems = said.get("problems").and_then(Value::as_array).into_iter().flatten();
        let problem = |problem: &Value| {
            let severity = if problem["severity"] == "critical" { "critical" } else { "warning" };
            problem["what"].as_str().map(|what| json!({"severity": severity, "what": cut(what)}))
        };
        summary.insert("problems".to_owned(), problems.take(PROBLEMS).filter_map(problem).collect());
        Some(Self(summary))
    }

    /// For `/status.json`.
    #[must_use]
    pub fn status(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use crate::metrics::Severity;

    use super::*;

    fn problem(what: &str) -> Problem {
        let (severity, subject, since, help) = (Severity::Critical, "origins", SystemTime::UNIX_EPOCH, "");
        Problem { severity, subject, what: what.to_owned(), since, help }
    }

    #[test]
    fn what_one_node_says_another_one_reads() {
        let values: Vec<f32> =
            Watch::series().iter().map(|name| if NUMBERS.contains(name) { 1.5 } else { 7.0 }).collect();
        let said = NodeSummary::of(&values, &[problem("origin b is out")]);
        let read = NodeSummary::read(&said.text()).unwrap();
        assert_eq!(read, said);
        let status = read.status();
        assert_eq!(status["sent_bytes_per_second"], 1.5);
        assert_eq!(status["problems"][0]["what"], "origin b is out");
        assert!(status.get("resident_bytes").is_none());
    }

    #[test]
    fn the_longest_summary_is_within_its_bound_and_a_lie_is_cut() {
        let values = vec![f32::MAX; Watch::series().len()];
        let long = "\u{1F600}".repeat(10_000);
        let problems: Vec<Problem> = (0..1000).map(|_| problem(&long)).collect();
        let said = NodeSummary::of(&values, &problems).text();
        assert!(said.len() > 4_000 && said.len() <= limits::PEER_SUMMARY_BYTES, "{}", said.len());
        let lie = json!({
            "sent_bytes_per_second": "many", "requests_per_second": -1, "extra": [long], "version": long,
            "problems": [{"what": long, "severity": 7}, 7, {"what": 7}],
        });
        let read = NodeSummary::read(&lie.to_string()).unwrap();
        assert!(read.0["sent_bytes_per_second"].is_null() && read.0["requests_per_second"].is_null());
        assert_eq!(read.0["problems"].as_array().unwrap().len(), 1);
        assert!(read.text().len() < 2_500 && read.0.get("extra").is_none());
        for wrong in ["", "[]", "7", "{", "null"] {
            assert_eq!(NodeSummary::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let said = NodeSummary::of(&vec![f32::NAN; Watch::series().len()], &[]);
        let read = NodeSummary::read(&said.text()).unwrap();
        assert!(NUMBERS.iter().all(|name| read.0[*name].is_null()));
        assert!(read.0["problems"].as_array().unwrap().is_empty());
    }
}
