//! Edges of a fleet that are upgraded (SIGUSR2) one after the other, under load.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::frames::{Peer, get};
use penstock_testkit::origin::{Origin, file, target};
use penstock_testkit::{Client, Content, Server, Stream};

use super::purges::{Edge, applied};
use super::{Fleet, fetch, serving, until_connected};
use crate::operation::players::{FILM, SEGMENTS, watch_while};

const LENGTH: u64 = 150_000;
/// Leaves the other tests some of the machine.
const PAUSE: Duration = Duration::from_millis(20);

const UPGRADES: usize = 20;

/// Requests to the origin for what is fresh and not purged that an upgrade may cause. Without upgrades each edge asks once for each of
/// these objects. A part of the clients' requests would be no bound: how many a busy machine answers meanwhile differs.
const ASKED_PER_UPGRADE: usize = 3;

/// Asks for segments over connections that stay open, and begins another one when the server ends it.
fn play(
    server: &Server,
    segment: &Content,
    goes_on: &AtomicBool,
    connect: impl Fn() -> Client<Box<dyn Stream>>,
) {
    let mut client = connect();
    for number in 0.. {
        if !goes_on.load(Ordering::Relaxed) {
            return;
        }
        let answer = client.get(&format!("/{}.m4s", number % 8));
        assert_eq!(answer.status, 200, "{}", server.url(""));
        segment.assert_range(0..LENGTH, &answer.body);
        if answer.field("Connection") == Some("close") {
            client = connect();
        }
        thread::sleep(PAUSE);
    }
}

/// Asks over a new connection of HTTP/2 each time.
fn visit(server: &Server, segment: &Content, goes_on: &AtomicBool) {
    while goes_on.load(Ordering::Relaxed) {
        let mut peer = Peer::tls(server).open(&[]);
        peer.send(&get(1, "/0.m4s"));
        segment.assert_range(0..LENGTH, &peer.body(1));
        thread::sleep(PAUSE);
    }
}

#[test]
fn twenty_upgrades_in_a_fleet_of_three_fail_no_request_and_lose_no_purge_and_no_session() {
    let Some(fleet) = Fleet::start() else { return };
    let segment = Content::new(77, LENGTH);
    let bytes = segment.all();
    let origin = Origin::start(move |head, _, stream| match target(head) {
        "/film/index.m3u8" => file(head, stream, "Cache-Control: max-age=600\r\n", FILM.as_bytes()),
        path if path.starts_with("/film/") => file(head, stream, "Cache-Control: max-age=600\r\n", &bytes),
        _ => file(head, stream, "Cache-Control: max-age=600\r\nCache-Tag: film\r\n", &bytes),
    });
    let edges = ["a", "b", "c"].map(|name| {
        let memory = penstock_testkit::memory_directory();
        let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
        let setup = fleet.setup(name, "tickets: {valkey: true}").section(&cache);
        let http = format!("origin: {{http: [\"{}\"]}}", origin.url());
        let routes = ["*.m4s", "/film/*"].map(|path| format!("{{path: \"{path}\", {http}}}")).join(", ");
        let sites = format!("- {{hosts: [localhost], origin: {{directory: root}}, routes: [{routes}]}}");
        let setup = setup.sites(&sites).limits("drain_deadline: 1m, lame_duck: 0");
        Edge { server: serving(&setup), _memory: memory }
    });
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for Edge { server, .. } in &edges {
            let (segment, goes_on) = (&segment, &goes_on);
            clients.push(scope.spawn(move || {
                play(server, segment, goes_on, || Client::tls(server).boxed());
            }));
            clients.push(scope.spawn(move || {
                play(server, segment, goes_on, || Client::plain(server).boxed());
            }));
            clients.push(scope.spawn(move || visit(server, segment, goes_on)));
            clients.push(scope.spawn(move || watch_while(server, goes_on, LENGTH)));
        }
        let upgrades = panic::catch_unwind(AssertUnwindSafe(|| {
            let ticket = fleet.session("ticket");
            fetch(&edges[0].server, &["-tls1_3", "-sess_out", &ticket]);
            for round in 0..UPGRADES {
                let upgraded = &edges[round % 3].server;
                upgraded.hand_over();
                assert!(upgraded.wait_for_predecessor().success());
                until_connected(upgraded);
                let report = edges[(round + 1) % 3].purge("tag=film");
                assert_eq!(applied(&report), (3, 3), "round {round}: {report}");
                assert_eq!(fetch(upgraded, &["-tls1_3", "-sess_in", &ticket]), "Reused", "round {round}");
            }
        }));
        goes_on.store(false, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        upgrades.unwrap();
    });
    let of_film = origin.asked().iter().filter(|head| target(head).starts_with("/film/")).count();
    let once = edges.len() * (1 + usize::try_from(SEGMENTS).unwrap());
    assert!(of_film <= once + UPGRADES * ASKED_PER_UPGRADE, "the origin was asked {of_film} times");
}
