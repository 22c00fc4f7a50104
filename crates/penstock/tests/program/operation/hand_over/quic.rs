//! Connections over QUIC during a succession.

use std::thread;

use penstock_testkit::{Client, Setup, until};

use super::cached::SMALL;
use crate::operation::{LARGE, downloading};

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
fn a_connection_without_a_request_gets_its_first_one_answered_by_the_process_before() {
    if !crate::http3::has_client() {
        return;
    }
    let setup = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
    // The old process gives it as long as that.
    let server = setup.clone().limits("drain_deadline: 1h, lame_duck: 1m").start();
    let small = server.file("small.mp4", SMALL);
    let go = server.directory().join("go");
    let options = format!("wait={}", go.display());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| crate::http3::content_with(&server, &options, "/small.mp4"));
        until("the connection", || {
            (server.metrics().sum("penstock_http_connections_total", &["version=\"h3\""]) >= 1.0)
                .then_some(())
        });
        server.hand_over();
        std::fs::write(&go, "").unwrap();
        small.assert_range(0..SMALL, &waiting.join().unwrap());
    });
    assert!(server.wait_for_predecessor().success());
    server.reload(&setup);
}

#[test]
fn a_client_that_is_gone_does_not_keep_the_process_before() {
    if !crate::http3::has_client() {
        return;
    }
    let listeners = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
    // Neither ends its connection.
    let server = listeners.limits("drain_deadline: 1h, lame_duck: 0, idle_timeout: 1h").start();
    server.write("tiny.txt", "It is in one packet.\n");
    let client = crate::http3::client(&server).arg("GET /tiny.txt").env("OPTIONS", "vanish").run();
    assert_eq!(client.code, 0, "{}", client.stderr);
    server.logged("/tiny.txt");
    server.hand_over();
    assert!(server.wait_for_predecessor().success());
}
