//! A new process succeeds the one that serves (SIGUSR2), and no client notices.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::frames::{Peer, get};
use penstock_testkit::origin::{Origin, file, target};
use penstock_testkit::{Client, Content, Server, Setup, Stream, Tool, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{LARGE, ask_admin, downloading, finish, text_of};

/// The answer to a new connection says that it goes on. The process before may accept some until each worker has left its listeners.
fn is_served_by_successor(server: &Server) {
    until("the successor's answer", || {
        let answer = Client::plain(server).get("/a.txt");
        assert_eq!(answer.status, 200);
        answer.field("Connection").is_none().then_some(())
    });
}

#[test]
fn a_successor_accepts_while_the_process_before_ends_its_responses() {
    let server = Setup::new().limits("drain_deadline: 1m").start();
    server.write("a.txt", "a\n");
    let large = server.file("large.mp4", LARGE);
    let mut kept = Client::tls(&server);
    assert_eq!(kept.get("/a.txt").field("Connection"), None);
    let mut slow = downloading(Client::tls(&server));
    let before = server.hand_over();
    assert_ne!(server.pid(), before);
    is_served_by_successor(&server);
    assert_eq!(ask_admin(&server, "/healthz"), (200, "ok\n".to_owned()));
    let last = kept.get("/a.txt");
    assert_eq!((last.status, last.field("Connection")), (200, Some("close")), "from the process before");
    kept.assert_closed();
    large.assert_range(0..LARGE, &finish(&mut slow));
    drop(slow);
    assert!(server.wait_for_predecessor().success());
    is_served_by_successor(&server);
    server.wait_for_log("the process before has ended");
}

#[test]
fn no_connection_of_quic_loses_packets_to_the_process_before() {
    if !crate::http3::has_client() {
        return;
    }
    let setup = |workers| {
        let listeners = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
        listeners.limits("drain_deadline: 1m").workers(workers)
    };
    let server = setup(1).start();
    let small = server.file("small.mp4", SMALL);
    server.file("large.mp4", LARGE);
    let slow = downloading(Client::tls(&server));
    small.assert_range(0..SMALL, &crate::http3::content(&server, "/small.mp4"));
    // The workers of the new process are more than the sockets that it gets.
    server.configure(&setup(3));
    server.hand_over();
    // The process before still runs, and has the socket open no more.
    for _ in 0..8 {
        small.assert_range(0..SMALL, &crate::http3::content(&server, "/small.mp4"));
    }
    drop(slow);
    assert!(server.wait_for_predecessor().success());
    small.assert_range(0..SMALL, &crate::http3::content(&server, "/small.mp4"));
}

#[test]
fn downloads_over_quic_go_on_across_two_upgrades_with_other_workers() {
    if !crate::http3::has_client() {
        return;
    }
    // Each download needs four seconds at least, and starts before the process that serves it is succeeded.
    const PACED: u64 = 4 << 20;
    let setup = |workers| {
        let setup = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]).workers(workers);
        setup
            .sites("- {origin: {directory: root}, pace: {after: 100000, rate: 1MiB}}")
            .limits("drain_deadline: 1m, lame_duck: 0")
    };
    let server = setup(2).start();
    let small = server.file("small.mp4", SMALL / 4);
    let paced = server.file("paced.mp4", PACED);
    for workers in [3, 1] {
        thread::scope(|scope| {
            let slow: Vec<_> =
                (0..3).map(|_| scope.spawn(|| crate::http3::content(&server, "/paced.mp4"))).collect();
            until("downloads", || (server.metrics().sum("penstock_http3_streams", &[]) >= 3.0).then_some(()));
            server.configure(&setup(workers));
            server.hand_over();
            small.assert_range(0..small.len, &crate::http3::content(&server, "/small.mp4"));
            for download in slow {
                paced.assert_range(0..PACED, &download.join().unwrap());
            }
        });
        assert!(server.wait_for_predecessor().success());
        server.wait_for_log("the process before has ended");
    }
}

#[test]
fn a_session_ticket_of_the_process_before_resumes() {
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    let session = server.directory().join("session.pem");
    let fetch = |option: &str| {
        let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let client =
            Tool::s_client(&server).args(["-ign_eof", "-tls1_3", "-servername", "localhost", option]);
        client.arg(&session).run_with_input(request).ok().text()
    };
    assert!(fetch("-sess_out").contains("\nNew, "));
    server.hand_over();
    let again = fetch("-sess_in");
    assert!(again.contains("\nReused, "), "{again}");
}

#[test]
fn a_configuration_that_is_not_valid_changes_nothing() {
    let setup = Setup::new();
    let server = setup.start();
    server.write("a.txt", "a\n");
    let id = server.pid();
    server.configure(&Setup::new().whole(&format!("{}nothing: 1\n", text_of(&setup))));
    server.expect_warning("unknown key");
    server.expect_warning("not handed over: the new process has ended before it was ready");
    server.signal(Signal::USR2);
    server.wait_for_log("this process goes on");
    is_served_by_successor(&server);
    server.configure(&setup);
    server.hand_over();
    assert_ne!(server.pid(), id);
    is_served_by_successor(&server);
}

