//! Purges reach all nodes before they are confirmed.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use penstock_testkit::origin::{Origin, Script, answer, target};
use penstock_testkit::{Client, EndOfLoad, Finished, Server, Tool, until};
use rustix::process::Signal;

use super::{Cluster, name};

const FIELDS: &str = "Cache-Control: max-age=600\r\nSurrogate-Key: film\r\n";

/// An origin whose every body is the version that is set, with an entity tag of its own.
pub(super) fn versions(version: &Arc<AtomicUsize>) -> Origin {
    Origin::start(script_of(version))
}

/// The script of such an origin.
pub(super) fn script_of(version: &Arc<AtomicUsize>) -> impl Script + use<> {
    let version = Arc::clone(version);
    move |_: &str, _: usize, stream: &mut TcpStream| {
        let body = version.load(Ordering::SeqCst).to_string();
        answer(stream, "200 OK", &format!("ETag: \"{body}\"\r\n{FIELDS}"), body.as_bytes())
    }
}

pub(crate) fn purge(server: &Server, arguments: &[&str]) -> Finished {
    let file = server.directory().join("penstock.yaml");
    Tool::penstock().args(["cache", "purge", "-c"]).arg(file).args(arguments).run()
}

/// Purges that a node has yet to confirm, as this server says.
pub(super) fn missed_purges(server: &Server, place: usize) -> f64 {
    let peer = format!("peer=\"{}\"", name(place));
    server.metrics().sum("penstock_cluster_purges_missed", &[&peer])
}

fn version_at(server: &Server, path: &str) -> usize {
    Client::plain(server).get(path).text().parse().unwrap()
}

#[test]
fn after_a_purge_no_node_has_the_old_object() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let cluster = Cluster::of(3, &origin);
    let paths: Vec<String> = (0..10).map(|number| format!("/film/{number}")).collect();
    let mut expected = 1;
    for arguments in
        [&["--url", "/film/0"][..], &["--prefix", "/film/"], &["--tag", "film"], &["--everything"]]
    {
        for server in cluster.servers.iter().chain(&cluster.servers) {
            assert!(paths.iter().all(|path| version_at(server, path) == expected));
        }
        let paths = if arguments[0] == "--url" { &paths[..1] } else { &paths[..] };
        expected += 1;
        version.store(expected, Ordering::SeqCst);
        let said = purge(&cluster.servers[expected % 3], arguments).ok().text();
        assert!(said.contains("confirmed by 2 of 2 other nodes"), "{said}");
        for server in &cluster.servers {
            for path in paths {
                assert_eq!(version_at(server, path), expected, "{path} after {arguments:?}");
            }
        }
        if arguments[0] == "--url" {
            assert_eq!(version_at(&cluster.servers[0], "/film/1"), 1, "only one was purged");
            purge(&cluster.servers[0], &["--prefix", "/film/"]).ok();
        }
    }
}

#[test]
fn nothing_old_is_sent_after_a_purge_while_all_nodes_are_asked() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let cluster = Cluster::of(3, &origin);
    let (ended, purged) = (AtomicBool::new(false), AtomicUsize::new(1));
    thread::scope(|scope| {
        let _end = EndOfLoad(&ended);
        for server in &cluster.servers {
            for number in 0..2 {
                let (ended, purged) = (&ended, &purged);
                scope.spawn(move || {
                    let mut client = Client::plain(server);
                    while !ended.load(Ordering::SeqCst) {
                        // Read before the request is sent: the response must be no older.
                        let least = purged.load(Ordering::SeqCst);
                        let response = client.get(&format!("/film/{number}"));
                        assert_eq!(response.status, 200, "{}", response.head);
                        let found: usize = response.text().parse().unwrap();
                        assert!(
                            found >= least,
                            "version {found} after the purge of what is older than {least}"
                        );
                    }
                });
            }
        }
        for next in 2..12 {
            version.store(next, Ordering::SeqCst);
            // On a busy machine a node may be late with its confirmation.
            until("a purge that all nodes confirm", || {
                (purge(&cluster.servers[next % 3], &["--prefix", "/film/"]).code == 0).then_some(())
            });
            purged.store(next, Ordering::SeqCst);
        }
    });
    assert!(origin.asked().iter().all(|head| target(head).starts_with("/film/")));
}

#[test]
fn a_node_that_does_not_confirm_is_named() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let cluster = Cluster::of(3, &origin);
    cluster.servers[2].signal(Signal::STOP);
    let said = purge(&cluster.servers[0], &["--prefix", "/film/"]).exits_with(1);
    cluster.servers[2].signal(Signal::CONT);
    assert!(said.text().contains("confirmed by 1 of 2 other nodes"), "{}", said.text());
    assert!(said.stderr.contains("edge3 did not confirm it"), "{}", said.stderr);
    cluster.servers[0].wait_for_log("edge3 has confirmed a purge that it had missed");
}

