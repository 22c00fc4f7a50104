//! Revoked tokens that every edge refuses, also those that were away, and a store that lost them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Client, Finished, Server, Tool, until};
use rustix::process::Signal;

use super::{Fleet, operations, serving, until_connected};

const KEY: &str = "00112233445566778899aabbccddeeff";

/// An edge with a site whose requests need tokens.
fn edge(fleet: &Fleet, name: &str) -> Server {
    serving(&setup(fleet, name))
}

fn setup(fleet: &Fleet, name: &str) -> penstock_testkit::Setup {
    let key = key(fleet);
    let site = format!("- origin: {{directory: root}}\n  tokens: {{format: penstock, key: {key}}}");
    fleet.setup(name, "").sites(&site)
}

fn key(fleet: &Fleet) -> String {
    let key = fleet.path().join("token.key");
    // Once: edges follow it.
    if !key.exists() {
        fs::write(&key, KEY).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    key.display().to_string()
}

/// A URL with a token of this id.
fn signed(fleet: &Fleet, id: &str) -> String {
    let words = ["sign", "/a.mp4", "--key-id", "any", "--id", id, "--expires", "1h", "--key-file"];
    Tool::penstock().args(words).arg(key(fleet)).run().ok().text().trim().to_owned()
}

fn status(edge: &Server, target: &str) -> u16 {
    Client::plain(edge).get(target).status
}

fn revoke(edge: &Server, words: &[&str]) -> Finished {
    let file = edge.directory().join("penstock.yaml");
    Tool::penstock().args(["revoke", "--expires", "1h", "-c"]).arg(file).args(words).run()
}

/// Revokes an id, and waits until so many edges refuse it.
fn revoke_everywhere(edge: &Server, id: &str, edges: usize) {
    let said = revoke(edge, &[id, "--fleet"]).ok().text();
    assert_eq!(said, format!("revoked 1 id\napplied by {edges} of {edges} edges\n"));
}

fn count(edge: &Server, name: &str) -> f64 {
    edge.metrics().sum(name, &[])
}

fn until_saved(fleet: &Fleet, name: &str) {
    let file = fleet.state(name).join("revoked");
    until("the file of revoked ids", || file.exists().then_some(()));
}

#[test]
fn an_id_that_one_edge_revokes_is_refused_by_all_and_by_an_edge_that_starts_later() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b", "c"].map(|name| edge(&fleet, name));
    let [one, other] = ["viewer-1", "viewer-2"].map(|id| signed(&fleet, id));
    for edge in &edges {
        assert_eq!((status(edge, &one), status(edge, &other)), (200, 200));
    }
    revoke_everywhere(&edges[1], "viewer-1", 3);
    let later = edge(&fleet, "d");
    // A start waits for the store, but not for long.
    until("the later edge to know it", || (count(&later, "penstock_fleet_revoked_ids") == 1.0).then_some(()));
    for edge in edges.iter().chain([&later]) {
        assert_eq!((status(edge, &one), status(edge, &other)), (403, 200));
        assert_eq!(count(edge, "penstock_fleet_revoked_ids"), 1.0);
        edge.counted("penstock_signed_urls_total", &["outcome=\"revoked\""], 1.0);
    }
    let said = revoke(&later, &["viewer-2", "viewer-3", "--fleet"]).ok().text();
    assert_eq!(said, "revoked 2 ids\napplied by 4 of 4 edges\n");
    assert!(edges.iter().all(|edge| status(edge, &other) == 403));
}

#[test]
fn an_id_that_is_revoked_without_the_store_is_refused_elsewhere_when_the_store_is_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let (mut one, other) = (edge(&fleet, "a"), edge(&fleet, "b"));
    let viewer = signed(&fleet, "viewer");
    fleet.store.kill();
    until("the loss", || (count(&one, "penstock_fleet_up") == 0.0).then_some(()));
    let said = revoke(&one, &["viewer"]).ok().text();
    assert_eq!(
        said,
        "revoked 1 id\nthe store does not answer; the other edges refuse these tokens once it does\n"
    );
    let failed = revoke(&one, &["viewer", "--fleet"]).exits_with(1).stderr;
    assert!(failed.contains("the store does not answer"), "{failed}");
    assert_eq!((status(&one, &viewer), status(&other, &viewer)), (403, 200));
    // It outlives the process.
    one.start_again(Signal::KILL);
    assert_eq!(status(&one, &viewer), 403);
    assert_eq!(count(&one, "penstock_fleet_revoked_ids_waiting"), 1.0);
    fleet.store.start_again();
    until("the other edge to refuse it", || (status(&other, &viewer) == 403).then_some(()));
    until("nothing to wait", || (count(&one, "penstock_fleet_revoked_ids_waiting") == 0.0).then_some(()));
}