/// A server with a cache in memory, and its origin.
struct Cached {
    origin: Origin,
    small: Content,
    large: Content,
    server: Server,
    _memory: tempfile::TempDir,
}

const SMALL: u64 = 200_000;
/// A part of the memory tier, so that the objects of [`Cached::fill`] need its place.
const CACHED: u64 = 10 << 20;

impl Cached {
    fn start() -> Self {
        Self::start_with("")
    }

    /// The same with further limits, behind a comma.
    fn start_with(limit: &str) -> Self {
        let (small, large) = (Content::new(71, SMALL), Content::new(72, CACHED));
        let bodies = (small.all(), large.all());
        let origin = Origin::start(move |head, _, stream| {
            let body = if target(head).starts_with("/large") { &bodies.1 } else { &bodies.0 };
            file(head, stream, "Cache-Control: max-age=600\r\n", body)
        });
        let memory = penstock_testkit::memory_directory();
        let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
        let setup = Setup::new().sites(&origin.sites()).section(&cache);
        let server = setup.limits(&format!("drain_deadline: 1m, lame_duck: 0{limit}")).start();
        Self { origin, small, large, server, _memory: memory }
    }

    fn status(&self, path: &str) -> String {
        let answer = Client::plain(&self.server).get(path);
        self.small.assert_range(0..SMALL, &answer.body);
        answer.field("Cache-Status").unwrap().to_owned()
    }

    /// Asks for small objects until this is false, on one connection after the other, and counts the hits.
    fn ask_while(&self, goes_on: &AtomicBool, connect: impl Fn() -> Client<Box<dyn Stream>>) -> (u32, u32) {
        let (mut hits, mut requests) = (0, 0);
        let mut client = connect();
        while goes_on.load(Ordering::Relaxed) {
            let answer = client.get(&format!("/{}.mp4", requests % 8));
            self.small.assert_range(0..SMALL, &answer.body);
            requests += 1;
            thread::sleep(PAUSE);
            hits += u32::from(answer.field("Cache-Status").unwrap().starts_with("penstock; hit"));
            if answer.field("Connection") == Some("close") {
                client.assert_closed();
                client = connect();
            }
        }
        (hits, requests)
    }

    /// Downloads the large object slowly until this is false.
    fn download_while(&self, goes_on: &AtomicBool) {
        while goes_on.load(Ordering::Relaxed) {
            let mut client = Client::tls(&self.server);
            client.begin("/large.mp4");
            let mut at = 0;
            while at < CACHED {
                let piece = client.take(1 << 20).unwrap();
                self.large.assert_range(at..at + piece.len() as u64, &piece);
                at += piece.len() as u64;
                thread::sleep(2 * PAUSE);
            }
        }
    }

    /// Asks over HTTP/2 until this is false, one connection after the other.
    fn ask_over_http2_while(&self, goes_on: &AtomicBool) {
        while goes_on.load(Ordering::Relaxed) {
            let mut peer = Peer::tls(&self.server).open(&[]);
            peer.send(&get(1, "/0.mp4"));
            self.small.assert_range(0..SMALL, &peer.body(1));
            thread::sleep(PAUSE);
        }
    }

    fn asked(&self) -> usize {
        self.origin.asked().len()
    }
}

/// Leaves the other tests some of the machine.
const PAUSE: Duration = Duration::from_millis(10);

#[test]
fn a_successor_has_the_memory_tier_at_once_and_no_byte_of_a_running_response_changes() {
    let cached = Cached::start();
    assert!(cached.status("/one.mp4").contains("fwd=uri-miss"));
    let whole = Client::tls(&cached.server).get("/large.mp4");
    cached.large.assert_range(0..CACHED, &whole.body);
    let mut slow = Client::tls(&cached.server);
    slow.begin("/large.mp4");
    let asked = cached.asked();
    cached.server.hand_over();
    for _ in 0..4 {
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"), "without an empty moment");
    }
    assert_eq!(cached.asked(), asked);
    cached.server.wait_for_log("running responses may finish");
    // More than the tier holds: what the process before sends must stay.
    for number in 0..80 {
        cached.status(&format!("/other{number}.mp4"));
    }
    cached.large.assert_range(0..CACHED, &slow.take(usize::try_from(CACHED).unwrap()).unwrap());
    drop(slow);
    assert!(cached.server.wait_for_predecessor().success());
    cached.server.wait_for_log("the process before has ended");
    for number in 0..80 {
        cached.status(&format!("/later{number}.mp4"));
    }
    assert!(cached.status("/later79.mp4").starts_with("penstock; hit"));
    assert_eq!(cached.server.metrics().sum("penstock_cache_damaged_slices_total", &[]), 0.0);
}

