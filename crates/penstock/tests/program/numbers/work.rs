//! What the CPU of a worker goes into, and what the server does without while it is short.

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
