//! Connections over QUIC during a succession.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::{fs, thread};

use penstock_testkit::{Client, DEADLINE, Setup, Tool, until};
use tempfile::TempDir;

use super::cached::{CACHED, Cached, SMALL};
use crate::http3::network::{Faults, Network, download};
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
        fs::write(&go, "").unwrap();
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

#[test]
fn downloads_over_networks_that_lose_and_reorder_go_on_across_successions() {
    const BYTES: u64 = 3_000_000;
    const TIMES: u64 = 3;
    let setup = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
    let server = setup.limits("drain_deadline: 2m").start();
    let file = server.file("clip.mp4", BYTES);
    for round in 1..=2 {
        let faults = Faults { lost: 30, late: 50, ..Faults::default() };
        let networks: Vec<_> = (0..3).map(|_| Network::before(server.https(), faults)).collect();
        thread::scope(|scope| {
            let loads: Vec<_> = networks
                .iter()
                .map(|network| scope.spawn(|| download(&server, network, &file, TIMES)))
                .collect();
            until("downloads", || (server.metrics().sum("penstock_http3_streams", &[]) >= 4.0).then_some(()));
            server.hand_over();
            for load in loads {
                let report = load.join().unwrap();
                assert_eq!(report["errors_total"], 0, "{round}: {report:#}");
                assert_eq!(report["bytes"], BYTES * TIMES, "{round}");
            }
        });
        assert!(server.wait_for_predecessor().success());
    }
}

/// Asks all the time; see its text.
const ASKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/operation/hand_over/asks.py");

const SUCCESSIONS: usize = 20;

/// Clients that ask all the time, each for a path.
const ASKING: [(&str, &str); 6] = [
    ("aioquic", "/0.mp4"),
    ("curl", "/0.mp4"),
    ("curl", "/large.mp4"),
    ("curl-new", "/1.mp4"),
    ("quic-go", "/0.mp4"),
    ("quic-go", "/large.mp4"),
];

/// How often each of these has got its answer.
fn answers(asking: &[(&str, &str)], directory: &Path) -> Vec<u64> {
    let count = |(kind, path): &(&str, &str)| {
        let text = fs::read_to_string(directory.join(format!("{kind}{}", path.replace('/', "-"))));
        text.map_or(0, |text| text.parse().unwrap())
    };
    asking.iter().map(count).collect()
}

/// Every client has got a further answer.
fn wait_for_answers(asking: &[(&str, &str)], directory: &Path) {
    let before = answers(asking, directory);
    until("further answers over QUIC", || {
        answers(asking, directory).iter().zip(&before).all(|(now, before)| now > before).then_some(())
    });
}

#[test]
fn twenty_successions_fail_no_request_over_quic() {
    if !crate::http3::has_client() {
        return;
    }
    let asking = if crate::http3::has_quic_go() { &ASKING[..] } else { &ASKING[..4] };
    let listeners = ["tls: true, protocols: [h1, h2, h3]", ""];
    let cached = Cached::start_with(|setup| setup.listeners(&listeners));
    let server = &cached.server;
    let files = TempDir::new().unwrap();
    let ask = |(kind, path): &(&str, &str)| {
        let (content, len) =
            if *path == "/large.mp4" { (&cached.large, CACHED) } else { (&cached.small, SMALL) };
        // Of each client alone: another one reads its own while this one is written.
        let expected = files.path().join(format!("expected-{kind}-{len}"));
        content.write_to(&expected);
        let client = match *kind {
            "quic-go" => Tool::new(crate::http3::QUIC_GO).arg("ask"),
            kind => Tool::new(crate::http3::PYTHON).args([ASKS, kind]),
        };
        client
            .arg(server.url(path))
            .arg(server.certificates().authority())
            .arg(expected)
            .arg(files.path())
            .time_limit(10 * DEADLINE)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = asking.iter().map(ask).map(|client| scope.spawn(|| client.run())).collect();
        let successions = panic::catch_unwind(AssertUnwindSafe(|| {
            wait_for_answers(asking, files.path());
            for _ in 0..SUCCESSIONS {
                server.hand_over();
                wait_for_answers(asking, files.path());
                assert!(server.wait_for_predecessor().success());
            }
        }));
        fs::write(files.path().join("enough"), "").unwrap();
        for client in clients {
            client.join().unwrap().ok();
        }
        successions.unwrap();
    });
    println!("answers of {asking:?}: {:?}", answers(asking, files.path()));
}