#[test]
fn what_a_client_changes_in_the_process_before_is_asked_for_again_by_the_successor() {
    let cached = Cached::start();
    let mut kept = Client::plain(&cached.server);
    assert_eq!(kept.get("/one.mp4").status, 200);
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    let changed = kept.request("POST /one.mp4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((changed.status, changed.field("Connection")), (200, Some("close")), "by the process before");
    until("a request to the origin", || {
        (!cached.status("/one.mp4").starts_with("penstock; hit")).then_some(())
    });
}

#[test]
fn twenty_successions_under_load_fail_no_request_and_keep_the_cache() {
    let cached = Cached::start();
    cached.large.assert_range(0..CACHED, &Client::tls(&cached.server).get("/large.mp4").body);
    (0..8).for_each(|number| drop(cached.status(&format!("/{number}.mp4"))));
    let asked = cached.asked();
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        let kept = [
            scope.spawn(|| cached.ask_while(&goes_on, || Client::tls(&cached.server).boxed())),
            scope.spawn(|| cached.ask_while(&goes_on, || Client::plain(&cached.server).boxed())),
        ];
        let others = [
            scope.spawn(|| cached.download_while(&goes_on)),
            scope.spawn(|| cached.ask_over_http2_while(&goes_on)),
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) {
                    cached.status("/1.mp4");
                    thread::sleep(PAUSE);
                }
            }),
        ];
        let successions = panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..20 {
                cached.server.hand_over();
                assert!(cached.server.wait_for_predecessor().success());
            }
        }));
        goes_on.store(false, Ordering::Relaxed);
        for client in kept {
            let (hits, requests) = client.join().unwrap();
            assert!(hits * 100 >= requests * 99, "{hits} of {requests} are hits");
        }
        others.into_iter().for_each(|client| client.join().unwrap());
        successions.unwrap();
    });
    assert!(cached.asked() <= asked + 8, "the origin was asked {} times more", cached.asked() - asked);
}

impl Cached {
    /// Has a successor start, and returns its process without waiting until it is ready.
    fn begin(&self, round: usize) -> Pid {
        let line = "handing over to process ";
        let begun = || self.server.log().iter().filter(|said| said.contains(line)).count();
        self.server.signal(Signal::USR2);
        until("the new process", || (begun() >= round).then_some(()));
        let log = self.server.log();
        let said = log.iter().rfind(|said| said.contains(line)).unwrap();
        let successor = said.split(line).nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        Pid::from_raw(successor.parse().unwrap()).unwrap()
    }
}

#[test]
fn a_successor_that_is_killed_while_it_starts_changes_nothing() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    let id = cached.server.pid();
    cached.server.expect_warning("not handed over");
    for round in 1..=5 {
        kill_process(cached.begin(round), Signal::KILL).unwrap();
        cached.server.logs("this process goes on", round);
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
        assert!(cached.status(&format!("/new{round}.mp4")).contains("stored"), "it fills again");
    }
    assert_eq!(cached.server.pid(), id);
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
}

#[test]
fn a_successor_serves_with_the_same_cache_when_the_process_before_is_killed_at_any_time() {
    for wait in [0, 5, 10, 20, 40, 80] {
        let cached = Cached::start();
        cached.status("/one.mp4");
        // It may be in time to hand over, and it may be too late to start one: either way the other one serves.
        let successor = cached.begin(1);
        thread::sleep(Duration::from_millis(wait));
        let before = cached.server.pid();
        kill_process(before, Signal::KILL).unwrap();
        cached.server.adopt(successor);
        until("the successor to serve", || {
            Client::try_connect(cached.server.http()).and_then(|mut client| client.try_get("/one.mp4").ok())
        });
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"), "killed after {wait} ms");
        assert!(cached.status("/two.mp4").contains("stored"));
    }
}

#[test]
fn a_stop_while_a_successor_starts_ends_both() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    // It stands still, so that it is not ready in time.
    cached.server.tolerate_warning("not handed over");
    let successor = cached.begin(1);
    kill_process(successor, Signal::STOP).unwrap();
    cached.server.signal(Signal::TERM);
    kill_process(successor, Signal::CONT).unwrap();
    assert!(cached.server.wait().success());
    until("no process to listen", || Client::try_connect(cached.server.http()).is_none().then_some(()));
}

/// A configuration that is a pipe which nothing writes to: the new process waits for it, and says nothing.
#[test]
fn a_successor_that_is_silent_for_all_of_its_time_changes_nothing() {
    let cached = Cached::start_with(", successor_start: 1s");
    cached.status("/one.mp4");
    let id = cached.server.pid();
    let path = cached.server.directory().join("penstock.yaml");
    let text = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    cached.server.expect_warning("not handed over: the new process was not ready within 1s");
    let silent = cached.begin(1);
    cached.server.logs("this process goes on", 1);
    assert!(test_kill_process(silent).is_err(), "it was ended");
    assert_eq!(cached.server.pid(), id);
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    fs::remove_file(&path).unwrap();
    fs::write(&path, text).unwrap();
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
}
