//! What is shown beside the overview: titles, players, certificates, nodes, keys and the store, each as tables.

use serde_json::Value;

use super::format::{bits, bytes, clean, count, duration, list, percent, rate, seconds};
use crate::arguments::TopTab;

/// Rows of a table; more are left out.
const ROWS: usize = 100;

/// A part of the view with a name and tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tab {
    pub(super) kind: TopTab,
    /// Those with rows.
    pub(super) tables: Vec<Table>,
}

/// A table: the first column is as wide as there is space, the others stand to the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) heads: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A text, and whether it is something wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) is_bad: bool,
}

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), is_bad: false }
}

/// Something that is wrong if `is_bad`.
fn judged(text: impl Into<String>, is_bad: bool) -> Cell {
    Cell { text: text.into(), is_bad }
}

impl Tab {
    /// Reads all of them from `/status.json`; what is missing there is left out. `now` is in seconds since 1970.
    pub(super) fn all(status: &Value, now: u64) -> Vec<Self> {
        let tables_of = |kind| match kind {
            TopTab::Overview => Vec::new(),
            TopTab::Titles => titles(status),
            TopTab::Players => players(status),
            TopTab::Certificates => certificates(status, now),
            TopTab::Nodes => vec![nodes(status)],
            TopTab::Keys => vec![keys(status)],
            TopTab::Store => store(status, now),
        };
        let tab = |kind: &TopTab| {
            let tables = tables_of(*kind).into_iter().filter(|table| !table.rows.is_empty());
            Self { kind: *kind, tables: tables.collect() }
        };
        TopTab::ALL.iter().map(tab).collect()
    }

    /// What is said instead of tables.
    pub(super) fn empty(&self) -> &'static str {
        match self.kind {
            TopTab::Overview => "",
            TopTab::Titles => "no title has been asked for",
            TopTab::Players => "no player has said anything (CMCD)",
            TopTab::Certificates => "there are no certificates",
            TopTab::Nodes => "this server belongs to no cluster",
            TopTab::Keys => "no private key is elsewhere",
            TopTab::Store => "this server belongs to no fleet",
        }
    }

    /// Its lines for `--once`.
    pub(super) fn text(&self) -> Vec<String> {
        if self.tables.is_empty() {
            return vec![self.empty().to_owned()];
        }
        self.tables.iter().flat_map(Table::text).collect()
    }
}

impl Table {
    fn new(heads: &'static [&'static str], rows: impl Iterator<Item = Vec<Cell>>) -> Self {
        Self { heads, rows: rows.take(ROWS).collect() }
    }

    /// The width of a column in letters.
    pub(super) fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
        cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0)
    }

    fn text(&self) -> Vec<String> {
        let line = |texts: Vec<&str>| {
            let aligned = texts.iter().enumerate().map(|(column, text)| {
                let width = self.width(column);
                if column == 0 { format!("{text:<width$}") } else { format!("  {text:>width$}") }
            });
            aligned.collect::<String>().trim_end().to_owned()
        };
        let rows = self.rows.iter().map(|row| line(row.iter().map(|cell| cell.text.as_str()).collect()));
        [line(self.heads.to_vec())].into_iter().chain(rows).collect()
    }
}

fn text_of(value: &Value) -> Cell {
    cell(clean(value.as_str().unwrap_or_default()))
}

fn number(value: &Value) -> Cell {
    cell(count(value.as_f64()))
}

/// A number that should be 0.
fn fault(value: f64) -> Cell {
    judged(count(Some(value)), value > 0.0)
}

/// A part of a whole, in percent; bad from a percent on.
fn share(part: f64, whole: f64) -> Cell {
    let share = (whole > 0.0).then(|| part / whole);
    judged(percent(share), share.is_some_and(|share| share > 0.01))
}

fn up(is_up: bool) -> Cell {
    judged(if is_up { "up" } else { "out" }, !is_up)
}

