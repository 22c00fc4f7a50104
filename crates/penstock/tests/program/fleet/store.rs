//! A store that is killed, stopped, full or emptied: clients never notice, and edges recover by themselves.

use penstock_testkit::{Server, Setup, until};
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
    stored(&one, &new);
    assert_eq!(resume(&other, &new), "Reused");
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
fn a_password_and_a_socket_let_in_and_a_wrong_password_is_said() {
    let Some(fleet) = Fleet::start() else { return };
    let socket = fleet.path().join("socket");
    let fleet = Fleet::with(&["--requirepass", "p@ss", "--unixsocket", socket.to_str().unwrap()]);
    let fleet = fleet.unwrap();
    let address = fleet.store.address();
    let right = serving(&fleet.setup_at(&format!("redis://:p%40ss@{address}/1"), "a", SHARED));
    let session = fleet.session("session");
    stored(&right, &session);
    let other = serving(&fleet.setup_at(&format!("redis://default:p%40ss@{address}/1"), "b", SHARED));
    assert_eq!(resume(&other, &session), "Reused");
    let wrong: Setup = fleet.setup_at(&format!("redis://:wrong@{address}/1"), "c", SHARED);
    let wrong = wrong.start();
    wrong.expect_warning("fleet: the store cannot be used");
    assert_eq!(wrong.metrics().sum("penstock_fleet_up", &[]), 0.0);
    drop(wrong);
    let refused = fleet.setup_at(&format!("unix://{}", socket.display()), "d", SHARED).start();
    refused.expect_warning("fleet: the store cannot be used");
}