#[test]
fn a_node_that_was_cut_off_gets_the_purges_that_it_missed() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let cluster = Cluster::of(3, &origin);
    let paths: Vec<String> = (0..12).map(|number| format!("/film/{number}")).collect();
    let sites = origin.sites_with("peers: true");
    let reload = |place: usize, unreachable: &[usize]| {
        cluster.servers[place].reload(&cluster.plan.setup_without(place, &sites, unreachable));
    };
    let is_at = |server: &Server, expected| paths.iter().all(|path| version_at(server, path) == expected);
    // Twice, so that each node keeps what it does not own.
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert!(is_at(server, 1));
    }
    let [one, two, cut_off] = &cluster.servers[..] else { unreachable!() };
    (0..2).for_each(|place| reload(place, &[2]));
    reload(2, &[0, 1]);
    version.store(2, Ordering::SeqCst);
    let said = purge(one, &["--prefix", "/film/"]).exits_with(1);
    assert!(said.text().contains("confirmed by 1 of 2 other nodes"), "{}", said.text());
    let said = purge(two, &["--tag", "film"]).exits_with(1);
    assert!(said.stderr.contains("edge3 did not confirm it"), "{}", said.stderr);
    assert!(is_at(one, 2) && is_at(two, 2));
    assert!(is_at(cut_off, 1), "it serves what it has");
    // Each knows the purge of the other too.
    assert_eq!((missed_purges(one, 2), missed_purges(two, 2)), (2.0, 2.0));
    (0..3).for_each(|place| reload(place, &[]));
    for server in [one, two] {
        server.wait_for_log("edge3 has confirmed a purge that it had missed");
        until("nothing to be missed", || (missed_purges(server, 2) == 0.0).then_some(()));
    }
    for server in &cluster.servers {
        assert!(is_at(server, 2), "nothing old is left");
    }
}

#[test]
fn a_node_that_comes_back_gives_no_old_objects_to_others_although_the_purging_node_is_gone() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let mut cluster = Cluster::of(3, &origin);
    let paths: Vec<String> = (0..24).map(|number| format!("/film/{number}")).collect();
    let is_at = |server: &Server, expected| paths.iter().all(|path| version_at(server, path) == expected);
    // Twice, so that each node keeps what it does not own.
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert!(is_at(server, 1));
    }
    let sites = origin.sites_with("peers: true");
    let [one, two, away] = &mut cluster.servers[..] else { unreachable!() };
    // It has its objects, and the others cannot reach it.
    one.reload(&cluster.plan.setup_without(0, &sites, &[2]));
    two.reload(&cluster.plan.setup_without(1, &sites, &[2]));
    version.store(2, Ordering::SeqCst);
    purge(one, &["--prefix", "/film/"]).exits_with(1);
    assert_eq!(missed_purges(two, 2), 1.0, "the other node was told");
    one.signal(Signal::STOP);
    // The list of missed purges outlives a process.
    two.start_again(Signal::KILL);
    two.tolerate_warning("is out: ");
    away.reload(&cluster.plan.setup_without(2, &sites, &[0, 1]));
    two.reload(&cluster.plan.setup_without(1, &sites, &[0]));
    assert!(is_at(two, 2), "it asks no node that has missed the purge");
    two.wait_for_log("edge3 has confirmed a purge that it had missed");
    assert!(is_at(away, 2) && is_at(two, 2));
    one.signal(Signal::CONT);
}

#[test]
fn a_purge_that_a_node_missed_is_repeated_by_the_next_process() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let mut cluster = Cluster::of(2, &origin);
    let paths: Vec<String> = (0..6).map(|number| format!("/film/{number}")).collect();
    let is_at = |server: &Server, expected| paths.iter().all(|path| version_at(server, path) == expected);
    // Twice, so that each node keeps what it does not own.
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert!(is_at(server, 1));
    }
    let sites = origin.sites_with("peers: true");
    let kept = cluster.plan.memory[0].path().join("undelivered-purges");
    let [one, two] = &mut cluster.servers[..] else { unreachable!() };
    one.reload(&cluster.plan.setup_without(0, &sites, &[1]));
    version.store(2, Ordering::SeqCst);
    purge(one, &["--prefix", "/film/"]).exits_with(1);
    one.start_again(Signal::KILL);
    one.tolerate_warning("is out: ");
    until("the purge to be known", || (missed_purges(one, 1) == 1.0).then_some(()));
    assert!(kept.exists() && is_at(two, 1), "it serves what it has");
    one.reload(&cluster.plan.setup(0, &sites));
    one.wait_for_log("edge2 has confirmed a purge that it had missed");
    until("nothing to be left", || (!kept.exists()).then_some(()));
    assert_eq!(missed_purges(one, 1), 0.0);
    assert!(is_at(one, 2) && is_at(two, 2));
}

#[test]
fn a_node_that_was_down_serves_nothing_old_to_its_first_clients() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let mut cluster = Cluster::of(3, &origin);
    let paths: Vec<String> = (0..12).map(|number| format!("/film/{number}")).collect();
    let is_at = |server: &Server, expected| paths.iter().all(|path| version_at(server, path) == expected);
    // Twice, so that each node keeps what it does not own.
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert!(is_at(server, 1));
    }
    let [one, two, down] = &mut cluster.servers[..] else { unreachable!() };
    down.signal(Signal::STOP);
    version.store(2, Ordering::SeqCst);
    purge(one, &["--prefix", "/film/"]).exits_with(1);
    assert_eq!(missed_purges(two, 2), 1.0);
    // The other node is the only one that can say so.
    one.signal(Signal::STOP);
    down.start_again(Signal::KILL);
    down.tolerate_warning("is out: ");
    assert!(is_at(down, 2), "its objects are older than the purge");
    down.wait_for_log("purges of other nodes that this one had missed: 1");
    one.signal(Signal::CONT);
}

#[test]
fn a_node_that_no_other_one_answers_serves_what_it_has_and_says_so() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let mut cluster = Cluster::of(2, &origin);
    let is_at = |server: &Server, expected| version_at(server, "/film/1") == expected;
    for server in cluster.servers.iter().chain(&cluster.servers) {
        assert!(is_at(server, 1));
    }
    let [one, two] = &mut cluster.servers[..] else { unreachable!() };
    one.signal(Signal::STOP);
    version.store(2, Ordering::SeqCst);
    two.start_again(Signal::KILL);
    two.tolerate_warning("is out: ");
    two.expect_warning("it serves what it has");
    assert!(is_at(two, 1), "the object of the process before");
    two.wait_for_log("no other node has said within 3 s which purges this one missed");
    one.signal(Signal::CONT);
}