fn titles(status: &Value) -> Vec<Table> {
    let rows = |kind: &str| {
        let row = |title: Value| {
            let players = &title["players"];
            let starved = players["starved"].as_f64().unwrap_or(0.0);
            vec![
                text_of(&title["key"]),
                number(&title["requests"]),
                cell(bytes(title["bytes"].as_f64().unwrap_or(0.0))),
                share(starved, players["requests"].as_f64().unwrap_or(0.0)),
            ]
        };
        list(&status["top"][kind]).into_iter().map(row).collect::<Vec<_>>()
    };
    vec![
        Table::new(&["title, by bytes", "requests", "bytes", "starved"], rows("titles").into_iter()),
        Table::new(
            &["title, by requests", "requests", "bytes", "starved"],
            rows("titles_by_requests").into_iter(),
        ),
    ]
}

/// The requests in the first buckets, of all.
fn lowest(buckets: &Value, first: usize) -> Cell {
    let counts: Vec<f64> =
        list(buckets).iter().map(|bucket| bucket["requests"].as_f64().unwrap_or(0.0)).collect();
    let whole: f64 = counts.iter().sum();
    cell(percent((whole > 0.0).then(|| counts.iter().take(first).sum::<f64>() / whole)))
}

fn players(status: &Value) -> Vec<Table> {
    let row = |site: Value| {
        let players = &site["players"];
        players.is_object().then(|| {
            let of = |key: &str| players[key].as_f64().unwrap_or(0.0);
            vec![
                text_of(&site["name"]),
                number(&players["sessions"]),
                number(&players["requests"]),
                share(of("starved"), of("requests")),
                lowest(&players["buffer"], 2),
                lowest(&players["throughput"], 1),
                number(&players["startup"]),
            ]
        })
    };
    let heads = &["site", "sessions", "requests", "starved", "buffer<5s", "rate<1x", "starts"];
    let starved = |title: Value| vec![text_of(&title["key"]), number(&title["requests"])];
    vec![
        Table::new(heads, list(&status["sites"]).into_iter().filter_map(row)),
        Table::new(
            &["title that starves", "times"],
            list(&status["top"]["starved_titles"]).into_iter().map(starved),
        ),
    ]
}

