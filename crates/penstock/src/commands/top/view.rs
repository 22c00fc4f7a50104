//! What is shown, as text: from `/status.json` and `/history.json`.

use serde_json::Value;

use super::format::{bits, bytes, clean, count, duration, list, percent, rate, seconds};
use super::tabs::Tab;
use crate::arguments::TopTab;

/// A number with its last minutes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// The oldest first; `None` where it is not known.
    pub(super) past: Vec<Option<f64>>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) is_critical: bool,
    pub(super) what: String,
    pub(super) help: String,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) url: String,
    pub(super) is_up: bool,
    pub(super) latency: String,
    pub(super) failed: u64,
}

/// A part of the cache.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tier {
    pub(super) name: String,
    pub(super) words: String,
    /// From 0 to 1.
    pub(super) fill: f64,
}

/// All that is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) title: String,
    pub(super) problems: Vec<Problem>,
    pub(super) rows: Vec<Row>,
    pub(super) origins: Vec<Origin>,
    pub(super) tiers: Vec<Tier>,
    pub(super) tabs: Vec<Tab>,
}

impl View {
    /// Reads both documents. What is missing in them is left out. `now` is in seconds since 1970.
    pub(super) fn new(address: &str, status: &Value, history: &Value, now: u64) -> Self {
        let version = clean(status["version"].as_str().unwrap_or("?"));
        let uptime = duration(status["uptime_seconds"].as_u64().unwrap_or(0));
        let problem = |problem: &Value| Problem {
            is_critical: problem["severity"] == "critical",
            what: clean(problem["what"].as_str().unwrap_or_default()),
            help: clean(problem["help"].as_str().unwrap_or_default()),
        };
        let origin = |server: &Value| Origin {
            url: clean(server["url"].as_str().unwrap_or_default()),
            is_up: server["up"] == true,
            latency: seconds(server["mean_seconds"].as_f64()),
            failed: server["failed"].as_u64().unwrap_or(0),
        };
        let cache = &status["cache"];
        let memory = Some(&cache["memory"]).filter(|memory| memory.is_object());
        let memory = memory.map(|memory| tier("memory".to_owned(), memory));
        let disk = |disk: &Value| tier(clean(disk["directory"].as_str().unwrap_or("disk")), disk);
        Self {
            title: format!("Penstock {version} at {address}, up {uptime}"),
            problems: list(&status["problems"]).iter().map(problem).collect(),
            rows: rows(history),
            origins: list(&status["origins"]["servers"]).iter().map(origin).collect(),
            tiers: memory.into_iter().chain(list(&cache["disks"]).iter().map(disk)).collect(),
            tabs: Tab::all(status, now),
        }
    }

    /// What is shown beside the overview.
    pub(super) fn tab(&self, kind: TopTab) -> Option<&Tab> {
        self.tabs.iter().find(|tab| tab.kind == kind && kind != TopTab::Overview)
    }

    /// Notes that the server does not answer; its last numbers stay.
    pub(super) fn lose(&mut self, why: &str) {
        let what = clean(why.lines().next().unwrap_or_default());
        let help = "systemctl status penstock".to_owned();
        self.problems.retain(|problem| problem.help != help);
        self.problems.insert(0, Problem { is_critical: true, what, help });
    }

    /// The number of critical problems.
    pub(super) fn critical(&self) -> usize {
        self.problems.iter().filter(|problem| problem.is_critical).count()
    }

    /// The lines of `--once`.
    pub(super) fn text(&self, kind: TopTab) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        if self.problems.is_empty() {
            lines.push("nothing is wrong".to_owned());
        }
        for problem in &self.problems {
            let severity = if problem.is_critical { "critical" } else { "warning" };
            lines.push(format!("{severity}: {} ({})", problem.what, problem.help));
        }
        if let Some(tab) = self.tab(kind) {
            lines.extend(tab.text());
            return lines;
        }
        lines.extend(self.rows.iter().map(|row| format!("{:<24} {}", row.name, row.value)));
        lines.extend(self.tiers.iter().map(|tier| format!("{:<24} {}", tier.name, tier.words)));
        for origin in &self.origins {
            let state = if origin.is_up { "up" } else { "out" };
            lines.push(format!("{:<24} {state}, {}, failed {}", origin.url, origin.latency, origin.failed));
        }
        lines
    }
}

/// How a number is shown.
type Show = fn(Option<f64>) -> String;

const ROWS: [(&str, &str, Show); 17] = [
    ("out", "sent_bytes_per_second", bits),
    ("requests", "requests_per_second", rate),
    ("responses with 5xx", "responses_5xx_per_second", rate),
    ("open connections", "connections", count),
    ("first byte, p50", "first_byte_p50_seconds", seconds),
    ("first byte, p99", "first_byte_p99_seconds", seconds),
    ("full handshakes", "full_handshakes_per_second", rate),
    ("resumed handshakes", "resumed_handshakes_per_second", rate),
    ("failed handshakes", "failed_handshakes_per_second", rate),
    ("from origins", "origin_bytes_per_second", bits),
    ("workers busy, mean", "workers_busy_mean_ratio", percent),
    ("busy with handshakes", "work_handshakes_ratio", percent),
    ("busy with sealing", "work_sealing_ratio", percent),
    ("busy with sending", "work_sending_ratio", percent),
    ("busy with filling", "work_filling_ratio", percent),
    ("limit of handshakes", "handshake_rate_limit", rate),
    ("slow clients", "slow_clients_per_second", rate),
];

