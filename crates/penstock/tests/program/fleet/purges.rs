//! Purges that reach every edge, also those that are away.

use std::io::{Read, Write};
use std::net::TcpStream;

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Server, Tool, until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::{Fleet, operations, serving, until_connected};

/// An edge with a cache.
pub(super) struct Edge {
    pub(super) server: Server,
    /// Where its memory tier is.
    pub(super) _memory: TempDir,
}

impl Edge {
    pub(super) fn start(fleet: &Fleet, name: &str, origin: &Origin) -> Self {
        let memory = penstock_testkit::memory_directory();
        let directory = memory.path().display();
        let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {directory}, size: 4MiB}}}}");
        let server = serving(&fleet.setup(name, "").sites(&origin.sites()).section(&cache));
        Self { server, _memory: memory }
    }

    pub(super) fn get(&self, path: &str) -> String {
        Client::plain(&self.server).get(path).text().to_owned()
    }

    /// Purges, and waits until the other edges that are there have applied it.
    pub(super) fn purge(&self, query: &str) -> Value {
        let mut stream = TcpStream::connect(self.server.admin()).unwrap();
        write!(
            stream,
            "POST /cache/purge?{query}&fleet=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["fleet"].clone()
    }

    fn count(&self, name: &str) -> f64 {
        self.server.metrics().sum(name, &[])
    }

    /// Ends it at once.
    fn kill(&self) {
        self.server.signal(Signal::KILL);
        self.server.wait();
    }

    fn start_again(&mut self) {
        self.server.start_again(Signal::KILL);
        until_connected(&self.server);
    }
}

/// An origin whose every answer is another one.
pub(super) fn counting() -> Origin {
    Origin::counting("Cache-Control: max-age=600\r\nCache-Tag: film\r\n")
}

/// How many edges have applied a purge, and how many there are.
pub(super) fn applied(report: &Value) -> (u64, u64) {
    assert_eq!(report["published"], true, "{report}");
    (report["applied"].as_u64().unwrap(), report["edges"].as_u64().unwrap())
}

#[test]
fn a_confirmed_purge_is_in_force_on_every_edge() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let edges = ["a", "b", "c"].map(|name| Edge::start(&fleet, name, &origin));
    for (number, query) in
        ["url=https://localhost/film", "prefix=/fi", "tag=film", "everything=1"].iter().enumerate()
    {
        let before: Vec<String> = edges.iter().map(|edge| edge.get("/film")).collect();
        assert_eq!(before, edges.iter().map(|edge| edge.get("/film")).collect::<Vec<_>>(), "cached");
        let report = edges[number % 3].purge(query);
        assert_eq!(applied(&report), (3, 3), "{report}");
        for (edge, before) in edges.iter().zip(before) {
            assert_ne!(edge.get("/film"), before, "{query}");
        }
    }
    let counted: f64 = edges.iter().map(|edge| edge.count("penstock_fleet_purges_applied_total")).sum();
    assert_eq!(counted, 8.0, "each was applied by the two others");
}

#[test]
fn the_command_says_how_many_edges_have_applied_a_purge() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let (one, other) = (Edge::start(&fleet, "a", &origin), Edge::start(&fleet, "b", &origin));
    let purge = || {
        let purge = Tool::penstock().args(["cache", "purge", "--everything", "--fleet", "-c"]);
        purge.arg(one.server.directory().join("penstock.yaml")).run()
    };
    let told = purge();
    assert_eq!(
        (told.code, told.stdout),
        (0, b"purged 0 objects\napplied by 2 of 2 edges\n".to_vec()),
        "{}",
        told.stderr
    );
    // An edge that does not answer any more is missed, at first as one that is there.
    other.server.signal(Signal::STOP);
    let told = purge();
    assert_eq!(told.code, 1);
    assert!(
        told.stderr.contains("b has not answered yet") || told.stderr.contains("b is away"),
        "{}",
        told.stderr
    );
    let told = until("it to count as away", || {
        let told = purge();
        told.stderr.contains("b is away, last seen ").then_some(told)
    });
    assert!(String::from_utf8(told.stdout).unwrap().contains("applied by 1 of 2 edges"));
    other.server.signal(Signal::CONT);
    until("it to be back", || (purge().code == 0).then_some(()));
    // One that ends in an orderly way is not missed.
    drop(other);
    until("one edge", || {
        String::from_utf8(purge().stdout).unwrap().contains("applied by 1 of 1 edges").then_some(())
    });
}

