//! What the CPU of a worker goes into, and what the server does without while it is short.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use penstock_testkit::{Client, Setup, until};

use super::status;

#[test]
fn the_busy_time_of_workers_is_divided_by_what_they_do() {
    let server = Setup::new().workers(1).start();
    server.file("large.mp4", 4_000_000);
    let found = |work: &str| {
        server.metrics().sum("penstock_worker_work_samples_total", &[&format!("work=\"{work}\"")])
    };
    let wanted = ["handshakes", "sealing", "sending", "rest"];
    until("all kinds of work to be found", || {
        Client::tls(&server).get("/large.mp4");
        wanted.iter().all(|work| found(work) > 0.0).then_some(())
    });
    let status = status(&server);
    let shares = status["work"][0].as_object().unwrap();
    let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{shares:?}");
    assert!(shares["sealing"].as_f64().unwrap() > 0.0, "{shares:?}");
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

/// Ends the load, also if the test fails.
struct EndOfLoad<'l>(&'l AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
