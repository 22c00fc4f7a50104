//! Five nodes in network namespaces, of which one is cut off from the others and not from its clients and the origin.
//! `failures.rs` shows the same with loopback addresses, which need no rights.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Networks, Server, until};

use super::purge::{missed_purges, purge, script_of};
use super::{Plan, asked_targets, assert_fetched_once, late_answers, size};

const NODES: usize = 5;
/// The node that is cut off.
const CUT: usize = 4;
/// The port of the nodes and of the origin, each in its own namespace.
const PORT: u16 = 8443;

/// Nodes and where they are.
struct Scene<'n> {
    networks: &'n Networks,
    servers: Vec<Server>,
}

impl Scene<'_> {
    /// Waits until a node takes so many others to be in.
    fn wait_for(&self, place: usize, others: usize) {
        let count = || self.servers[place].metrics().sum("penstock_cluster_peer_up", &[]);
        self.networks.at(place, || until("nodes to come or go", || (count() == others as f64).then_some(())));
    }

    /// Asks a node for objects, and returns the versions that it sent.
    fn versions(&self, place: usize, objects: usize) -> BTreeSet<usize> {
        self.networks.at(place, || {
            let mut client = Client::plain(&self.servers[place]);
            let mut version_of = |number: usize| {
                let response = client.get(&format!("/film/{number}"));
                assert_eq!(response.status, 200, "{}", response.head);
                response.text().parse().unwrap()
            };
            (0..objects).map(&mut version_of).collect()
        })
    }

    fn purge_all(&self, code: i32) {
        drop(self.networks.at(0, || purge(&self.servers[0], &["--prefix", "/film/"]).exits_with(code)));
    }
}

#[test]
fn a_node_whose_network_to_the_others_fails_serves_its_clients_and_joins_again() {
    let Some(networks) = Networks::of(NODES) else {
        penstock_testkit::not_tested("a node whose network fails; network namespaces need root");
        return;
    };
    let objects = size("PENSTOCK_TEST_CLUSTER_OBJECTS", 30);
    let version = Arc::new(AtomicUsize::new(1));
    let origin = networks.outside(|| {
        let listener = TcpListener::bind(networks.outside_address(PORT)).unwrap();
        Origin::on(listener, script_of(&version))
    });
    let hosts = (0..NODES).map(|place| networks.node_address(place, PORT)).collect();
    let plan = Plan { hosts, ..Plan::new(&[1; NODES]) };
    let sites = format!("- origin: {{http: [\"http://{}\"], peers: true}}", networks.outside_address(PORT));
    let start = |place: usize| {
        let server = networks.at(place, || plan.setup(place, &sites).start());
        server.tolerate_warning("is out: ");
        server
    };
    let scene = Scene { networks: &networks, servers: (0..NODES).map(start).collect() };
    let wait_for_all = || (0..NODES).for_each(|place| scene.wait_for(place, NODES - 1));
    wait_for_all();
    for place in 0..NODES {
        assert_eq!(scene.versions(place, objects), BTreeSet::from([1]));
    }
    let asked = asked_targets(&origin);
    assert_eq!(asked.len(), objects);
    let late = (0..NODES).map(|place| networks.at(place, || late_answers(&scene.servers[place]))).sum();
    assert_fetched_once(late, &asked.values().copied().map(Some).collect::<Vec<_>>());

    networks.cut(CUT);
    // While the others find out, and after that.
    assert_eq!(scene.versions(0, objects), BTreeSet::from([1]));
    (0..CUT).for_each(|place| scene.wait_for(place, NODES - 2));
    scene.wait_for(CUT, 0);
    version.store(2, Ordering::SeqCst);
    scene.purge_all(1);
    for place in 0..CUT {
        assert_eq!(scene.versions(place, objects), BTreeSet::from([2]), "purged on node {place}");
    }
    assert!(scene.versions(CUT, objects).last() <= Some(&2), "it serves what it has, or the origin has");

    networks.join(CUT);
    wait_for_all();
    networks.at(0, || {
        let missed = || missed_purges(&scene.servers[0], CUT);
        until("the purge to be confirmed", || (missed() == 0.0).then_some(()));
    });
    let before = asked_targets(&origin);
    for place in 0..NODES {
        assert_eq!(scene.versions(place, objects), BTreeSet::from([2]), "confirmed by node {place}");
    }
    let since = |(target, times): (&String, &usize)| times - before.get(target).unwrap_or(&0);
    let asked = asked_targets(&origin);
    assert!(asked.iter().all(|entry| since(entry) <= 1), "each comes once at most");
    let [before, all] = [&before, &asked].map(|asked| asked.values().sum::<usize>());
    println!("{objects} objects, {before} and then {all} requests at the origin");
    for (place, server) in scene.servers.into_iter().enumerate() {
        networks.at(place, || drop(server));
    }
}
