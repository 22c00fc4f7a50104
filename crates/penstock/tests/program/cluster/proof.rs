//! Five nodes under load while one of them is killed, paused, cut off and configured otherwise, with purges during all
//! that: no response of the others fails, and nothing old is sent after a purge is confirmed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};

use penstock_testkit::{Client, EndOfLoad, Server, until};
use rustix::process::Signal;

use super::purge::{missed_purges, purge, versions};
use super::{Cluster, size};

const NODES: usize = 5;
/// The nodes that nothing happens to.
const WELL: Range<usize> = 0..4;
const OBJECTS: usize = 200;

/// What clients of the nodes that are well see.
#[derive(Default)]
struct Load {
    ended: AtomicBool,
    responses: AtomicUsize,
    /// The version before which everything was purged, as all nodes have confirmed.
    purged: AtomicUsize,
}

impl Load {
    /// Asks a server for one object after the other.
    fn ask<'s>(&'s self, scope: &'s Scope<'s, '_>, server: &'s Server, place: usize) {
        scope.spawn(move || {
            let mut client = Client::plain(server);
            let mut number = place * OBJECTS / WELL.end;
            while !self.ended.load(Ordering::SeqCst) {
                // Read before the request is sent: the response must be no older.
                let least = self.purged.load(Ordering::SeqCst);
                let response = client.get(&format!("/film/{}", number % OBJECTS));
                assert_eq!(response.status, 200, "{}", response.head);
                let found: usize = response.text().parse().unwrap();
                assert!(found >= least, "version {found} after the purge of what is older than {least}");
                self.responses.fetch_add(1, Ordering::SeqCst);
                number += 1;
            }
        });
    }

    /// Waits for more responses.
    fn more(&self, count: usize) {
        let start = self.responses.load(Ordering::SeqCst);
        until("more responses", || (self.responses.load(Ordering::SeqCst) >= start + count).then_some(()));
    }
}

/// Purges, on the first node.
struct Operator<'o> {
    well: &'o [Server],
    version: &'o AtomicUsize,
    load: &'o Load,
}

impl Operator<'_> {
    /// Has the origin make a new version, and purges the one before.
    fn purge_all(&self, code: i32) {
        let next = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let said = purge(&self.well[0], &["--prefix", "/film/"]).exits_with(code);
        if code == 0 {
            self.load.purged.store(next, Ordering::SeqCst);
        } else {
            assert!(said.text().contains("confirmed by 3 of 4 other nodes"), "{}", said.text());
        }
    }

    /// Waits until the last node is in again, and has confirmed all purges.
    fn wait_until_back(&self) {
        let is_up =
            |server: &Server| server.metrics().sum("penstock_cluster_peer_up", &["peer=\"edge5\""]) == 1.0;
        for server in self.well {
            until("the node to be in again", || is_up(server).then_some(()));
        }
        until("purges to be confirmed", || (missed_purges(&self.well[0], 4) == 0.0).then_some(()));
        self.load.purged.store(self.version.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

#[test]
fn nothing_fails_and_nothing_old_is_sent_while_a_node_comes_and_goes() {
    let rounds = size("PENSTOCK_TEST_CLUSTER_ROUNDS", 1);
    let version = Arc::new(AtomicUsize::new(1));
    let origin = versions(&version);
    let mut cluster = Cluster::of(NODES, &origin);
    let sites = origin.sites_with("peers: true");
    let other_keys = format!("{sites}\n  cache: {{query: ignore_all}}");
    let Cluster { servers, plan } = &mut cluster;
    let (well, victim) = servers.split_at_mut(WELL.end);
    let (well, victim) = (&*well, &mut victim[0]);
    let load = Load::default();
    let operator = Operator { well, version: &version, load: &load };
    let reload = |server: &Server, place: usize, unreachable: &[usize]| {
        server.reload(&plan.setup_without(place, &sites, unreachable));
    };
    thread::scope(|scope| {
        let _end = EndOfLoad(&load.ended);
        for (place, server) in well.iter().enumerate() {
            load.ask(scope, server, place);
        }
        for _ in 0..rounds {
            load.more(OBJECTS);
            operator.purge_all(0);
            // Killed under load, and purged before it is seen to be back.
            victim.start_again(Signal::KILL);
            victim.tolerate_warning("is out: ");
            operator.wait_until_back();
            operator.purge_all(0);
            // Paused: it costs a moment.
            victim.signal(Signal::STOP);
            load.more(2 * OBJECTS);
            victim.signal(Signal::CONT);
            operator.wait_until_back();
            // Cut off from the others, and not from its clients.
            well.iter().enumerate().for_each(|(place, server)| reload(server, place, &[WELL.end]));
            reload(victim, WELL.end, &[0, 1, 2, 3]);
            operator.purge_all(1);
            load.more(OBJECTS);
            assert_eq!(Client::plain(victim).get("/film/0").status, 200);
            well.iter().enumerate().for_each(|(place, server)| reload(server, place, &[]));
            reload(victim, WELL.end, &[]);
            operator.wait_until_back();
            assert_eq!(
                Client::plain(victim).get("/film/0").text(),
                version.load(Ordering::SeqCst).to_string()
            );
            // With other keys it shares nothing, and purges what the others purge.
            victim.reload(&plan.setup(WELL.end, &other_keys));
            load.more(OBJECTS);
            operator.purge_all(0);
            reload(victim, WELL.end, &[]);
            load.more(OBJECTS);
            operator.purge_all(0);
        }
    });
    let sent = load.responses.load(Ordering::SeqCst);
    println!(
        "{sent} responses of {} nodes, none failed; {} requests at the origin",
        well.len(),
        origin.asked().len()
    );
}