#[test]
fn an_edge_that_was_away_applies_what_it_missed_before_it_serves() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let one = Edge::start(&fleet, "a", &origin);
    let mut other = Edge::start(&fleet, "b", &origin);
    assert_eq!(applied(&one.purge("url=/nothing")), (2, 2));
    let (film, kept) = (other.get("/film"), other.get("/kept"));
    other.kill();
    let report = one.purge("url=/film");
    assert_eq!(applied(&report), (1, 2), "{report}");
    assert_eq!(report["missing"][0]["name"], "b", "{report}");
    other.start_again();
    assert_ne!(other.get("/film"), film);
    assert_eq!(other.get("/kept"), kept, "nothing else is purged");
    assert_eq!(other.count("penstock_fleet_purges_applied_total"), 1.0);
    assert_eq!(other.count("penstock_fleet_purges_missed_total"), 0.0);
}

/// What an edge says of the purges that another one has yet to apply: in the metric, and in its status.
fn missing(of: &Edge, name: &str) -> Option<(f64, Value)> {
    let mut client = Client::connect(of.server.admin());
    client.ask("/status.json");
    let status: Value = serde_json::from_str(client.response().unwrap().text()).unwrap();
    let members = status["fleet"]["members"].as_array()?;
    let member = members.iter().find(|member| member["name"] == name)?.clone();
    let label = format!("edge=\"{name}\"");
    Some((of.server.metrics().sum("penstock_fleet_edge_purges_missing", &[&label]), member))
}

#[test]
fn every_edge_says_how_many_purges_another_one_misses_until_it_has_applied_them() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let edges = ["a", "c"].map(|name| Edge::start(&fleet, name, &origin));
    let mut other = Edge::start(&fleet, "b", &origin);
    assert_eq!(applied(&edges[0].purge("url=/nothing")), (3, 3));
    until("all edges to be seen", || {
        let (missing, member) = missing(&edges[1], "b")?;
        (missing == 0.0 && member["up"] == true).then_some(())
    });
    other.kill();
    edges[0].purge("url=/film");
    edges[1].purge("url=/other");
    for edge in &edges {
        let member = until("two purges that are missing", || {
            let (missing, member) = missing(edge, "b")?;
            (missing == 2.0 && member["up"] == false).then_some(member)
        });
        assert_eq!((&member["purges_missing"], &member["self"]), (&2.into(), &false.into()));
        assert!(member["seen_timestamp_seconds"].as_u64().unwrap() > 1_700_000_000, "{member}");
    }
    let (own, member) = missing(&edges[0], "a").unwrap();
    assert_eq!((own, &member["self"]), (0.0, &true.into()), "an edge has no metric of itself");
    let what = until("the problem", || {
        let mut client = Client::connect(edges[1].server.admin());
        client.ask("/status.json");
        let status: Value = serde_json::from_str(client.response().unwrap().text()).unwrap();
        let problems = status["problems"].as_array()?.clone();
        problems.into_iter().find_map(|problem| {
            Some(problem["what"].as_str()?.to_owned()).filter(|what| what.contains("edge b"))
        })
    });
    assert!(
        what.starts_with("edge b of the fleet, away for ") && what.ends_with(" has yet to apply 2 purges"),
        "{what}"
    );
    other.start_again();
    for edge in &edges {
        until("no purge that is missing", || (missing(edge, "b")?.0 == 0.0).then_some(()));
    }
}

#[test]
fn an_edge_that_missed_what_is_no_longer_there_purges_everything() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let one = Edge::start(&fleet, "a", &origin);
    let mut other = Edge::start(&fleet, "b", &origin);
    assert_eq!(applied(&one.purge("url=/nothing")), (2, 2));
    let kept = other.get("/kept");
    other.kill();
    one.purge("url=/film");
    one.server.tolerate_warning("fleet: this edge was away for so long");
    assert_eq!(fleet.store.command(&["XTRIM", &fleet.store.name("penstock:*:purges"), "MAXLEN", "0"]), "2\n");
    other.server.expect_warning("fleet: this edge was away for so long that purges which it missed");
    other.start_again();
    assert_ne!(other.get("/kept"), kept);
    assert_eq!(other.count("penstock_fleet_purges_missed_total"), 1.0);
}

