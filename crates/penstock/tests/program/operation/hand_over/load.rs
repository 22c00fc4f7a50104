//! Many successions while clients of all kinds are served.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::frames::{Peer, get};
use penstock_testkit::{Client, Stream, until};

use super::cached::{CACHED, Cached, SMALL};
use crate::operation::players::{SEGMENTS, watch_while};

/// Leaves the other tests some of the machine.
const PAUSE: Duration = Duration::from_millis(10);

const SUCCESSIONS: usize = 20;

/// Requests to the origin that a succession may cause. Everything is in the cache and stays fresh, so none is made without one.
const ASKED_PER_SUCCESSION: usize = 3;

/// Answers to clients for each succession: how many a busy machine gives meanwhile differs.
const ANSWERS_PER_SUCCESSION: usize = 100 * ASKED_PER_SUCCESSION;

/// What clients of many successions share.
struct Load {
    goes_on: AtomicBool,
    /// Complete answers to requests for cached objects.
    answers: AtomicUsize,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }

    fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }
}

impl Cached {
    /// Asks for small objects until this is false, on one connection after the other.
    fn ask_while(&self, load: &Load, connect: impl Fn() -> Client<Box<dyn Stream>>) {
        let mut client = connect();
        for number in 0.. {
            if !load.goes_on() {
                return;
            }
            let answer = client.get(&format!("/{}.mp4", number % 8));
            self.small.assert_range(0..SMALL, &answer.body);
            load.answered();
            if answer.field("Connection") == Some("close") {
                client.assert_closed();
                client = connect();
            }
        }
    }

    /// Downloads the large object slowly until this is false.
    fn download_while(&self, load: &Load) {
        while load.goes_on() {
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
    fn ask_over_http2_while(&self, load: &Load) {
        while load.goes_on() {
            let mut peer = Peer::tls(&self.server).open(&[]);
            peer.send(&get(1, "/0.mp4"));
            self.small.assert_range(0..SMALL, &peer.body(1));
            load.answered();
        }
    }

    /// Asks for a segment of the film over a new connection until this is false.
    fn visit_while(&self, load: &Load) {
        for number in 0.. {
            if !load.goes_on() {
                return;
            }
            self.status(&format!("/film/{}.ts", number % SEGMENTS));
            load.answered();
        }
    }
}

#[test]
fn twenty_successions_under_load_fail_no_request_and_keep_the_cache() {
    let cached = Cached::start();
    cached.large.assert_range(0..CACHED, &Client::tls(&cached.server).get("/large.mp4").body);
    (0..8).for_each(|number| drop(cached.status(&format!("/{number}.mp4"))));
    (0..SEGMENTS).for_each(|number| drop(cached.status(&format!("/film/{number}.ts"))));
    assert_eq!(Client::plain(&cached.server).get("/film/index.m3u8").status, 200);
    let asked = cached.asked();
    let load = Load { goes_on: AtomicBool::new(true), answers: AtomicUsize::new(0) };
    thread::scope(|scope| {
        let clients = [
            scope.spawn(|| cached.ask_while(&load, || Client::tls(&cached.server).boxed())),
            scope.spawn(|| cached.ask_while(&load, || Client::plain(&cached.server).boxed())),
            scope.spawn(|| cached.download_while(&load)),
            scope.spawn(|| cached.ask_over_http2_while(&load)),
            scope.spawn(|| cached.visit_while(&load)),
            scope.spawn(|| watch_while(&cached.server, &load.goes_on, SMALL)),
        ];
        let successions = panic::catch_unwind(AssertUnwindSafe(|| {
            for number in 1..=SUCCESSIONS {
                cached.server.hand_over();
                assert!(cached.server.wait_for_predecessor().success());
                let least = number * ANSWERS_PER_SUCCESSION;
                until("further answers", || (load.answers() >= least).then_some(()));
            }
        }));
        load.goes_on.store(false, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        successions.unwrap();
    });
    let (more, answers) = (cached.asked() - asked, load.answers());
    assert!(more <= SUCCESSIONS * ASKED_PER_SUCCESSION, "the origin was asked {more} times more");
    let ratio = 1.0 - more as f64 / answers as f64;
    assert!(ratio >= 0.99, "the cache had {ratio} of {answers} requests, and all of them before");
}