fn rows(history: &Value) -> Vec<Row> {
    let past = |name: &str| -> Option<Vec<Option<f64>>> {
        Some(history["series"][name].as_array()?.iter().map(Value::as_f64).collect())
    };
    let row = |(name, series, show): &(&'static str, &str, Show)| {
        let past = past(series)?;
        // A second without requests has no quantile: the last one that is known counts for some seconds.
        let newest = past.iter().rev().take(10).find_map(|value| *value);
        Some(Row { name, value: show(newest), past })
    };
    let mut rows: Vec<Row> = ROWS.iter().filter_map(row).collect();
    let sent = past("sent_bytes_per_second").unwrap_or_default();
    let fetched = past("origin_bytes_per_second").unwrap_or_default();
    let hits = |(sent, fetched): (&Option<f64>, &Option<f64>)| {
        let sent = sent.filter(|sent| *sent > 0.0)?;
        Some((1.0 - (*fetched)? / sent).max(0.0))
    };
    let past: Vec<_> = sent.iter().zip(&fetched).map(hits).collect();
    if !past.is_empty() {
        let newest = past.iter().rev().take(10).find_map(|value| *value);
        rows.push(Row { name: "bytes not from an origin", value: percent(newest), past });
    }
    rows
}

fn tier(name: String, value: &Value) -> Tier {
    let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
    let (used, most) = (number("bytes"), number("bytes_max"));
    let fill = if most > 0.0 { (used / most).clamp(0.0, 1.0) } else { 0.0 };
    let words = match value["in_service"] == false {
        true => "out of service".to_owned(),
        false => format!("{} of {}, {}", bytes(used), bytes(most), percent(Some(fill))),
    };
    Tier { name, words, fill }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// A server with an origin that is out, and with all parts.
    pub(crate) fn example() -> View {
        let status = json!({
            "version": "1.2.3", "uptime_seconds": 7_260,
            "problems": [{"severity": "critical", "what": "origin http://b.example is out: \u{1b}[31mtimeout", "help": "curl -v"}],
            "origins": {"servers": [{"url": "http://b.example", "up": false, "mean_seconds": null, "failed": 7}]},
            "cache": {
                "memory": {"bytes": 512 << 20, "bytes_max": 1 << 30, "in_service": true},
                "disks": [{"directory": "/disk", "bytes": 0, "bytes_max": 0, "in_service": false}],
            },
            "top": {
                "titles": [{"key": "a.example/film/", "requests": 1234, "bytes": 4_u64 << 30, "players": {"requests": 200, "starved": 5}}],
                "titles_by_requests": [{"key": "a.example/\u{1b}[31m/", "requests": 9000, "bytes": 512}],
                "starved_titles": [{"key": "a.example/film/", "requests": 5}],
            },
            "sites": [{"name": "a.example", "players": {
                "sessions": 12, "requests": 200, "starved": 5, "startup": 3,
                "buffer": [{"requests": 1}, {"requests": 3}, {"requests": 6}, {"requests": 0}, {"requests": 10}],
                "throughput": [{"requests": 1}, {"requests": 0}, {"requests": 0}, {"requests": 7}],
            }}, {"name": "quiet.example", "players": null}],
            "certificates": [
                {"subject": "later.example", "kind": "rsa", "not_after_timestamp_seconds": NOW + 40 * 86_400},
                {"subject": "a.example", "kind": "ecdsa", "not_after_timestamp_seconds": NOW + 9 * 86_400},
                {"subject": "old.example", "kind": "ecdsa", "not_after_timestamp_seconds": NOW - 1},
            ],
            "acme": {"names": [{"name": "b.example", "state": "failing", "error": "no such name", "not_after_timestamp_seconds": null}]},
            "cluster": [
                {"name": "edge1", "self": true, "up": true, "requests": {"failed": 0}, "purges_missed": 0, "summary": {
                    "sent_bytes_per_second": 1.25e9, "requests_per_second": 40, "cache_hits_per_second": 9, "cache_requests_per_second": 10,
                    "workers_busy_mean_ratio": 0.5, "problems": []}},
                {"name": "edge2", "self": false, "up": false, "busy": 0.25, "requests": {"failed": 2}, "purges_missed": 1, "summary": null},
            ],
            "private_keys": {
                "keyservers": [{"address": "192.0.2.9:2407", "up": true, "circuit_open": false, "under_way": 1, "mean_seconds": 0.002,
                    "operations": {"ok": 40, "refused": 2, "timed_out": 1, "unavailable": 0, "wrong_signature": 0}}],
                "tokens": [{"name": "hsm", "up": true, "circuit_open": true, "under_way": 0, "mean_seconds": null, "operations": {}}],
            },
            "fleet": {"up": true, "circuit": "closed", "latency_seconds": 0.0005, "edges": 2, "secret_fingerprint": "0123abcd",
                "purges_applied": 3, "purges_waiting": 0, "purges_missed": 1, "revoked_ids": 7, "edges_with_other_secret": 0,
                "members": [
                    {"name": "edge-b", "self": false, "up": false, "seen_timestamp_seconds": NOW - 7_200, "purges_missing": 4},
                    {"name": "edge-a", "self": true, "up": true, "seen_timestamp_seconds": NOW, "purges_missing": 0},
                ]},
        });
        let history = json!({"at": 1, "series": {
            "sent_bytes_per_second": [1e9, 125e6], "origin_bytes_per_second": [1e9, 12.5e6],
            "requests_per_second": [0, 1234], "first_byte_p99_seconds": [0.0021, null],
        }});
        View::new("127.0.0.1:9600", &status, &history, NOW)
    }

    #[test]
    fn the_text_has_numbers_with_units_and_what_is_wrong() {
        let text = example().text(TopTab::Overview);
        let wanted = [
            "Penstock 1.2.3 at 127.0.0.1:9600, up 2 h 1 min",
            "critical: origin http://b.example is out: \u{fffd}[31mtimeout (curl -v)",
            "out                      1 Gbit/s",
            "requests                 1.23 k/s",
            "first byte, p99          2.10 ms",
            "from origins             100 Mbit/s",
            "bytes not from an origin 90.0 %",
            "memory                   512 MiB of 1 GiB, 50.0 %",
            "/disk                    out of service",
            "http://b.example         out, -, failed 7",
        ];
        assert_eq!(text, wanted);
        assert_eq!(example().critical(), 1);
    }

    /// The lines of each tab of the example, without the spaces of the columns.
    const TABS: [(TopTab, &[&str]); 6] = [
        (
            TopTab::Titles,
            &[
                "title, by bytes requests bytes starved",
                "a.example/film/ 1.23 k 4 GiB 2.5 %",
                "title, by requests requests bytes starved",
                "a.example/\u{fffd}[31m/ 9 k 512 B -",
            ],
        ),
        (
            TopTab::Players,
            &[
                "site sessions requests starved buffer<5s rate<1x starts",
                "a.example 12 200 2.5 % 20.0 % 12.5 % 3",
                "title that starves times",
                "a.example/film/ 5",
            ],
        ),
        (
            TopTab::Certificates,
            &[
                "certificate key ends in",
                "old.example ecdsa over",
                "a.example ecdsa 9 d 0 h",
                "later.example rsa 40 d 0 h",
                "ordered name, with the last error state ends in",
                "b.example no such name failing -",
            ],
        ),
        (
            TopTab::Nodes,
            &[
                "node state out requests hits busy failed purges wrong",
                "edge1 this 10 Gbit/s 40/s 90.0 % 50.0 % 0 0 0",
                "edge2 out - - - 25.0 % 2 1 0",
            ],
        ),
        (
            TopTab::Keys,
            &[
                "keyserver or token state mean signed refused too late failed under way",
                "192.0.2.9:2407 up 2 ms 40 2 1 0 1",
                "hsm gets none - - 0 0 0 0",
            ],
        ),
        (
            TopTab::Store,
            &[
                "store of the fleet",
                "state up",
                "latency 500 µs",
                "edges 2",
                "secret 0123abcd",
                "purges applied 3",
                "purges that wait for the store 0",
                "whole cache purged 1",
                "revoked ids 7",
                "edges with another secret 0",
                "edge state purges to apply",
                "edge-b away for 2 h 0 min 4",
                "edge-a this 0",
            ],
        ),
    ];

    #[test]
    fn each_tab_has_the_numbers_of_its_part() {
        let tab = |kind| {
            let text = example().text(kind);
            text[2..]
                .iter()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        for (kind, lines) in TABS {
            assert_eq!(tab(kind), lines, "{kind:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_said_once_and_its_numbers_stay() {
        let mut view = example();
        view.lose("cannot ask the server: nothing is listening there");
        view.lose("cannot ask the server: connection reset\nmore");
        assert_eq!(view.problems.len(), 2);
        assert_eq!(view.problems[0].what, "cannot ask the server: connection reset");
        assert!(view.rows.len() > 3);
    }

    #[test]
    fn a_document_without_anything_is_shown_as_nothing() {
        let view = View::new("x", &Value::Null, &Value::Null, NOW);
        assert_eq!(view.text(TopTab::Overview), ["Penstock ? at x, up 0 s", "nothing is wrong"]);
        for tab in &view.tabs {
            assert!(tab.tables.is_empty(), "{:?}", tab.kind);
        }
        assert_eq!(view.text(TopTab::Store).last().unwrap(), "this server belongs to no fleet");
    }
}
