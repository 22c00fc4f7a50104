//! The alerts of `contrib/prometheus` on servers that are really broken: one Prometheus scrapes all of them, and evaluates the rules.

mod cases;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use penstock_testkit::{Process, ReservedAddress, Setup, Tool, disk_directory, until};
use serde_json::Value;
use tempfile::TempDir;

use crate::contrib::dashboard_queries;

/// A server of which something is going to break.
struct Case {
    /// Its label `instance`.
    name: &'static str,
    admin: SocketAddr,
    /// All alerts that fire then.
    alerts: &'static [&'static str],
    /// Breaks it. Called until the alerts fire, so that counters grow between two scrapes. Owns the server.
    break_it: Box<dyn FnMut()>,
}

/// An instance and an alert.
type Fired = BTreeSet<(String, String)>;

/// Alerts that fire in `contrib/prometheus/alerts_test.yml` only, with series that were written by hand.
const SYNTHETIC: [(&str, &str); 7] = [
    ("PenstockPanics", "needs a bug"),
    ("PenstockWorkersBusy", "needs all cores for as long as the rule says"),
    ("PenstockGivesUp", "needs a load for as long as the rule says"),
    ("PenstockVersionsDiffer", "needs another version of the program"),
    ("PenstockFleetStoreFlaps", "needs more than ten losses, between which an edge waits"),
    ("PenstockFleetRevokedIdsDropped", "needs a million revoked tokens"),
    ("HardwareModuleFails", "needs a module that fails while it is up"),
];

/// Between two questions to Prometheus, which evaluates the rules once a second.
const PAUSE: Duration = Duration::from_millis(200);

/// A running Prometheus, with the rules that are shipped. The alerts that are to fire do so after a second.
struct Prometheus {
    address: ReservedAddress,
    _process: Process,
    _directory: TempDir,
}

impl Prometheus {
    fn watch(cases: &[Case], wanted: &[&str]) -> Self {
        let (directory, address) = (disk_directory(), ReservedAddress::reserve());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus/alerts.yml");
        let alerts = sooner(&fs::read_to_string(file).unwrap(), wanted);
        fs::write(directory.path().join("alerts.yml"), alerts).unwrap();
        let mut config = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n\
            rule_files: [alerts.yml]\nscrape_configs:\n- job_name: penstock\n  static_configs:\n"
            .to_owned();
        for Case { name, admin, .. } in cases {
            writeln!(config, "  - {{targets: [\"{admin}\"], labels: {{instance: {name}}}}}").unwrap();
        }
        fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        let said = File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command.args(["--config.file", "prometheus.yml", "--storage.tsdb.path", "data"]);
        command.args(["--web.listen-address", &address.to_string()]).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let process = Process::spawn(&mut command).expect("prometheus, which scripts/install-needs installs");
        Self { address, _process: process, _directory: directory }
    }

    /// The data of an answer of its API; `None` while it starts.
    fn ask(&self, path: &str) -> Option<Value> {
        thread::sleep(PAUSE);
        let url = format!("http://{}/api/v1/{path}", self.address);
        let done = Tool::new("curl").args(["--silent", "--max-time", "20", &url]).run();
        let mut answer: Value = serde_json::from_slice(&done.stdout).ok()?;
        (answer["status"] == "success").then(|| answer["data"].take())
    }

    /// Waits until it has scraped all of them.
    fn wait_for(&self, targets: usize) {
        let all = targets.to_string();
        until("a scrape of all servers", || {
            let up = self.ask("query?query=sum(up)")?;
            (up["result"][0]["value"][1].as_str()? == all).then_some(())
        });
    }

    /// Evaluates the queries of the dashboards for an instance: some faults show with data only, such as series that match several
    /// others. Returns how many had a result.
    fn evaluate_dashboards(&self, instance: &str) -> usize {
        let url = format!("http://{}/api/v1/query", self.address);
        let queries = dashboard_queries(instance);
        let found = queries.iter().filter(|query| {
            let argument = format!("query={query}");
            let curl =
                Tool::new("curl").args(["--silent", "--max-time", "20", "--data-urlencode", &argument]);
            let answer: Value = serde_json::from_slice(&curl.arg(&url).run().ok().stdout).unwrap();
            assert_eq!(answer["status"], "success", "{query}: {answer}");
            answer["data"]["result"].as_array().is_some_and(|result| !result.is_empty())
        });
        found.count()
    }

    fn firing(&self) -> Fired {
        let alerts = self.ask("alerts").unwrap_or_default();
        let firing =
            alerts["alerts"].as_array().into_iter().flatten().filter(|alert| alert["state"] == "firing");
        let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
        firing.map(|alert| (label(alert, "instance"), label(alert, "alertname"))).collect()
    }
}

/// The rules, of which these need not be true for longer than a second.
fn sooner(rules: &str, wanted: &[&str]) -> String {
    let mut is_wanted = false;
    let lines = rules.lines().map(|line| {
        if let Some(name) = line.trim().strip_prefix("- alert: ") {
            is_wanted = wanted.contains(&name);
        }
        if is_wanted && line.trim().starts_with("for: ") { "    for: 1s" } else { line }
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_alert_fires_when_its_part_really_breaks_and_none_before() {
    let well = Setup::new().start();
    let admin = well.admin();
    let none = Case { name: "well", admin, alerts: &[], break_it: Box::new(move || drop(well.metrics())) };
    let mut cases = cases::all();
    cases.push(none);
    let wanted: Vec<&str> = cases.iter().flat_map(|case| case.alerts).copied().collect();
    let prometheus = Prometheus::watch(&cases, &wanted);
    prometheus.wait_for(cases.len());
    assert_eq!(prometheus.firing(), Fired::new(), "nothing is broken yet");
    let expected: Fired = cases
        .iter()
        .flat_map(|case| case.alerts.iter().map(|&alert| (case.name.to_owned(), alert.to_owned())))
        .collect();
    until("the alerts", || {
        let firing = prometheus.firing();
        let has_fired = |case: &Case| {
            case.alerts.iter().all(|&alert| firing.contains(&(case.name.to_owned(), alert.to_owned())))
        };
        cases.iter_mut().filter(|case| !has_fired(case)).for_each(|case| (case.break_it)());
        println!("missing: {:?}", expected.difference(&firing).collect::<Vec<_>>());
        println!("too many: {:?}", firing.difference(&expected).collect::<Vec<_>>());
        (firing == expected).then_some(())
    });
    for instance in ["well", "origin"] {
        let found = prometheus.evaluate_dashboards(instance);
        assert!(found > 30, "{instance}: {found}");
    }
}

#[test]
fn an_alert_that_no_broken_server_fires_is_listed_with_the_reason() {
    let rules =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus/alerts.yml"))
            .unwrap();
    let all: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let listed = SYNTHETIC.iter().map(|(name, _)| *name).chain(cases::ALERTS.concat());
    let listed: Vec<&str> = listed.collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), all);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability.md");
    let docs = fs::read_to_string(docs).unwrap();
    for (name, reason) in SYNTHETIC {
        assert!(docs.contains(&format!("| `{name}` | {reason} |")), "{name} is not in docs/observability.md");
        assert!(!cases::ALERTS.concat().contains(&name), "{name} is fired by a broken server");
    }
}