#[test]
fn an_edge_that_starts_without_the_store_refuses_what_it_knew() {
    let Some(mut fleet) = Fleet::start() else { return };
    let (one, mut other) = (edge(&fleet, "a"), edge(&fleet, "b"));
    let [first, second] = ["viewer-1", "viewer-2"].map(|id| signed(&fleet, id));
    revoke_everywhere(&one, "viewer-1", 2);
    until_saved(&fleet, "b");
    fleet.store.kill();
    other.start_again(Signal::KILL);
    assert_eq!((status(&other, &first), status(&other, &second)), (403, 200));
}

#[test]
fn a_store_that_comes_back_from_an_older_snapshot_takes_no_revocation_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let edges = ["a", "b"].map(|name| edge(&fleet, name));
    let viewers = ["viewer-1", "viewer-2"].map(|id| signed(&fleet, id));
    revoke_everywhere(&edges[0], "viewer-1", 2);
    assert_eq!(fleet.store.command(&["SAVE"]), "OK\n");
    revoke_everywhere(&edges[0], "viewer-2", 2);
    fleet.store.kill();
    fleet.store.start_again();
    edges.iter().for_each(until_connected);
    for (number, name) in ["c", "d"].into_iter().enumerate() {
        let later = edge(&fleet, name);
        for viewer in &viewers {
            until("a later edge to refuse it", || (status(&later, viewer) == 403).then_some(()));
            assert!(edges.iter().all(|edge| status(edge, viewer) == 403));
        }
        if number == 0 {
            assert_eq!(fleet.store.command(&["FLUSHALL"]), "OK\n", "the next one meets an emptied store");
        }
    }
}

#[test]
fn a_stream_of_revoked_ids_that_was_damaged_begins_again() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b"].map(|name| edge(&fleet, name));
    for edge in &edges {
        edge.tolerate_warning("it sent more than can be an answer");
    }
    revoke_everywhere(&edges[0], "viewer", 2);
    let stream = fleet.store.name("penstock:*:revoked");
    let last = "18446744073709551615-18446744073709551615";
    let huge = "return redis.call('XADD', KEYS[1], '*', 'r', string.rep('x', 17000000))";
    let back = "redis.call('DEL', KEYS[1]); return redis.call('XADD', KEYS[1], '1-1', 'r', 'x')";
    let damages: [&[&[&str]]; 5] = [
        &[&["DEL", &stream], &["SET", &stream, "x"]],
        &[&["XADD", &stream, last, "r", "x"]],
        &[&["XADD", &stream, "*", "r", "made up"]],
        &[&["EVAL", back, "1", &stream]],
        &[&["EVAL", huge, "1", &stream]],
    ];
    for (number, damage) in damages.iter().enumerate() {
        for command in *damage {
            drop(fleet.store.command(command));
        }
        let id = format!("viewer-{number}");
        until("both edges to refuse another id", || {
            let said = revoke(&edges[number % 2], &[&id, "--fleet"]);
            // An edge may not be on the list of edges again yet.
            (said.code == 0 && said.text().ends_with("applied by 2 of 2 edges\n")).then_some(())
        });
    }
    let later = edge(&fleet, "c");
    for id in ["viewer", "viewer-0", "viewer-4"] {
        let viewer = signed(&fleet, id);
        until("a later edge to know it", || (status(&later, &viewer) == 403).then_some(()));
    }
    let forged: f64 = edges.iter().map(|edge| operations(edge, "revocation_read", "forged")).sum();
    assert!(forged >= 2.0, "{forged}");
}

#[test]
fn a_long_stream_is_shortened_and_keeps_every_id() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b"].map(|name| edge(&fleet, name));
    revoke_everywhere(&edges[0], "viewer-1", 2);
    let stream = fleet.store.name("penstock:*:revoked");
    let many = "for i = 1, 1100 do redis.call('XADD', KEYS[1], '*', 'r', 'x') end";
    drop(fleet.store.command(&["EVAL", many, "1", &stream]));
    until("the stream to be short", || {
        let length = fleet.store.command(&["XLEN", &stream]);
        (length.trim().parse::<u64>().unwrap() < 10).then_some(())
    });
    revoke_everywhere(&edges[1], "viewer-2", 2);
    let later = edge(&fleet, "c");
    for id in ["viewer-1", "viewer-2"] {
        let viewer = signed(&fleet, id);
        until("a later edge to know it", || (status(&later, &viewer) == 403).then_some(()));
    }
}

#[test]
fn ids_are_revoked_in_a_fleet_alone_and_until_a_time_that_can_be() {
    let Some(fleet) = Fleet::start() else { return };
    let lone = penstock_testkit::Setup::new().start();
    let said = revoke(&lone, &["viewer"]).exits_with(2).stderr;
    assert!(said.contains("there is no fleet"), "{said}");
    let edge = edge(&fleet, "a");
    let file = edge.directory().join("penstock.yaml");
    for (time, why) in [("soon", "soon"), ("1", "400 days"), ("401d", "400 days")] {
        let words = ["revoke", "viewer", "--expires", time, "-c"];
        let said = Tool::penstock().args(words).arg(&file).run().exits_with(2).stderr;
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(count(&edge, "penstock_fleet_revoked_ids"), 0.0);
}
