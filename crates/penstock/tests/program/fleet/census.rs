//! Edges that do not belong together: one with another secret, and two of one name.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Client, Server, Setup, until};
use rustix::process::Signal;
use serde_json::Value;

use super::{Fleet, operations, until_connected};

fn reading(server: &Server, name: &str) -> f64 {
    server.metrics().sum(name, &[])
}

const STRANGERS: &str = "penstock_fleet_edges_with_other_secret";
const NAMESAKES: &str = "penstock_fleet_edges_with_this_name";

/// The section of the fleet in `/status.json`.
fn status(server: &Server) -> Value {
    let response =
        Client::connect(server.admin()).request("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut status: Value = serde_json::from_slice(&response.body).unwrap();
    status["fleet"].take()
}

#[test]
fn an_edge_with_another_secret_is_named_once_by_both() {
    let Some(fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", "");
    server.expect_warning("uses this store with another secret");
    let key = fleet.path().join("other.key");
    fs::write(&key, "e".repeat(64)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let section = format!(
        "fleet: {{valkey: \"redis://{}\", secret: {}, name: b}}",
        fleet.store.address(),
        key.display()
    );
    let stranger = Setup::new().section(&section).start();
    stranger.expect_warning("uses this store with another secret");
    stranger.tolerate_warning("fleet: the store ");
    until_connected(&stranger);
    for one in [&server, &stranger] {
        until("the other secret", || (reading(one, STRANGERS) == 1.0).then_some(()));
        assert_eq!(status(one)["edges_with_other_secret"], 1);
        one.logs("with another secret", 1);
        assert_eq!(reading(one, NAMESAKES), 0.0);
    }
    drop(stranger);
    until("its end", || (reading(&server, STRANGERS) == 0.0).then_some(()));
}

#[test]
fn two_edges_of_one_name_are_noticed_by_both_and_a_successor_is_none() {
    let Some(fleet) = Fleet::start() else { return };
    let mut second = fleet.edge("a", "");
    // A successor of a process that was killed, whose entry is still there.
    second.start_again(Signal::KILL);
    until_connected(&second);
    let before = operations(&second, "edges", "ok");
    until("some rounds", || (operations(&second, "edges", "ok") >= before + 5.0).then_some(()));
    assert_eq!(reading(&second, NAMESAKES), 0.0);
    second.logs("has the name", 0);
    second.expect_warning("another edge has the name `a` too");
    let third = fleet.edge("a", "");
    third.expect_warning("another edge has the name `a` too");
    for one in [&second, &third] {
        until("the name", || (reading(one, NAMESAKES) == 1.0).then_some(()));
        assert_eq!(status(one)["edges_with_this_name"], 1);
        one.logs("has the name", 1);
    }
}
