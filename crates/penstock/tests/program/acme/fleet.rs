//! Edges that share their orders through the store of a fleet.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use penstock_testkit::{Forwarder, Server, Store, disk_directory, until};

use super::pebble::Pebble;
use super::{Ports, files_below, have_issued, issuer, orders, shown};

const HOSTS: [&str; 3] = ["a.example", "b.example", "c.example"];

/// An edge with a storage of its own.
fn edge(ports: &Ports, pebble: &Pebble, store: &Store, shared: &Path, name: &str, challenge: &str) -> Server {
    let state = shared.join(name);
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    let fleet = format!(
        "fleet: {{valkey: \"redis://{}\", secret: {}, name: {name}, state: {}, deadline: 1s}}",
        store.address(),
        shared.join("fleet.key").display(),
        state.display()
    );
    let section = pebble.section(&format!("storage: acme, valkey: true, challenge: {challenge}"));
    let sites = format!("- {{hosts: [{}], origin: {{directory: root}}}}", HOSTS.join(", "));
    ports.setup(&section).sites(&sites).section(&fleet).start()
}

/// Waits until an edge shows certificates of the authority for all hosts.
fn certificates(edge: &Server) -> Vec<String> {
    let of_pebble = |host: &&str| {
        until("a certificate of Pebble", || {
            Some(shown(edge, host)).filter(|pem| issuer(pem).contains("Pebble"))
        })
    };
    HOSTS.iter().map(of_pebble).collect()
}

/// The account in the storage of an edge.
fn account(edge: &Server) -> Vec<u8> {
    until("an account", || {
        let files = files_below(&edge.directory().join("acme/accounts"));
        files.first().and_then(|file| fs::read(file).ok())
    })
}

fn three_edges_share(challenge: &str) {
    let Some(store) = Store::start(&[]) else { return };
    let ports: Vec<Ports> = (0..3).map(|_| Ports::reserve()).collect();
    // The authority asks one edge after the other, whichever orders.
    let asked = |address: fn(&Ports) -> std::net::SocketAddr| {
        Forwarder::to(&ports.iter().map(address).collect::<Vec<_>>())
    };
    let (http, tls) = (asked(|ports| ports.http.address()), asked(|ports| ports.tls.address()));
    let Some(pebble) = Pebble::new(http.address().port(), tls.address().port()) else { return };
    let mut pebble = pebble.start();
    let shared = disk_directory();
    let secret = shared.path().join("fleet.key");
    fs::write(&secret, "f".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let start = |ports: &Ports, name: &str| edge(ports, &pebble, &store, shared.path(), name, challenge);
    let edges: Vec<Server> =
        ports.iter().zip(["e1", "e2", "e3"]).map(|(ports, name)| start(ports, name)).collect();
    let first = certificates(&edges[0]);
    for edge in &edges[1..] {
        until("the same certificates", || (certificates(edge) == first).then_some(()));
    }
    // Each name is ordered once.
    have_issued(&edges, 3.0);
    let rejected: f64 = edges.iter().map(|edge| orders(edge, "rejected")).sum();
    assert_eq!(rejected, 0.0, "each edge that was asked has had the answer");
    assert!(http.connections() + tls.connections() >= 3);
    // Those that have ordered have the same account.
    let ordered: Vec<_> = edges.iter().filter(|edge| orders(edge, "issued") > 0.0).map(account).collect();
    assert!(ordered.iter().all(|account| *account == ordered[0]));
    // A reader of the store learns nothing.
    let names = store.names("penstock:*:file:*");
    assert!(names.len() >= 4, "{names:?}");
    for name in &names {
        let value = store.command(&["GET", name]);
        assert!(
            !value.contains("BEGIN") && !value.contains("example") && !name.contains("example"),
            "{name}"
        );
    }
    // An edge that comes later needs no authority.
    let late = Ports::reserve();
    let late = edge(&late, &pebble, &store, shared.path(), "e4", challenge);
    pebble.stop();
    assert_eq!(certificates(&late), first);
    assert_eq!(orders(&late, "issued"), 0.0);
}

#[test]
fn three_edges_share_account_orders_and_answers_through_their_store() {
    three_edges_share("http-01");
}

#[test]
fn three_edges_share_answers_by_handshake_through_their_store() {
    three_edges_share("tls-alpn-01");
}

#[test]
fn without_its_store_a_fleet_does_not_order() {
    let Some(mut store) = Store::start(&[]) else { return };
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let shared = disk_directory();
    let secret = shared.path().join("fleet.key");
    fs::write(&secret, "f".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    store.kill();
    let edge = edge(&ports, &pebble, &store, shared.path(), "e1", "http-01");
    edge.tolerate_warning("fleet: ");
    edge.expect_warning(
        "acme: no certificate for a.example: acme: cannot take the right to order in the store of the fleet",
    );
    until("a failure", || (orders(&edge, "unavailable") >= 1.0).then_some(()));
    store.start_again();
    certificates(&edge);
}
