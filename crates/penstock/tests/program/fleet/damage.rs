//! A store in which a stranger writes: other types, huge values, old ones, numbers that leave none for later entries.

use penstock_testkit::{Server, until};

use super::purges::{Edge, counting};
use super::sessions::{resume, stored};
use super::{Fleet, fetch, operations};

const SHARED: &str = "session_cache: {valkey: true}\ntickets: {valkey: true}";

/// A value larger than an edge reads.
const HUGE: &str = "17000000";

fn up(server: &Server) -> f64 {
    server.metrics().sum("penstock_fleet_up", &[])
}

#[test]
fn huge_sessions_and_keys_are_forgeries_and_cost_no_connection() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    for edge in [&one, &other] {
        edge.tolerate_warning("fleet: the ticket keys in the store are not sealed with the fleet's secret");
    }
    let session = fleet.session("session");
    stored(&one, &session);
    let name = fleet.store.name("penstock:*:session:*");
    assert_eq!(fleet.store.command(&["SETRANGE", &name, HUGE, "x"]), "17000001\n");
    assert_eq!(resume(&other, &session), "New");
    assert_eq!(operations(&other, "session_find", "forged"), 1.0);
    // Ticket keys that are huge, or no string at all, are replaced by those that the edges have.
    let keys = fleet.store.name("penstock:*:tickets");
    let ticket = fleet.session("ticket");
    assert_eq!(fetch(&one, &["-tls1_3", "-sess_out", &ticket]), "New");
    let repaired = || {
        until("the keys in the store", || {
            let length = fleet.store.command(&["STRLEN", &keys]);
            (1..10_000).contains(&length.trim().parse::<u64>().ok()?).then_some(())
        })
    };
    assert_eq!(fleet.store.command(&["SETRANGE", &keys, HUGE, "x"]), "17000001\n");
    repaired();
    assert_eq!(fleet.store.command(&["DEL", &keys]), "1\n");
    drop(fleet.store.command(&["LPUSH", &keys, "x"]));
    repaired();
    assert_eq!(fetch(&other, &["-tls1_3", "-sess_in", &ticket]), "Reused");
    assert_eq!(["lost", "timeout"].map(|outcome| operations(&other, "session_find", outcome)), [0.0; 2]);
    assert_eq!([&one, &other].map(up), [1.0; 2]);
}

#[test]
fn a_lock_that_never_expires_stops_no_rotation() {
    let Some(fleet) = Fleet::start() else { return };
    let one = fleet.edge("a", "tickets: {valkey: true, rotate: 2s, keep: 5, introduction: 1s}");
    let keys = fleet.store.name("penstock:*:tickets");
    let lock = format!("{keys}:lock");
    until("a time without a lock", || {
        (fleet.store.command(&["SET", &lock, "x", "NX"]) == "OK\n").then_some(())
    });
    let added = || one.log().iter().filter(|line| line.contains("fleet: added session ticket key")).count();
    let before = added();
    until("another key", || (added() > before).then_some(()));
}

/// Damages the stream of purges; afterwards a purge of either edge is in force on both.
#[test]
fn a_stream_of_purges_that_was_damaged_begins_again() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let edges = ["a", "b"].map(|name| Edge::start(&fleet, name, &origin));
    for edge in &edges {
        edge.server.tolerate_warning("fleet: this edge was away for so long");
        edge.server.tolerate_warning("it sent more than can be an answer");
    }
    edges[0].purge("url=/nothing");
    let stream = fleet.store.name("penstock:*:purges");
    let epoch = format!("{stream}:epoch");
    let list = stream.replace(":purges", ":edges");
    let last = "18446744073709551615-18446744073709551615";
    let huge = format!("return redis.call('XADD', KEYS[1], '*', 'p', string.rep('x', {HUGE}))");
    let damages: [&[&[&str]]; 6] = [
        &[&["DEL", &stream], &["SET", &stream, "x"]],
        &[&["SET", &epoch, ""]],
        &[&["SET", &epoch, "made up"]],
        &[&["XADD", &stream, last, "p", "x"]],
        &[&["EVAL", &huge, "1", &stream]],
        &[&["DEL", &list], &["SET", &list, "x"]],
    ];
    for (number, damage) in damages.iter().enumerate() {
        for command in *damage {
            drop(fleet.store.command(command));
        }
        let before = edges.each_ref().map(|edge| edge.get("/film"));
        until("a purge on both edges", || {
            let report = edges[number % 2].purge("url=/film");
            (report["applied"] == 2 && report["edges"] == 2).then_some(())
        });
        for (edge, before) in edges.iter().zip(before) {
            assert_ne!(edge.get("/film"), before, "{damage:?}");
        }
    }
}

#[test]
fn purges_of_a_stream_that_was_set_back_still_reach_every_edge() {
    let Some(fleet) = Fleet::start() else { return };
    let origin = counting();
    let edges = ["a", "b"].map(|name| Edge::start(&fleet, name, &origin));
    for edge in &edges {
        edge.server.tolerate_warning("fleet: this edge was away for so long");
    }
    edges[0].purge("url=/nothing");
    let stream = fleet.store.name("penstock:*:purges");
    // Every entry that is still to come would have a lower number than those that the edges have applied.
    let back = "redis.call('DEL', KEYS[1]); redis.call('XADD', KEYS[1], '1-1', 'p', 'x'); return 'OK'";
    let before = edges.each_ref().map(|edge| edge.get("/film"));
    assert_eq!(fleet.store.command(&["EVAL", back, "1", &stream]), "OK\n");
    until("a purge on both edges", || {
        let report = edges[1].purge("url=/film");
        (report["applied"] == 2 && report["edges"] == 2).then_some(())
    });
    for (edge, before) in edges.iter().zip(before) {
        assert_ne!(edge.get("/film"), before);
    }
}

#[test]
fn a_register_that_a_stranger_wrote_begins_again() {
    let Some(fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", "early_data: {register: valkey}");
    let name = fleet.store.name("penstock:*:strikes");
    let began = || {
        until("a time that is past", || {
            let text = fleet.store.command(&["GET", &name]);
            (1..99_999_999_999).contains(&text.trim().parse::<u64>().ok()?).then_some(())
        });
    };
    for value in ["x", "99999999999999", "-1"] {
        assert_eq!(fleet.store.command(&["SET", &name, value]), "OK\n");
        began();
    }
    assert_eq!(fleet.store.command(&["SETRANGE", &name, HUGE, "x"]), "17000001\n");
    began();
    assert_eq!(fleet.store.command(&["DEL", &name]), "1\n");
    drop(fleet.store.command(&["LPUSH", &name, "x"]));
    began();
    assert!(operations(&server, "strike", "forged") >= 4.0);
    assert_eq!(up(&server), 1.0);
}

#[test]
fn a_store_that_became_a_replica_is_left() {
    let Some(fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", "session_cache: {valkey: true}");
    server.expect_warning("fleet: the store cannot be used");
    let nowhere = penstock_testkit::unused_address();
    let port = nowhere.port().to_string();
    assert_eq!(fleet.store.command(&["REPLICAOF", "127.0.0.1", &port]), "OK\n");
    let said = server.wait_for_log("it is a replica");
    assert!(said.contains("fleet: the store cannot be used"), "{said}");
    assert_eq!(fleet.store.command(&["REPLICAOF", "NO", "ONE"]), "OK\n");
    super::until_connected(&server);
}
