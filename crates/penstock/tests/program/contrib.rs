//! What other programs are given: alerts and dashboards name metrics that exist, and the alerts fire.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use penstock_testkit::{Client, Setup, Tool, disk_directory, memory_directory, until};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

/// The metrics of docs/metrics.md: their kinds and labels.
type Table = BTreeMap<String, (String, Vec<String>)>;

fn table() -> Table {
    let text = read("docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].trim_matches(['|', ' ', '`']).to_owned();
        let labels = cells.last().unwrap().trim_end_matches(" |").split("<br>");
        let labels = labels.filter_map(|label| label.split('`').nth(1)).map(str::to_owned).collect();
        (name, (cells[1].to_owned(), labels))
    })
    .collect()
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The metrics that a query names, each with its place.
fn names(query: &str) -> Vec<(usize, &str)> {
    let (mut names, mut from) = (Vec::new(), 0);
    let next =
        |from: usize| ["penstock_", "process_"].iter().filter_map(|prefix| query[from..].find(prefix)).min();
    while let Some(begin) = next(from) {
        let found = &query[from + begin..];
        let name = &found[..found.find(|letter| !is_name(letter)).unwrap_or(found.len())];
        names.push((from + begin, name));
        from += begin + name.len();
    }
    names
}

/// Kind and labels of a metric, or of a part of a histogram, which is a counter.
fn look_up<'t>(name: &str, table: &'t Table) -> Option<(&'t str, &'t [String])> {
    if let Some((kind, labels)) = table.get(name) {
        return Some((kind, labels));
    }
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    let (_, labels) = table.get(family).filter(|(kind, _)| kind == "histogram")?;
    Some(("counter", labels))
}

/// The faults of a query: metrics that do not exist, and labels that they do not have.
fn faults(query: &str, table: &Table) -> Vec<String> {
    let (mut faults, mut known_labels) = (Vec::new(), OF_PROMETHEUS.to_vec());
    for (place, name) in names(query) {
        let rest = &query[place + name.len()..];
        let Some((_, labels)) = look_up(name, table) else {
            faults.push(format!("there is no metric {name}"));
            continue;
        };
        known_labels.extend(labels.iter().map(String::as_str));
        let selector =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
        // No value in these files has a comma.
        for condition in selector.split(',').filter(|condition| condition.contains(['=', '~'])) {
            let label = condition.split(['=', '!']).next().unwrap().trim();
            if !labels.iter().any(|known| known == label) && !OF_PROMETHEUS.contains(&label) {
                faults.push(format!("{name} has no label {label}"));
            }
        }
    }
    let groups = ["by (", "on (", "without ("].into_iter().flat_map(|word| query.split(word).skip(1));
    let named = groups.filter_map(|rest| rest.split_once(')')).flat_map(|(inside, _)| inside.split(','));
    let unknown = named.map(str::trim).filter(|label| !label.is_empty() && !known_labels.contains(label));
    faults.extend(unknown.map(|label| format!("no metric of the query has the label {label}")));
    faults
}

#[test]
fn a_query_with_a_wrong_metric_or_label_is_found() {
    let table = table();
    assert!(table.len() > 100 && table["penstock_requests_total"].1 == ["status", "method"], "{table:?}");
    for (query, wanted) in [
        ("sum(rate(penstock_requests_total{status=\"5xx\",instance=\"a\"}[5m]))", None),
        ("penstock_handshake_seconds_bucket{le=\"1\"}", None),
        ("penstock_request_total", Some("there is no metric penstock_request_total")),
        ("penstock_requests_total_sum", Some("there is no metric penstock_requests_total_sum")),
        ("sum by (status, method) (rate(penstock_requests_total[5m]))", None),
        (
            "sum by (code) (rate(penstock_requests_total[5m]))",
            Some("no metric of the query has the label code"),
        ),
        ("up + penstock_requests_total{code!~\"5..\"}", Some("penstock_requests_total has no label code")),
    ] {
        assert_eq!(faults(query, &table).first().map(String::as_str), wanted, "{query}");
    }
}

