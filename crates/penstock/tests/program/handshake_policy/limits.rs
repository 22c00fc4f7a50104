//! Limits on handshakes: by client network, and by how many are full.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use penstock_testkit::{Certificates, Client, EndOfLoad, Server, Setup, TlsOptions, client_hello, until};

use super::fetch;

const REFUSED: &str = "penstock_connections_refused_total";

/// A connection that a balancer hands on for this client, which then says nothing.
fn silent(server: &Server, client: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.https()).unwrap();
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let target = if client.contains(':') { "::1" } else { "127.0.0.1" };
    // A full server may have closed it already.
    drop(write!(socket, "PROXY {family} {client} {target} 4000 443\r\n"));
    socket
}

#[test]
fn a_network_has_a_limit_of_handshakes_in_flight_for_all_its_clients() {
    let server = Setup::new()
        .workers(1)
        .listeners(&["tls: true, proxy_protocol: true", ""])
        .limits("handshakes_per_network: 3, handshake_deadline: 1m")
        .start();
    let mut open: Vec<TcpStream> =
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|client| silent(&server, client)).into();
    // Another network has a limit of its own, the fourth of the first is closed.
    open.push(silent(&server, "198.51.100.1"));
    open.push(silent(&server, "2001:db8::1"));
    until("all to be taken in", || {
        let kept = server.metrics().sum("penstock_connections", &["protocol=\"https\""]);
        (kept == 5.0).then_some(())
    });
    let mut fourth = Client::over(silent(&server, "192.0.2.200"));
    fourth.assert_closed();
    server.counted(REFUSED, &["reason=\"network\""], 1.0);
    server.counted(REFUSED, &[], 1.0);
    // One leaves, so there is a place again.
    drop(open.remove(0));
    server.counted("penstock_connections", &["protocol=\"https\""], 4.0);
    let _again = silent(&server, "192.0.2.200");
    server.counted("penstock_connections", &["protocol=\"https\""], 5.0);
    server.counted(REFUSED, &[], 1.0);
}

#[test]
fn a_network_that_floods_a_worker_leaves_places_for_others() {
    const PLACES: usize = 16;
    let server = Setup::new()
        .workers(1)
        .listeners(&["tls: true, proxy_protocol: true", ""])
        .limits(&format!("handshakes_in_flight: {PLACES}, handshake_deadline: 1m"))
        .start();
    // More silent clients of one /24 than there are places.
    let _flood: Vec<TcpStream> =
        (1..=2 * PLACES).map(|number| silent(&server, &format!("192.0.2.{number}"))).collect();
    until("the flood to be taken in and refused", || {
        let metrics = server.metrics();
        let kept = metrics.sum("penstock_connections", &["protocol=\"https\""]);
        let refused = metrics.sum(REFUSED, &[]);
        (refused >= PLACES as f64 && kept + refused == 2.0 * PLACES as f64).then_some(())
    });
    // Some of the flood may have been accepted together, before their networks were known.
    let of_the_flood = server.metrics().sum(REFUSED, &["reason=\"handshakes\""]);
    for number in 0..20 {
        let socket = silent(&server, &format!("198.51.{number}.1"));
        TlsOptions::default().handshake(&server, socket).unwrap();
    }
    server.counted(REFUSED, &["reason=\"handshakes\""], of_the_flood);
}

#[test]
fn a_network_that_floods_the_rate_of_full_handshakes_leaves_some_to_others() {
    const FLOOD: usize = 5000;
    let server = Setup::new()
        .workers(1)
        .listeners(&["tls: true, proxy_protocol: true", ""])
        .limits("handshake_rate: 5, handshakes_in_flight: 1000")
        .start();
    let hello = client_hello(&server, &TlsOptions::default());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndOfLoad(&is_over);
        scope.spawn(|| {
            let mut held = VecDeque::new();
            for number in (0..FLOOD).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let mut socket = silent(&server, &format!("192.0.2.{}", number % 250));
                // It may have been closed already.
                drop(socket.write_all(&hello));
                held.push_back(socket);
                if held.len() > 500 {
                    held.pop_front();
                }
            }
        });
        until("the flood to be refused", || {
            let reason = ["reason=\"rate_limited\""];
            (server.metrics().sum("penstock_handshake_failures_total", &reason) >= 50.0).then_some(())
        });
        for number in 0..3 {
            let socket = silent(&server, &format!("198.51.{number}.1"));
            TlsOptions::default().handshake(&server, socket).unwrap();
        }
    });
}

#[test]
fn over_the_rate_full_handshakes_are_turned_away_and_resumed_ones_pass() {
    // One in a second, of which half of one may wait: none.
    let server = Setup::new()
        .workers(1)
        .tls(&Certificates::yaml(&["ec"]))
        .limits("handshake_rate: 1, handshakes_in_flight: 1")
        .start();
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    assert!(fetch(&server, &["-sess_out", session]).ok().text().contains("\nNew, TLSv1.3"));
    let refused = until("a full handshake over the rate", || {
        let socket = Client::connect(server.https()).stream;
        TlsOptions::default().handshake(&server, socket).err()
    });
    assert!(!refused.to_ascii_lowercase().contains("alert"), "{refused}");
    for _ in 0..3 {
        let text = fetch(&server, &["-sess_in", session]).ok().text();
        assert!(text.contains("\nReused, TLSv1.3"), "{text}");
    }
    let count = || server.metrics().sum("penstock_handshake_failures_total", &["reason=\"rate_limited\""]);
    until("the refusal to be counted", || (count() >= 1.0).then_some(()));
    server.counted("penstock_handshakes_total", &["outcome=\"ok\"", "resumed=\"true\""], 3.0);
}
