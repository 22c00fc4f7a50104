//! Session ticket keys that the store hands from edge to edge.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Server, Tool, until};
use rustix::process::Signal;

use super::{Fleet, fetch, operations, until_connected};

const SHARED: &str = "tickets: {valkey: true}";
const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

fn listed(server: &Server) -> String {
    let list = Tool::penstock().args(["tickets", "list", "--fleet", "-c"]);
    list.arg(server.directory().join("penstock.yaml")).run().ok().text()
}

#[test]
fn a_ticket_of_one_edge_is_opened_by_all_others_in_both_versions() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b", "c"].map(|name| fleet.edge(name, SHARED));
    let list = until("all edges to have all keys", || {
        let list = listed(&edges[0]);
        (list.matches("present, has all keys").count() == 3).then_some(list)
    });
    for version in VERSIONS {
        for (maker, edge) in edges.iter().enumerate() {
            let session = fleet.session(&format!("{maker}{version}"));
            assert_eq!(fetch(edge, &[version, "-sess_out", &session]), "New");
            for other in &edges {
                assert_eq!(fetch(other, &[version, "-sess_in", &session]), "Reused", "{version} {maker}");
            }
        }
    }
    let uses: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).take(3).collect();
    assert_eq!(uses, ["USE", "introduced", "seals"], "{list}");
    assert_eq!(list.lines().count(), 6, "{list}");
}

#[test]
fn keys_rotate_while_every_ticket_stays_good() {
    let Some(fleet) = Fleet::start() else { return };
    let tls = "tickets: {valkey: true, rotate: 3s, keep: 10, introduction: 1s}";
    let (one, other) = (fleet.edge("a", tls), fleet.edge("b", tls));
    let session = fleet.session("first");
    assert_eq!(fetch(&one, &["-tls1_2", "-sess_out", &session]), "New");
    let keys = || listed(&one).matches(" opens ").count();
    until("three rotations", || {
        let session = fleet.session("other");
        assert_eq!(fetch(&one, &["-tls1_3", "-sess_out", &session]), "New");
        assert_eq!(fetch(&other, &["-tls1_3", "-sess_in", &session]), "Reused");
        (keys() >= 3).then_some(())
    });
    assert_eq!(fetch(&other, &["-tls1_2", "-sess_in", &session]), "Reused", "an old key still opens");
    // Of several edges one makes each key.
    until("the lines of three keys", || {
        let lines = one.log().into_iter().chain(other.log());
        let made = lines.filter(|line| line.contains("fleet: added session ticket key")).count();
        (made >= 3).then_some(())
    });
}

#[test]
fn an_edge_that_starts_without_the_store_has_the_last_keys() {
    let Some(mut fleet) = Fleet::start() else { return };
    let (one, mut other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let session = fleet.session("session");
    assert_eq!(fetch(&one, &["-tls1_3", "-sess_out", &session]), "New");
    let file = fleet.state("b").join("tickets");
    let mode = until("the keys of the other edge", || file.metadata().ok()).permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fleet.store.kill();
    other.start_again(Signal::KILL);
    assert_eq!(fetch(&other, &["-tls1_3", "-sess_in", &session]), "Reused");
    // A file of another secret is not used.
    fs::write(&file, "made up").unwrap();
    other.expect_warning("fleet: the stored ticket keys are of another secret and not used");
    other.start_again(Signal::TERM);
    assert_eq!(fetch(&other, &["-tls1_2", "-sess_out", &session]), "New");
}

#[test]
fn a_store_that_was_emptied_gets_the_keys_back() {
    let Some(mut fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let session = fleet.session("session");
    assert_eq!(fetch(&one, &["-tls1_2", "-sess_out", &session]), "New");
    let names = |list: String| -> Vec<String> {
        let name =
            |line: &str| line.split_whitespace().next().filter(|word| word.len() == 32).map(str::to_owned);
        list.lines().filter_map(name).collect()
    };
    let before = names(listed(&one));
    fleet.store.kill();
    fleet.store.start_again();
    [&one, &other].into_iter().for_each(until_connected);
    until("the keys in the store", || (names(listed(&one)) == before).then_some(()));
    assert_eq!(fetch(&other, &["-tls1_2", "-sess_in", &session]), "Reused");
    // Someone else's keys are replaced by the fleet's.
    one.tolerate_warning("fleet: the ticket keys in the store are not sealed with the fleet's secret");
    other.tolerate_warning("fleet: the ticket keys in the store are not sealed with the fleet's secret");
    assert_eq!(fleet.store.command(&["SET", &fleet.store.name("penstock:*:tickets"), "made up"]), "OK\n");
    until("the forgery to be counted", || {
        ([&one, &other].map(|edge| operations(edge, "ticket_keys", "forged")).iter().sum::<f64>() > 0.0)
            .then_some(())
    });
    until("the keys again", || (names(listed(&one)) == before).then_some(()));
}
