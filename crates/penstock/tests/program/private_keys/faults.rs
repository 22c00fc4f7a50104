//! Handshakes and downloads while keyservers hang, or fail one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::{Client, Content, EndOfLoad, Keyserver, Server, TlsOptions, client_hello, until};
use rustix::process::Signal;

use super::scripted::{Script, Scripted};
use super::{KINDS, NEW, certificates, connect, options, plain, results, use_keyservers, with_fallback};

/// A certificate whose key is a file.
pub(super) const LOCAL: &str = "- {chain: wild.crt, key: wild.key}\n";

/// A client that gets the certificate whose key is a file.
pub(super) fn wild() -> TlsOptions {
    TlsOptions { name: Some("a.wild.example"), ..TlsOptions::default() }
}

#[test]
fn one_worker_sends_a_download_to_its_end_while_all_keyservers_are_stopped_in_a_handshake() {
    const LENGTH: u64 = 20_000_000;
    let server = plain().start();
    // Larger than the buffers of a connection.
    let film = server.file("film.mp4", LENGTH);
    let keyservers = ["one", "two"].map(|name| Keyserver::start(&server, name));
    let servers = keyservers.each_ref().map(Keyserver::address);
    use_keyservers(&server, &servers, &(certificates(&servers, ", deadline: 60s") + LOCAL));
    server.tolerate_warning("stopped to answer");
    let mut download = Client::tls(&server);
    download.begin("/film.mp4");
    let mut body = download.body(100_000).unwrap();
    for keyserver in &keyservers {
        keyserver.signal(Signal::STOP);
    }
    let mut waiting = begin_handshake(&server);
    // A key of this machine signs meanwhile, and the download ends before the operation.
    wild().handshake(&server, TcpStream::connect(server.https()).unwrap()).unwrap();
    body.extend(download.body(LENGTH - 100_000).unwrap());
    assert_eq!((under_way(&server), results(&server, "ok")), (1.0, 1.0));
    assert!(body == film.all(), "a download of other bytes");
    for keyserver in &keyservers {
        keyserver.signal(Signal::CONT);
    }
    let mut record = [0];
    waiting.read_exact(&mut record).unwrap();
    assert_eq!(record, [22], "a handshake record");
    until("its end", || ((under_way(&server), results(&server, "ok")) == (0.0, 2.0)).then_some(()));
}

/// Sends a ClientHello for the certificate `ec`, and waits until its operation is under way.
pub(super) fn begin_handshake(server: &Server) -> TcpStream {
    let mut waiting = TcpStream::connect(server.https()).unwrap();
    waiting.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    waiting.write_all(&client_hello(server, &options(NEW, "ECDSA+SHA256"))).unwrap();
    until("the operation", || (under_way(server) == 1.0).then_some(()));
    waiting
}

pub(super) fn under_way(server: &Server) -> f64 {
    server.metrics().sum("penstock_private_key_operations_under_way", &[])
}

/// How many handshakes each of the tests below makes, at least; `PENSTOCK_TEST_HANDSHAKES` sets another number.
fn handshakes() -> u64 {
    std::env::var("PENSTOCK_TEST_HANDSHAKES").map_or(60, |text| text.parse().unwrap())
}

/// Clients that make handshakes and one that downloads, until they are told to stop.
#[derive(Default)]
struct Viewers {
    stop: AtomicBool,
    succeeded: AtomicU64,
    alerts: AtomicU64,
}

impl Viewers {
    const COUNT: usize = 4;

    /// Runs some steps while the clients make handshakes of all kinds.
    fn during(&self, server: &Server, film: &Content, steps: impl FnOnce()) {
        thread::scope(|scope| {
            let _end = EndOfLoad(&self.stop);
            for viewer in 0..Self::COUNT {
                scope.spawn(move || self.connect(server, viewer));
            }
            scope.spawn(|| self.download(server, film));
            steps();
        });
    }

    /// With a local key.
    fn download(&self, server: &Server, film: &Content) {
        let mut client = Client::tls_with(server, &wild());
        while !self.stop.load(Ordering::Relaxed) {
            assert!(client.get("/film.mp4").body == film.all(), "a download of other bytes");
        }
    }

    fn connect(&self, server: &Server, viewer: usize) {
        for round in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let (version, signatures) = KINDS[(viewer + round) % KINDS.len()];
            match connect(server, version, signatures) {
                Ok(()) => self.succeeded.fetch_add(1, Ordering::Relaxed),
                // A handshake that stalls ends otherwise.
                Err(error) if error.contains("TLSV1_ALERT_INTERNAL_ERROR") => {
                    self.alerts.fetch_add(1, Ordering::Relaxed)
                }
                Err(error) => panic!("{version:?} {signatures}: {error}"),
            };
        }
    }

    fn done(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed) + self.alerts.load(Ordering::Relaxed)
    }

    /// Waits for so many more handshakes.
    fn more(&self, count: u64) {
        let from = self.done();
        for least in from + 1..=from + count {
            until("more handshakes", || (self.done() >= least).then_some(()));
        }
    }
}

/// With local copies each handshake succeeds; without, each succeeds or ends with an alert, and the counters say which.
fn keyservers_fail_in_turns(tls: impl Fn(&[SocketAddr]) -> String, with_copies: bool) {
    let server = plain().start();
    let film = server.file("film.mp4", 2_000_000);
    let one = Scripted::start(&server, Script::Gather(1));
    let mut two = Keyserver::start(&server, "two");
    let servers = [one.address.address(), two.address()];
    for warning in ["cannot be used", "local keys sign instead", "failed repeatedly", "stopped to answer"] {
        server.tolerate_warning(warning);
    }
    use_keyservers(&server, &servers, &(tls(&servers) + LOCAL));
    let viewers = Viewers::default();
    let share = handshakes() / 6;
    viewers.during(&server, &film, || {
        viewers.more(share);
        one.follow(Script::Slow(Duration::from_millis(200)));
        viewers.more(share);
        one.follow(Script::Wrong);
        viewers.more(share);
        two.kill();
        viewers.more(share);
        one.follow(Script::Slow(Duration::from_millis(200)));
        two.start_again();
        viewers.more(share);
        two.signal(Signal::STOP);
        viewers.more(share);
        two.signal(Signal::CONT);
    });
    let [succeeded, alerts] =
        [&viewers.succeeded, &viewers.alerts].map(|counter| counter.load(Ordering::Relaxed) as f64);
    println!("{succeeded} handshakes succeeded, {alerts} ended with an alert");
    // Without copies no key signs while one keyserver lies and the other is killed.
    assert_eq!(alerts > 0.0, !with_copies, "{alerts} alerts");
    let sum = |name: &str| server.metrics().sum(name, &[]);
    server.counted("penstock_handshake_failures_total", &[], alerts);
    let signed = results(&server, "ok") + sum("penstock_private_key_fallbacks_total");
    assert_eq!(signed, succeeded, "one signature for each handshake that succeeded");
    assert!(results(&server, "wrong_signature") > 0.0);
}

#[test]
fn with_local_copies_each_handshake_succeeds_while_keyservers_fail_in_turns() {
    keyservers_fail_in_turns(|servers| with_fallback(servers, ", deadline: 1s"), true);
}

#[test]
fn without_local_copies_each_handshake_succeeds_or_ends_with_an_alert_while_keyservers_fail_in_turns() {
    keyservers_fail_in_turns(|servers| certificates(servers, ", deadline: 1s"), false);
}
