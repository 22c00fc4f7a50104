//! Limits on handshakes: by client network, and by how many are full.

use std::io::Write;
use std::net::TcpStream;

use crate::harness::{Certificates, Client, Server, Setup, TlsOptions, until};
use crate::{counted, fetch};

const REFUSED: &str = "penstock_connections_refused_total";

/// A connection that a balancer hands on for this client, which then says nothing.
fn silent(server: &Server, client: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.https()).unwrap();
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let target = if client.contains(':') { "::1" } else { "127.0.0.1" };
    write!(socket, "PROXY {family} {client} {target} 4000 443\r\n").unwrap();
    socket
}

#[test]
fn a_network_has_so_many_handshakes_in_flight_whoever_brings_them() {
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
    counted(&server, REFUSED, &["reason=\"network\""], 1.0);
    counted(&server, REFUSED, &[], 1.0);
    // One leaves, so there is a place again.
    drop(open.remove(0));
    counted(&server, "penstock_connections", &["protocol=\"https\""], 4.0);
    let _again = silent(&server, "192.0.2.200");
    counted(&server, "penstock_connections", &["protocol=\"https\""], 5.0);
    counted(&server, REFUSED, &[], 1.0);
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
    counted(&server, "penstock_handshakes_total", &["outcome=\"ok\"", "resumed=\"true\""], 3.0);
}