/// The time until a moment in seconds since 1970; bad if it is less than two weeks ahead.
fn left(end: &Value, now: u64) -> Cell {
    const RENEWAL: u64 = 14 * 24 * 3600;
    match end.as_f64().and_then(whole) {
        None => cell("-"),
        Some(end) if end <= now => judged("over", true),
        Some(end) => judged(duration(end - now), end - now < RENEWAL),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since 1970")]
fn whole(seconds: f64) -> Option<u64> {
    (0.0..1e15).contains(&seconds).then_some(seconds as u64)
}

fn certificates(status: &Value, now: u64) -> Vec<Table> {
    let mut all = list(&status["certificates"]);
    let end = |one: &Value| one["not_after_timestamp_seconds"].as_f64().unwrap_or(0.0);
    all.sort_by(|one, other| end(one).total_cmp(&end(other)));
    let row = |one: Value| {
        vec![text_of(&one["subject"]), text_of(&one["kind"]), left(&one["not_after_timestamp_seconds"], now)]
    };
    let ordered = |one: Value| {
        let error = clean(one["error"].as_str().unwrap_or_default());
        let (state, is_bad) = (clean(one["state"].as_str().unwrap_or_default()), !error.is_empty());
        vec![
            cell(format!("{} {error}", clean(one["name"].as_str().unwrap_or_default()))),
            judged(state, is_bad),
            left(&one["not_after_timestamp_seconds"], now),
        ]
    };
    vec![
        Table::new(&["certificate", "key", "ends in"], all.into_iter().map(row)),
        Table::new(
            &["ordered name, with the last error", "state", "ends in"],
            list(&status["acme"]["names"]).into_iter().map(ordered),
        ),
    ]
}

fn nodes(status: &Value) -> Table {
    let row = |node: Value| {
        let of = |key: &str| node["summary"][key].as_f64();
        let hits = of("cache_hits_per_second")
            .zip(of("cache_requests_per_second"))
            .filter(|(_, requests)| *requests > 0.0)
            .map(|(hits, requests)| hits / requests);
        let problems = list(&node["summary"]["problems"]).len();
        vec![
            text_of(&node["name"]),
            if node["self"] == true { cell("this") } else { up(node["up"] == true) },
            cell(bits(of("sent_bytes_per_second"))),
            cell(rate(of("requests_per_second"))),
            cell(percent(hits)),
            cell(percent(of("workers_busy_mean_ratio").or_else(|| node["busy"].as_f64()))),
            fault(node["requests"]["failed"].as_f64().unwrap_or(0.0)),
            fault(node["purges_missed"].as_f64().unwrap_or(0.0)),
            fault(problems as f64),
        ]
    };
    let heads = &["node", "state", "out", "requests", "hits", "busy", "failed", "purges", "wrong"];
    Table::new(heads, list(&status["cluster"]).into_iter().map(row))
}

fn keys(status: &Value) -> Table {
    let keys = &status["private_keys"];
    let signers = list(&keys["keyservers"]).into_iter().map(|one| (one["address"].clone(), one));
    let tokens = list(&keys["tokens"]).into_iter().map(|one| (one["name"].clone(), one));
    let row = |(name, one): (Value, Value)| {
        let operations = &one["operations"];
        let of = |result: &str| operations[result].as_f64().unwrap_or(0.0);
        let is_open = one["circuit_open"] == true;
        vec![
            text_of(&name),
            if is_open { judged("gets none", true) } else { up(one["up"] == true) },
            cell(seconds(one["mean_seconds"].as_f64())),
            number(&operations["ok"]),
            fault(of("refused")),
            fault(of("timed_out")),
            fault(of("unavailable") + of("wrong_signature")),
            number(&one["under_way"]),
        ]
    };
    let heads =
        &["keyserver or token", "state", "mean", "signed", "refused", "too late", "failed", "under way"];
    Table::new(heads, signers.chain(tokens).map(row))
}

fn store(status: &Value, now: u64) -> Vec<Table> {
    let fleet = &status["fleet"];
    if !fleet.is_object() {
        return Vec::new();
    }
    let of = |key: &str| fleet[key].as_f64().unwrap_or(0.0);
    let state = match (fleet["up"] == true, fleet["circuit"] == "open") {
        (false, _) => judged("out", true),
        (true, true) => judged("too slow", true),
        (true, false) => cell("up"),
    };
    let facts = [
        ("state", state),
        ("latency", cell(seconds(fleet["latency_seconds"].as_f64()))),
        ("edges", number(&fleet["edges"])),
        ("secret", text_of(&fleet["secret_fingerprint"])),
        ("purges applied", number(&fleet["purges_applied"])),
        ("purges that wait for the store", fault(of("purges_waiting"))),
        ("whole cache purged", fault(of("purges_missed"))),
        ("revoked ids", number(&fleet["revoked_ids"])),
        ("edges with another secret", fault(of("edges_with_other_secret"))),
    ];
    let edge = |one: Value| {
        let silent = now.saturating_sub(one["seen_timestamp_seconds"].as_u64().unwrap_or(now));
        let state = match (one["self"] == true, one["up"] == true) {
            (true, _) => cell("this"),
            (false, true) => cell("up"),
            (false, false) => judged(format!("away for {}", duration(silent)), true),
        };
        vec![text_of(&one["name"]), state, fault(one["purges_missing"].as_f64().unwrap_or(0.0))]
    };
    vec![
        Table::new(
            &["store of the fleet", ""],
            facts.into_iter().map(|(name, value)| vec![cell(name), value]),
        ),
        Table::new(&["edge", "state", "purges to apply"], list(&fleet["members"]).into_iter().map(edge)),
    ]
}
