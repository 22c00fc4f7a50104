//! What the CPU of a worker goes into, and what the server does without while it is short.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Certificates, Client, EndOfLoad, Server, Setup, TlsOptions, memory_directory, until};

use super::status;
use crate::handshake_policy::fetch;

/// The values of the label `work`.
const WORK: [&str; 5] = ["rest", "handshakes", "sealing", "sending", "filling"];

#[test]
fn the_busy_time_of_workers_is_divided_by_what_they_do() {
    let origin = Origin::start(|_, _, stream| {
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", &vec![7; 2_000_000])
    });
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().workers(1).sites(&origin.sites()).section(&cache).start();
    let found = |work: &str| {
        server.metrics().sum("penstock_worker_work_samples_total", &[&format!("work=\"{work}\"")])
    };
    let mut number = 0;
    until("all kinds of work to be found", || {
        number += 1;
        let mut client = Client::tls(&server);
        // The first comes from the origin, the second from the cache.
        (0..2).for_each(|_| assert_eq!(client.get(&format!("/{number}.mp4")).status, 200));
        WORK.iter().all(|work| found(work) > 0.0).then_some(())
    });
    let status = status(&server);
    let shares = status["work"][0].as_object().unwrap();
    let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{shares:?}");
    for work in ["sealing", "filling"] {
        assert!(shares[work].as_f64().unwrap() > 0.0, "{shares:?}");
    }
    // Read once a second, by the kernel's own division.
    let spent = |mode: &str| {
        server.metrics().sum("penstock_worker_busy_mode_seconds_total", &[&format!("mode=\"{mode}\"")])
    };
    until("time in the program and in system calls", || {
        Client::tls(&server).get("/1.mp4");
        (spent("user") > 0.0 && spent("system") > 0.0).then_some(())
    });
}

#[test]
fn a_server_with_time_left_has_given_up_nothing() {
    let server = Setup::new().limits("handshake_rate: auto").start();
    server.file("clip.mp4", 1_000);
    Client::tls(&server).get("/clip.mp4");
    let pressure = status(&server)["pressure"].clone();
    assert!(pressure["handshake_rate_limit"].is_null(), "{pressure}");
    assert_eq!(pressure["given_up"], serde_json::json!([]), "{pressure}");
    assert_eq!(server.metrics().sum("penstock_pressure_given_up", &[]), 0.0);
    server.reload(&Setup::new().limits("handshake_rate: 40"));
    assert_eq!(status(&server)["pressure"]["handshake_rate_limit"], 40.0);
    assert_eq!(server.metrics().sum("penstock_handshake_rate_limit", &[]), 40.0);
}

/// A client that asks again and again takes more than a tenth of the one worker's time on a machine with any number of cores,
/// also beside other tests.
#[test]
fn under_load_a_server_gives_up_and_takes_back_when_the_load_ends() {
    let server = Setup::new().workers(1).limits("handshake_rate: auto, busy_percent: 10").start();
    server.file("clip.mp4", 4_000);
    let pressure = || status(&server)["pressure"].clone();
    // Whether it is listed, whether it is shown, and how often that changed.
    let given_up = |what: &str| {
        let listed = pressure()["given_up"].as_array().unwrap().iter().any(|one| one["what"] == what);
        let (metrics, label) = (server.metrics(), format!("what=\"{what}\""));
        let shown = metrics.sum("penstock_pressure_given_up", &[&label]);
        (listed, shown, metrics.sum("penstock_pressure_changes_total", &[&label]))
    };
    let all = ["handshakes", "prefetch", "compression"];
    assert_eq!(all.map(given_up), [(false, 0.0, 0.0); 3]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut client = Client::tls(&server);
                (0..1000).for_each(|_| drop(client.get("/clip.mp4")));
            }
        });
        let end = EndOfLoad(&is_over);
        for what in all {
            until(what, || (given_up(what) == (true, 1.0, 1.0)).then_some(()));
        }
        let limit = pressure()["handshake_rate_limit"].as_f64();
        assert!(limit.is_some_and(|rate| rate >= 50.0), "{limit:?}");
        assert_eq!(Client::tls(&server).get("/clip.mp4").status, 200, "new viewers get in");
        drop(end);
    });
    until("handshakes", || (given_up("handshakes") == (false, 0.0, 2.0)).then_some(()));
    assert!(pressure()["handshake_rate_limit"].is_null(), "{}", pressure());
}

/// Whether `handshakes` are given up, so that the automatic rate is in force.
fn is_limited(server: &Server) -> bool {
    server.metrics().sum("penstock_pressure_given_up", &["what=\"handshakes\""]) == 1.0
}

#[test]
fn under_an_automatic_rate_full_handshakes_wait_and_resumed_ones_pass() {
    let limits = "handshake_rate: auto, busy_percent: 10";
    let server = Setup::new().workers(1).tls(&Certificates::yaml(&["ec"])).limits(limits).start();
    server.file("a.mp4", 1_000);
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    assert!(fetch(&server, &["-sess_out", session]).ok().text().contains("\nNew, TLSv1.3"));
    let queued = |certificate: &str| {
        let labels = ["part=\"queued\"", &format!("certificate=\"{certificate}\"")];
        server.metrics().sum("penstock_handshake_part_seconds_sum", &labels)
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut client = Client::plain(&server);
                (0..1000).for_each(|_| drop(client.get("/a.mp4")));
            }
        });
        let _end = EndOfLoad(&is_over);
        until("the automatic rate", || is_limited(&server).then_some(()));
        // One after the other: without a rate none waits for a permit.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(TlsOptions::default().handshake(&server, Client::connect(server.https()).stream));
            }
        });
        let before = queued("ecdsa");
        until("a full handshake that waits", || (queued("ecdsa") > before).then_some(()));
        for _ in 0..3 {
            let text = fetch(&server, &["-sess_in", session]).ok().text().to_owned();
            assert!(text.contains("\nReused, TLSv1.3"), "{text}");
        }
        assert!(is_limited(&server), "the rate was in force all the time");
    });
    server.counted("penstock_handshakes_total", &["outcome=\"ok\"", "resumed=\"true\""], 3.0);
    assert_eq!(queued("none"), 0.0, "no resumed one has waited");
}
