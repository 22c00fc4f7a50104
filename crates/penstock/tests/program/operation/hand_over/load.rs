//! Many successions while clients of all kinds are served.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::frames::{Peer, get};
use penstock_testkit::{Client, Stream};

use super::cached::{CACHED, Cached, SMALL};
use crate::operation::players::{SEGMENTS, watch_while};

/// Leaves the other tests some of the machine.
const PAUSE: Duration = Duration::from_millis(10);

const SUCCESSIONS: usize = 20;

/// Requests to the origin that a succession may cause. Everything is in the cache and stays fresh, so none is made without one. A part
/// of the client's requests would be no bound: how many a busy machine answers meanwhile differs.
const ASKED_PER_SUCCESSION: usize = 3;

impl Cached {
    /// Asks for small objects until this is false, on one connection after the other.
    fn ask_while(&self, goes_on: &AtomicBool, connect: impl Fn() -> Client<Box<dyn Stream>>) {
        let mut client = connect();
        for number in 0.. {
            if !goes_on.load(Ordering::Relaxed) {
                return;
            }
            let answer = client.get(&format!("/{}.mp4", number % 8));
            self.small.assert_range(0..SMALL, &answer.body);
            thread::sleep(PAUSE);
            if answer.field("Connection") == Some("close") {
                client.assert_closed();
                client = connect();
            }
        }
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

    /// Asks for a segment of the film over a new connection until this is false.
    fn visit_while(&self, goes_on: &AtomicBool) {
        for number in 0.. {
            if !goes_on.load(Ordering::Relaxed) {
                return;
            }
            self.status(&format!("/film/{}.ts", number % SEGMENTS));
            thread::sleep(PAUSE);
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
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        let clients = [
            scope.spawn(|| cached.ask_while(&goes_on, || Client::tls(&cached.server).boxed())),
            scope.spawn(|| cached.ask_while(&goes_on, || Client::plain(&cached.server).boxed())),
            scope.spawn(|| cached.download_while(&goes_on)),
            scope.spawn(|| cached.ask_over_http2_while(&goes_on)),
            scope.spawn(|| cached.visit_while(&goes_on)),
            scope.spawn(|| watch_while(&cached.server, &goes_on, SMALL)),
        ];
        let successions = panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..SUCCESSIONS {
                cached.server.hand_over();
                assert!(cached.server.wait_for_predecessor().success());
            }
        }));
        goes_on.store(false, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        successions.unwrap();
    });
    let more = cached.asked() - asked;
    assert!(more <= SUCCESSIONS * ASKED_PER_SUCCESSION, "the origin was asked {more} times more");
}
