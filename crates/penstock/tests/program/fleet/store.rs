//! A store that is killed, stopped, full or emptied: clients never notice, and edges recover by themselves.

use std::time::Duration;

use penstock_testkit::{Forwarder, Server, Tool, until};
use rustix::process::Signal;

use super::sessions::{resume, stored};
use super::{Fleet, operations, serving, until_connected};

const SHARED: &str = "session_cache: {valkey: true}\ntickets: {valkey: true}";

fn circuit(server: &Server) -> f64 {
    server.metrics().sum("penstock_fleet_circuit_open", &[])
}

#[test]
fn without_the_store_handshakes_are_full_ones_until_it_is_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let session = fleet.session("session");
    stored(&one, &session);
    assert_eq!(resume(&other, &session), "Reused");
    fleet.store.kill();
    until("the loss", || (other.metrics().sum("penstock_fleet_up", &[]) == 0.0).then_some(()));
    for _ in 0..5 {
        assert_eq!(resume(&other, &session), "New");
    }
    assert!(operations(&other, "session_find", "skipped") >= 5.0);
    fleet.store.start_again();
    [&one, &other].into_iter().for_each(until_connected);
    assert_eq!(resume(&other, &session), "New", "the store is empty");
    let session = fleet.session("another");
    stored(&one, &session);
    assert_eq!(resume(&other, &session), "Reused");
}

#[test]
fn a_store_that_does_not_answer_delays_few_handshakes_and_none_after_these() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let session = fleet.session("session");
    stored(&one, &session);
    fleet.store.signal(Signal::STOP);
    // Each ends, and from the moment when the circuit opens none asks.
    until("the circuit to open", || {
        assert_eq!(resume(&other, &session), "New");
        (circuit(&other) == 1.0).then_some(())
    });
    let asked = ["timeout", "lost"].map(|outcome| operations(&other, "session_find", outcome));
    for _ in 0..5 {
        assert_eq!(resume(&other, &session), "New");
    }
    assert_eq!(["timeout", "lost"].map(|outcome| operations(&other, "session_find", outcome)), asked);
    fleet.store.signal(Signal::CONT);
    until_connected(&other);
    assert_eq!(resume(&other, &session), "Reused");
}

#[test]
fn a_full_store_stores_nothing_new_and_recovers() {
    let Some(fleet) = Fleet::with(&["--maxmemory-policy", "noeviction"]) else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let (old, new) = (fleet.session("old"), fleet.session("new"));
    stored(&one, &old);
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK\n");
    assert_eq!(super::fetch(&one, &["-tls1_2", "-no_ticket", "-sess_out", &new]), "New");
    until("the refusal", || (operations(&one, "session_store", "full") >= 1.0).then_some(()));
    assert_eq!(resume(&other, &new), "New");
    assert_eq!(resume(&other, &old), "Reused", "what is there is still read");
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory", "0"]), "OK\n");
    until("a session in the store", || {
        let before = operations(&one, "session_store", "full");
        assert_eq!(super::fetch(&one, &["-tls1_2", "-no_ticket", "-sess_out", &new]), "New");
        (operations(&one, "session_store", "full") == before).then_some(())
    });
    stored(&one, &new);
    assert_eq!(resume(&other, &new), "Reused");
}

#[test]
fn clients_that_fill_the_store_with_sessions_leave_space_for_purges() {
    let Some(fleet) = Fleet::with(&["--maxmemory-policy", "noeviction"]) else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    // Connections of edges count too: of a store that is too small they need more than a tenth.
    assert_eq!(fleet.store.command(&["SETRANGE", "filler", "20000000", "x"]), "20000001\n");
    let info = fleet.store.command(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let used: u64 = used.trim().parse().unwrap();
    let most = (used + used / 18).to_string();
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory", &most]), "OK\n");
    let session = fleet.session("session");
    until("sessions to be refused before the store is full", || {
        assert_eq!(super::fetch(&one, &["-tls1_2", "-no_ticket", "-sess_out", &session]), "New");
        (operations(&one, "session_store", "full") >= 1.0).then_some(())
    });
    assert_eq!(resume(&one, &session), "Reused", "this process has it");
    let file = one.directory().join("penstock.yaml");
    let purge = Tool::penstock().args(["cache", "purge", "--tag", "film", "--fleet", "-c"]).arg(file);
    assert_eq!(purge.run().ok().text(), "purged 0 objects\napplied by 2 of 2 edges\n");
    assert_eq!(operations(&other, "session_store", "refused"), 0.0);
}

#[test]
fn an_edge_starts_without_the_store_and_joins_later() {
    let Some(mut fleet) = Fleet::start() else { return };
    fleet.store.kill();
    let server = fleet.setup("a", SHARED).start();
    server.expect_warning("fleet: the store cannot be used");
    server.write("a.mp4", super::BODY);
    let session = fleet.session("session");
    assert_eq!(super::fetch(&server, &["-tls1_2", "-no_ticket", "-sess_out", &session]), "New");
    assert_eq!(resume(&server, &session), "Reused", "its own cache needs no store");
    fleet.store.start_again();
    until_connected(&server);
    let other = fleet.edge("b", SHARED);
    stored(&server, &session);
    assert_eq!(resume(&other, &session), "Reused");
}

#[test]
fn a_store_that_is_too_slow_is_not_asked_and_still_followed() {
    let Some(fleet) = Fleet::start() else { return };
    let slow = Forwarder::to(&[fleet.store.address().parse().unwrap()]);
    let keys = format!("valkey: \"redis://{}\", deadline: 100ms", slow.address());
    let (one, other) = (fleet.edge("a", SHARED), serving(&fleet.setup_with(&keys, "b", SHARED)));
    let session = fleet.session("session");
    stored(&one, &session);
    let resumes = || until("a session of the store", || (resume(&other, &session) == "Reused").then_some(()));
    resumes();
    slow.delay(Duration::from_millis(200));
    until("the circuit to open", || {
        assert_eq!(resume(&other, &session), "New");
        (circuit(&other) == 1.0).then_some(())
    });
    let timeouts = operations(&other, "session_find", "timeout");
    assert!(timeouts >= 1.0);
    for _ in 0..5 {
        assert_eq!(resume(&other, &session), "New");
    }
    assert_eq!(operations(&other, "session_find", "timeout"), timeouts, "no handshake asks");
    // The store answers, so its purges and keys are still read, over the same connection.
    let read = operations(&other, "purge_read", "ok");
    until("the stream", || (operations(&other, "purge_read", "ok") > read).then_some(()));
    assert_eq!((other.metrics().sum("penstock_fleet_up", &[]), slow.connections()), (1.0, 1));
    slow.delay(Duration::ZERO);
    until_connected(&other);
    resumes();
}