/// What Prometheus would evaluate to a number that says nothing: a counter instead of its growth, the growth of a gauge, or a
/// quantile of what has no buckets.
fn nonsense(query: &str, table: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, name) in names(query) {
        let Some((kind, _)) = look_up(name, table) else { continue };
        let grows = ["rate(", "increase("].iter().any(|function| query[..place].ends_with(function));
        match kind {
            "counter" if !grows => faults.push(format!("{name} is a counter: ask for its growth")),
            "gauge" if grows => faults.push(format!("{name} is a gauge, and has no growth")),
            "histogram" => faults.push(format!("{name} is a histogram: ask for a part of it")),
            _ => {}
        }
    }
    for quantile in query.split("histogram_quantile(").skip(1) {
        let by = quantile.split_once("by (").and_then(|(_, rest)| rest.split_once(')'));
        let is_by_le = by.is_some_and(|(labels, _)| labels.split(',').any(|label| label.trim() == "le"));
        if !is_by_le || !names(quantile).first().is_some_and(|(_, name)| name.ends_with("_bucket")) {
            faults.push("a quantile needs the buckets by `le`".to_owned());
        }
    }
    faults
}

#[test]
fn a_query_whose_number_says_nothing_is_found() {
    let table = table();
    for (query, wanted) in [
        ("sum by (site) (rate(penstock_site_requests_total[5m]))", None),
        ("increase(penstock_player_sessions_total[1h])", None),
        ("sum(penstock_requests_total)", Some("penstock_requests_total is a counter: ask for its growth")),
        ("rate(penstock_fleet_edges[5m])", Some("penstock_fleet_edges is a gauge, and has no growth")),
        (
            "rate(penstock_request_seconds[5m])",
            Some("penstock_request_seconds is a histogram: ask for a part of it"),
        ),
        (
            "histogram_quantile(0.9, sum by (site, le) (rate(penstock_player_buffer_seconds_bucket[5m])))",
            None,
        ),
        (
            "histogram_quantile(0.9, sum by (site) (rate(penstock_player_buffer_seconds_bucket[5m])))",
            Some("a quantile needs the buckets by `le`"),
        ),
        (
            "histogram_quantile(0.9, sum by (le) (rate(penstock_player_buffer_seconds_sum[5m])))",
            Some("a quantile needs the buckets by `le`"),
        ),
    ] {
        assert_eq!(nonsense(query, &table).first().map(String::as_str), wanted, "{query}");
    }
}

/// Has promtool parse queries, as the expressions of rules.
fn parse(queries: &[String]) {
    let mut text = "groups:\n- name: queries\n  rules:\n".to_owned();
    for (place, query) in queries.iter().enumerate() {
        // A dashboard's variables are none of Prometheus.
        let query = query.replace("$__rate_interval", "5m").replace('\'', "''");
        writeln!(text, "  - {{record: 'query:{place}', expr: '{query}'}}").unwrap();
    }
    let folder = disk_directory();
    fs::write(folder.path().join("queries.yml"), text).unwrap();
    Tool::new("promtool").args(["check", "rules", "queries.yml"]).directory(folder.path()).run().ok();
}

/// All texts under the key `expr`.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, member)| match member {
            Value::String(text) if key == "expr" => found.push(text.clone()),
            _ => queries(member, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

/// The queries of a dashboard.
fn queries_of(dashboard: &str) -> Vec<String> {
    let mut found = Vec::new();
    queries(&serde_json::from_str(dashboard).unwrap(), &mut found);
    found
}

/// The queries of both dashboards, for a Prometheus that has scraped this instance.
pub(super) fn dashboard_queries(instance: &str) -> Vec<String> {
    let of = |(file, _)| queries_of(&read(&format!("contrib/grafana/{file}")));
    let found = DASHBOARDS.into_iter().flat_map(of);
    found.map(|query| query.replace("$instance", instance).replace("$__rate_interval", "1m")).collect()
}

/// The dashboards, each with the number of queries that it has at least.
const DASHBOARDS: [(&str, usize); 2] = [("edge.json", 65), ("fleet.json", 25)];

/// All metrics of these parts are on the dashboard of an edge.
#[test]
fn the_dashboards_show_sites_players_clients_and_the_fleet() {
    let shown: String = DASHBOARDS.map(|(file, _)| read(&format!("contrib/grafana/{file}"))).concat();
    const PARTS: [&str; 7] = [
        "penstock_fleet_edge_",
        "penstock_site_",
        "penstock_player_",
        "penstock_client_",
        "penstock_origin_target_",
        "penstock_fleet_purges_",
        "penstock_fleet_edges",
    ];
    for name in table().keys().filter(|name| PARTS.iter().any(|part| name.starts_with(part))) {
        assert!(shown.contains(name.as_str()), "{name}");
    }
    for name in ["penstock_cache_bytes_max", "penstock_cache_disk_bytes_max"] {
        assert!(shown.contains(name), "{name}");
    }
}

#[test]
fn each_query_of_a_dashboard_asks_for_metrics_and_labels_that_exist() {
    let table = table();
    for (file, least) in DASHBOARDS {
        let text = read(&format!("contrib/grafana/{file}"));
        let found = queries_of(&text);
        assert!(found.len() >= least, "{file}: {}", found.len());
        let known = |query: &String| {
            query.contains("penstock_") || query.contains("process_") || query.contains("ALERTS")
        };
        for query in &found {
            assert!(known(query), "{file}: {query}");
            assert_eq!(faults(query, &table), [""; 0], "{file}: {query}");
            assert_eq!(nonsense(query, &table), [""; 0], "{file}: {query}");
        }
        parse(&found);
    }
}

#[test]
fn the_queries_of_the_documentation_ask_for_metrics_that_exist() {
    let table = table();
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let text = if path.is_file() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        for block in text.split("```promql\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            for line in block.lines().filter(|line| !line.is_empty()) {
                match found.last_mut().filter(|_| line.starts_with(' ')) {
                    Some(query) => query.push_str(line),
                    None => found.push(line.to_owned()),
                }
            }
        }
    }
    assert!(found.len() >= 30, "{}", found.len());
    for query in &found {
        assert_eq!(faults(query, &table), [""; 0], "{query}");
        assert_eq!(nonsense(query, &table), [""; 0], "{query}");
    }
    parse(&found);
}

