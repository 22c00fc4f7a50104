//! Sessions of TLS 1.2 without tickets.

use std::fs;
use std::time::Duration;

use penstock_testkit::{DEADLINE, Server, Tool, until};
use serde_json::Value;

use super::{Fleet, fetch, operations, serving};

const SHARED: &str = "session_cache: {valkey: true}";
const BY_ID: [&str; 2] = ["-tls1_2", "-no_ticket"];

fn fetch_by_id(server: &Server, option: &str, session: &str) -> String {
    fetch(server, &[BY_ID[0], BY_ID[1], option, session])
}

/// Makes a session and waits until it is in the store.
pub(super) fn stored(server: &Server, session: &str) {
    let before = operations(server, "session_store", "ok");
    assert_eq!(fetch_by_id(server, "-sess_out", session), "New");
    until("the session in the store", || (operations(server, "session_store", "ok") > before).then_some(()));
}

pub(super) fn resume(server: &Server, session: &str) -> String {
    fetch_by_id(server, "-sess_in", session)
}

#[test]
fn a_session_of_one_edge_is_resumed_by_all_others() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b", "c"].map(|name| fleet.edge(name, SHARED));
    for (maker, edge) in edges.iter().enumerate() {
        let session = fleet.session(&format!("session-{maker}"));
        stored(edge, &session);
        for edge in &edges {
            assert_eq!(resume(edge, &session), "Reused");
        }
    }
    for edge in &edges {
        assert_eq!(operations(edge, "session_find", "ok"), 2.0, "its own session is in the process");
        assert_eq!(edge.metrics().sum("penstock_session_cache_waits_total", &["outcome=\"answered\""]), 2.0);
    }
    // Under another name the session is not offered to the client's advantage.
    let other = fetch(
        &edges[1],
        &["-tls1_2", "-no_ticket", "-servername", "other.example", "-sess_in", &fleet.session("session-0")],
    );
    assert_eq!(other, "New");
}

#[test]
fn thousands_of_handshakes_across_edges_are_resumed() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["a", "b", "c"].map(|name| fleet.edge(name, SHARED));
    let load = Tool::penstock().args(["load", "handshakes", "--json", "--insecure", "--tls", "1.2"]);
    // 20,000 and more by hand: they take minutes.
    let count = std::env::var("PENSTOCK_FLEET_HANDSHAKES").unwrap_or_else(|_| "1500".to_owned());
    let wanted: f64 = count.parse().unwrap();
    let load = load.args(["--resume", "id", "--rate", "100", "--requests", &count]);
    let load = load.time_limit(DEADLINE + Duration::from_secs_f64(wanted / 50.0));
    let addresses = edges.iter().flat_map(|edge| ["--address".to_owned(), edge.https().to_string()]);
    let report = load.args(addresses).arg("https://localhost/a.mp4").run();
    let report: Value =
        serde_json::from_slice(&report.stdout).unwrap_or_else(|error| panic!("{error}: {}", report.stderr));
    let count = |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report:#}"));
    assert_eq!(count("handshakes"), wanted, "{report:#}");
    assert!(count("resumed") >= 0.99 * (wanted - 1.0), "{report:#}");
    let found: f64 = edges.iter().map(|edge| operations(edge, "session_find", "ok")).sum();
    assert!(found >= 1.0, "{found}");
}

#[test]
fn what_is_not_sealed_by_this_fleet_resumes_nothing() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    let (session, swapped) = (fleet.session("session"), fleet.session("swapped"));
    stored(&one, &session);
    let name = fleet.store.name("penstock:*:session:*");
    stored(&one, &swapped);
    let [swapped_name] = fleet
        .store
        .names("penstock:*:session:*")
        .into_iter()
        .filter(|found| *found != name)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    // A record of the fleet in the place of another one.
    assert_eq!(fleet.store.command(&["COPY", &swapped_name, &name, "REPLACE"]), "1\n");
    assert_eq!(resume(&other, &session), "New");
    assert_eq!(fleet.store.command(&["SET", &name, "made up"]), "OK\n");
    assert_eq!(resume(&other, &session), "New");
    assert_eq!(operations(&other, "session_find", "forged"), 2.0);
    // Another secret is another fleet. Those of this one say so if they notice before they end.
    for edge in [&one, &other] {
        edge.tolerate_warning("uses this store with another secret");
    }
    fs::write(fleet.path().join("fleet.key"), "g".repeat(64)).unwrap();
    let stranger = serving(&fleet.setup("c", SHARED));
    stranger.tolerate_warning("uses this store with another secret");
    assert_eq!(resume(&stranger, &swapped), "New");
    assert_eq!(operations(&stranger, "session_find", "miss"), 1.0);
    assert_eq!(resume(&other, &swapped), "Reused");
}
