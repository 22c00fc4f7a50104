//! What is shown, as text: from `/status.json` and `/history.json`.

use serde_json::Value;

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
}

impl View {
    /// Reads both documents. What is missing in them is left out.
    pub(super) fn new(address: &str, status: &Value, history: &Value) -> Self {
        let version = clean(status["version"].as_str().unwrap_or("?"));
        let uptime = duration(status["uptime_seconds"].as_u64().unwrap_or(0));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
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
        }
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
    pub(super) fn text(&self) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        if self.problems.is_empty() {
            lines.push("nothing is wrong".to_owned());
        }
        for problem in &self.problems {
            let severity = if problem.is_critical { "critical" } else { "warning" };
            lines.push(format!("{severity}: {} ({})", problem.what, problem.help));
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

/// Text without control characters, which a terminal would obey.
fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

const UNKNOWN: &str = "-";

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut size, mut place) = (value, 0);
    while size >= base && place + 1 < units.len() {
        size /= base;
        place += 1;
    }
    let unit = units.get(place).copied().unwrap_or_default();
    let digits = if size >= 100.0 || size.fract() == 0.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        2
    };
    format!("{size:.digits$} {unit}").trim_end().to_owned()
}

fn bits(value: Option<f64>) -> String {
    value.map_or_else(
        || UNKNOWN.to_owned(),
        |bytes| scaled(8.0 * bytes, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
    )
}

fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

fn count(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(value, 1000.0, &["", "k", "M"]))
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{}/s", scaled(value, 1000.0, &["", "k", "M"])))
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(1e6 * value, 1000.0, &["µs", "ms", "s"]))
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A server with an origin that is out.
    pub(crate) fn example() -> View {
        let status = json!({
            "version": "1.2.3", "uptime_seconds": 7_260,
            "problems": [{"severity": "critical", "what": "origin http://b.example is out: \u{1b}[31mtimeout", "help": "curl -v"}],
            "origins": {"servers": [{"url": "http://b.example", "up": false, "mean_seconds": null, "failed": 7}]},
            "cache": {
                "memory": {"bytes": 512 << 20, "bytes_max": 1 << 30, "in_service": true},
                "disks": [{"directory": "/disk", "bytes": 0, "bytes_max": 0, "in_service": false}],
            },
        });
        let history = json!({"at": 1, "series": {
            "sent_bytes_per_second": [1e9, 125e6], "origin_bytes_per_second": [1e9, 12.5e6],
            "requests_per_second": [0, 1234], "first_byte_p99_seconds": [0.0021, null],
        }});
        View::new("127.0.0.1:9600", &status, &history)
    }

    #[test]
    fn the_text_has_numbers_with_units_and_what_is_wrong() {
        let text = example().text();
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
        let view = View::new("x", &Value::Null, &Value::Null);
        assert_eq!(view.text(), ["Penstock ? at x, up 0 s", "nothing is wrong"]);
    }
}