/// Whether docs/configuration.md, which is made from the program, has this key.
fn is_key(key: &str, documentation: &str) -> bool {
    let (section, name) = key.rsplit_once('.').unwrap();
    let heading = format!("## `{section}`");
    let rows = documentation.split("\n## ").find(|part| format!("## {part}").starts_with(&heading));
    rows.is_some_and(|rows| rows.contains(&format!("\n| `{name}` |")))
        || documentation.contains(&format!("## `{key}`"))
}

/// The texts between quotation marks of the source of the problems, with the file of each.
fn problem_texts() -> Vec<(PathBuf, String)> {
    let folder = root().join("crates/metrics/src/watch/problems");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.file_name().is_some_and(|name| name != "tests.rs"));
    let texts = |path: PathBuf| -> Vec<(PathBuf, String)> {
        let source = fs::read_to_string(&path).unwrap();
        source.split('"').skip(1).step_by(2).map(|text| (path.clone(), text.to_owned())).collect()
    };
    sources.flat_map(texts).collect()
}

#[test]
fn what_the_page_says_to_do_names_keys_that_exist() {
    const SECTIONS: [&str; 9] =
        ["cache", "fleet", "limits", "listeners", "log", "metrics", "origin", "sites", "tls"];
    let documentation = read("docs/configuration.md");
    let mut found = 0;
    for (path, words) in problem_texts() {
        let keys = words.split(|letter| !is_name(letter) && letter != '.').map(|key| key.trim_matches('.'));
        for key in keys.filter(|key| {
            key.split_once('.').is_some_and(|(section, name)| SECTIONS.contains(&section) && name != "md")
        }) {
            assert!(is_key(key, &documentation), "{}: {words}: there is no key {key}", path.display());
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn what_the_page_says_to_do_names_commands_metrics_and_documents_that_exist() {
    let (table, mut found) = (table(), 0);
    for (path, words) in problem_texts() {
        let place = path.display();
        for after in words.split("penstock ").skip(1).filter(|after| after.starts_with(char::is_lowercase)) {
            // Subcommands and options, up to the first word that is neither: `cache purge --fleet -c FILE waits`.
            let is_word = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
            let is_of_command =
                |word: &&str| word.starts_with('-') || (is_word(word) && !["shows", "has"].contains(word));
            let words_of_command = after.split(' ').take_while(is_of_command);
            let (options, command): (Vec<&str>, Vec<&str>) =
                words_of_command.partition(|word| word.starts_with('-'));
            let help = Tool::penstock().args(&command).arg("--help").run().ok().text();
            for option in options {
                assert!(help.contains(option), "{place}: {words}: {command:?} has no {option}");
            }
            found += 1;
        }
        for name in words.split(|letter| !is_name(letter)).filter(|name| name.starts_with("penstock_")) {
            assert!(look_up(name, &table).is_some() || table.contains_key(name), "{place}: {words}: {name}");
        }
        for name in words.split([' ', ';', ':', ')', '(']).filter(|name| name.ends_with(".md")) {
            assert!(root().join(name).is_file(), "{place}: {words}: there is no {name}");
            found += 1;
        }
    }
    assert!(found > 15, "{found}");
}

#[test]
fn promtool_accepts_the_alerts_and_each_fires_in_its_test() {
    let table = table();
    let folder = root().join("contrib/prometheus");
    Tool::new("promtool").args(["check", "rules", "alerts.yml"]).directory(&folder).run().ok();
    Tool::new("promtool").args(["test", "rules", "alerts_test.yml"]).directory(&folder).run().ok();
    let (alerts, tests) = (read("contrib/prometheus/alerts.yml"), read("contrib/prometheus/alerts_test.yml"));
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in &names {
        assert!(tests.contains(&format!("alertname=\"{name}\",alertstate=\"firing\"")), "{name} has no test");
    }
    for line in alerts.lines().filter(|line| line.trim().starts_with("expr: ")) {
        assert_eq!(faults(line, &table), [""; 0], "{line}");
    }
}

#[test]
fn each_alert_of_the_documentation_is_in_the_file_with_the_same_expression() {
    let pairs = |text: &str| -> BTreeMap<String, String> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let pair = |window: &[&str]| {
            // A comment may follow.
            let name = window[0].strip_prefix("- alert: ")?.split(" #").next()?.trim();
            let expression = window[1].strip_prefix("expr: ")?.trim_matches('\'').replace("''", "'");
            Some((name.to_owned(), expression))
        };
        lines.windows(2).filter_map(pair).collect()
    };
    let alerts = pairs(&read("contrib/prometheus/alerts.yml"));
    let mut seen = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        for (name, expression) in pairs(&fs::read_to_string(&path).unwrap()) {
            assert_eq!(alerts.get(&name), Some(&expression), "{}: {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 13, "{seen}");
}

/// A test for promtool in which everything stays as it was in this scrape, and these alerts fire.
fn test_of(metrics: &BTreeMap<String, f64>, alerts: &[&str]) -> String {
    let mut text = format!("rule_files: ['{}']\n", root().join("contrib/prometheus/alerts.yml").display());
    text.push_str("evaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n");
    for (series, value) in metrics {
        // promtool's clock begins in 1970, so ends of certificates are told from now on.
        let value = if series.contains("timestamp_seconds") { (value - now()).max(0.0) } else { *value };
        writeln!(text, "  - {{series: '{series}', values: '{value}x30'}}").unwrap();
    }
    text.push_str("  promql_expr_test:\n");
    let expression = "count by (alertname) (ALERTS{alertstate=\"firing\"} > 0)";
    writeln!(text, "  - expr: '{expression}'\n    eval_time: 20m\n    exp_samples:").unwrap();
    for alert in alerts {
        writeln!(text, "    - {{labels: '{{alertname=\"{alert}\"}}', value: 1}}").unwrap();
    }
    text
}

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn the_metrics_of_a_server_whose_origin_is_out_fire_that_alert_and_those_of_a_well_one_none() {
    let check = |metrics: &BTreeMap<String, f64>, alerts: &[&str], folder: &Path| {
        let file = folder.join("alerts_test.yml");
        fs::write(&file, test_of(metrics, alerts)).unwrap();
        Tool::new("promtool").args(["test", "rules"]).arg(&file).run().ok();
    };
    let sites =
        "- {hosts: [bad.test], origin: {http: [\"http://127.0.0.1:1\"]}}\n- origin: {directory: root}";
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(sites).section(&cache).start();
    server.tolerate_warning("origin http://127.0.0.1:1 is out");
    // The certificates of tests are valid for a few days.
    let shown = |name: &str| !name.starts_with("penstock_certificate_expiry");
    let metrics = || -> BTreeMap<String, f64> {
        server.metrics().0.into_iter().filter(|(series, _)| shown(series)).collect()
    };
    check(&metrics(), &[], server.directory());
    let mut client = Client::plain(&server);
    until("the origin to be out", || {
        client.request("GET /a HTTP/1.1\r\nHost: bad.test\r\n\r\n");
        (server.metrics().sum("penstock_origin_target_up", &[]) == 0.0).then_some(())
    });
    check(&metrics(), &["PenstockOriginDown"], server.directory());
}