#[test]
fn a_purge_without_the_store_reaches_the_others_when_it_is_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let origin = counting();
    let (one, other) = (Edge::start(&fleet, "a", &origin), Edge::start(&fleet, "b", &origin));
    let (here, there) = (one.get("/film"), other.get("/film"));
    fleet.store.kill();
    until("the loss", || (one.count("penstock_fleet_up") == 0.0).then_some(()));
    let report = one.purge("url=/film");
    assert_eq!(report["published"], false, "{report}");
    assert_ne!(one.get("/film"), here);
    assert_eq!(other.get("/film"), there, "clients are served meanwhile");
    assert_eq!(one.count("penstock_fleet_purges_waiting"), 1.0);
    fleet.store.start_again();
    until("the purge", || (other.count("penstock_fleet_purges_applied_total") == 1.0).then_some(()));
    assert_ne!(other.get("/film"), there);
    assert_eq!(one.count("penstock_fleet_purges_waiting"), 0.0);
}

#[test]
fn a_purge_without_the_store_reaches_the_others_although_its_edge_starts_again() {
    let Some(mut fleet) = Fleet::start() else { return };
    let origin = counting();
    let (mut one, other) = (Edge::start(&fleet, "a", &origin), Edge::start(&fleet, "b", &origin));
    let there = other.get("/film");
    fleet.store.kill();
    until("the loss", || (one.count("penstock_fleet_up") == 0.0).then_some(()));
    assert_eq!(one.purge("url=/film")["published"], false);
    one.server.start_again(Signal::KILL);
    assert_eq!(one.count("penstock_fleet_purges_waiting"), 1.0);
    fleet.store.start_again();
    until("the purge", || (other.count("penstock_fleet_purges_applied_total") == 1.0).then_some(()));
    assert_ne!(other.get("/film"), there);
    until("nothing to wait", || (one.count("penstock_fleet_purges_waiting") == 0.0).then_some(()));
}

#[test]
fn an_edge_that_was_away_while_the_store_was_emptied_misses_no_purge_of_the_last_minutes() {
    let Some(mut fleet) = Fleet::start() else { return };
    let origin = counting();
    let one = Edge::start(&fleet, "a", &origin);
    let mut other = Edge::start(&fleet, "b", &origin);
    let film = other.get("/film");
    other.kill();
    assert_eq!(applied(&one.purge("url=/film")).0, 1);
    fleet.store.kill();
    fleet.store.start_again();
    until_connected(&one.server);
    until("the purge in the new store", || {
        (operations(&one.server, "purge_write", "ok") >= 2.0).then_some(())
    });
    other.start_again();
    assert_ne!(other.get("/film"), film);
    assert_eq!(other.count("penstock_fleet_purges_missed_total"), 0.0);
}

#[test]
fn a_store_that_comes_back_from_an_older_snapshot_loses_no_purge() {
    let Some(mut fleet) = Fleet::start() else { return };
    let origin = counting();
    let one = Edge::start(&fleet, "a", &origin);
    let [mut other, third] = ["b", "c"].map(|name| Edge::start(&fleet, name, &origin));
    // The snapshot has a purge.
    assert_eq!(applied(&one.purge("url=/nothing")), (3, 3));
    assert_eq!(fleet.store.command(&["SAVE"]), "OK\n");
    let film = other.get("/film");
    let kept = [&one, &other, &third].map(|edge| edge.get("/kept"));
    other.kill();
    assert_eq!(applied(&one.purge("url=/film")).0, 2);
    fleet.store.kill();
    one.server.expect_warning("fleet: the store came back without the last purges");
    fleet.store.start_again();
    until_connected(&one.server);
    one.server.wait_for_log("fleet: the store came back without the last purges");
    until("the purge in the store", || (operations(&one.server, "purge_write", "ok") >= 3.0).then_some(()));
    other.start_again();
    assert_ne!(other.get("/film"), film, "the purge that it missed was in no snapshot");
    assert_eq!([&one, &other, &third].map(|edge| edge.get("/kept")), kept, "no edge purges everything");
    for edge in [&one, &other, &third] {
        assert_eq!(edge.count("penstock_fleet_purges_missed_total"), 0.0);
    }
}

#[test]
fn purges_that_this_fleet_did_not_seal_are_not_applied() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let edge = Edge::start(&fleet, "a", &origin);
    edge.purge("url=/nothing");
    let film = edge.get("/film");
    let stream = fleet.store.name("penstock:*:purges");
    assert!(fleet.store.command(&["XADD", &stream, "*", "p", "e0"]).contains('-'));
    until("the forgery to be counted", || {
        (operations(&edge.server, "purge_read", "forged") == 1.0).then_some(())
    });
    assert_eq!(edge.get("/film"), film);
}
