//! Clients that cost more than they give: floods of first packets, of resets, and readers that do not read.

use std::net::{TcpListener, UdpSocket};

use penstock_testkit::{DEADLINE, Server, Tool, until};
use serde_json::Value;

use super::{PYTHON, fetch, has_client, setup};

const ATTACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/http3/attack.py");

/// `H3_EXCESSIVE_LOAD` of RFC 9114 §8.1.
pub(super) const EXCESSIVE_LOAD: u64 = 0x107;

/// `FRAME_ENCODING_ERROR` of RFC 9000 §20.1.
const FRAME_ENCODING_ERROR: u64 = 0x07;

pub(super) fn attack(server: &Server, attack: &[&str]) -> Value {
    let address = server.https();
    let tool = Tool::new(PYTHON).arg(ATTACK).arg(server.certificates().authority());
    let tool = tool.args([address.ip().to_string(), address.port().to_string()]).args(attack);
    serde_json::from_slice(&tool.run().ok().stdout).unwrap()
}

/// A server whose `/silent` is that of an origin which takes connections and never answers.
fn before_silence() -> (TcpListener, Server) {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let sites = format!(
        "- origin: {{directory: root}}\n  routes:\n  - path: /silent\n    origin: {{http: [\"http://{}\"], cache: off}}",
        origin.local_addr().unwrap()
    );
    let server = setup().sites(&sites).start();
    server.write("small.txt", "hello");
    (origin, server)
}

/// A first packet of a version, with random bytes where its frames should be.
fn initial(version: u32, number: u32, bytes: usize) -> Vec<u8> {
    let mut datagram = vec![0xc0];
    datagram.extend_from_slice(&version.to_be_bytes());
    datagram.push(8);
    datagram.extend_from_slice(&[&number.to_be_bytes()[..], &[7; 4]].concat());
    datagram.push(0);
    // No token, and the length of what follows.
    datagram.extend_from_slice(&[0, 0x44, 0x96]);
    datagram.resize(bytes, 0x5a);
    datagram
}

#[test]
fn a_flood_of_first_packets_holds_no_state_beyond_the_threshold_of_retry() {
    if !has_client() {
        return;
    }
    let server = setup().limits("handshakes_in_flight: 80, handshake_deadline: 60s").start();
    let file = server.file("small.txt", 5000);
    attack(&server, &["initials", "400"]);
    let retries = || server.metrics().sum("penstock_quic_answered_datagrams_total", &["answer=\"retry\""]);
    until("answers by Retry", || (retries() >= 300.0).then_some(()));
    // A quarter of 80 on each of two workers.
    let held = server.metrics().sum("penstock_connections", &["protocol=\"https\""]);
    assert!(held <= 40.0, "{held}");
    let exchange = fetch(&server, "", &["GET /small.txt"]);
    file.assert_range(0..file.len, &exchange.responses[0].content);
}

#[test]
fn first_packets_that_nothing_can_be_read_from_hold_nothing() {
    let server = setup().limits("handshake_deadline: 60s").start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..40 {
        socket.send_to(&initial(1, number, 1200), server.https()).unwrap();
    }
    server.counted("penstock_handshake_failures_total", &["reason=\"connection_lost\""], 40.0);
    server.counted("penstock_quic_versions_total", &["version=\"1\""], 40.0);
    server.counted("penstock_connections", &["protocol=\"https\""], 0.0);
}

#[test]
fn versions_are_told_to_clients_of_other_ones_and_never_amplified() {
    let server = setup().start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.https()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.send(&initial(0x1a2a_3a4a, 0, 1199)).unwrap();
    socket.send(&initial(0x6b33_43cf, 1, 1200)).unwrap();
    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer).unwrap();
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]));
    // The ids change sides; then come the versions.
    assert_eq!(answer[5..6 + 1 + 8], [&[0, 8][..], &1_u32.to_be_bytes(), &[7; 4][..4]].concat()[..10]);
    let versions: Vec<&[u8]> = answer[15..length].chunks(4).collect();
    assert!(versions.contains(&&1_u32.to_be_bytes()[..]), "{versions:?}");
    server.counted("penstock_quic_answered_datagrams_total", &["answer=\"version_negotiation\""], 1.0);
    server.counted("penstock_quic_versions_total", &["version=\"2\""], 1.0);
    server.counted("penstock_quic_versions_total", &[], 1.0);
}

#[test]
fn a_client_that_resets_its_requests_without_end_is_cut_off_and_one_that_does_it_now_and_then_is_not() {
    if !has_client() {
        return;
    }
    let (_origin, server) = before_silence();
    assert_eq!(attack(&server, &["resets", "100"])["answered"], "200");
    assert_eq!(attack(&server, &["resets", "2000"])["code"], EXCESSIVE_LOAD);
    let resets =
        |cause: &str| server.metrics().sum("penstock_http3_resets_total", &[&format!("cause=\"{cause}\"")]);
    assert_eq!(resets("reset_flood"), 1.0);
    server.counted("penstock_http3_streams", &[], 0.0);
}

#[test]
fn requests_whose_responses_were_stopped_before_they_came_count_as_resets() {
    if !has_client() {
        return;
    }
    let (_origin, server) = before_silence();
    assert_eq!(attack(&server, &["unwanted", "50"])["answered"], "200");
    server.counted("penstock_http3_streams", &[], 0.0);
    assert_eq!(attack(&server, &["unwanted", "2000"])["code"], EXCESSIVE_LOAD);
    server.counted("penstock_http3_streams", &[], 0.0);
}

#[test]
fn floods_of_priorities_and_of_malformed_requests_end_their_connection() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    assert_eq!(attack(&server, &["priorities", "200"])["answered"], "200");
    assert_eq!(attack(&server, &["priorities", "20000"])["code"], EXCESSIVE_LOAD);
    assert_eq!(attack(&server, &["malformed", "50"])["answered"], "200");
    assert_eq!(attack(&server, &["malformed", "3000"])["code"], EXCESSIVE_LOAD);
}

#[test]
fn a_flood_of_bodies_that_have_not_their_content_length_ends_its_connection() {
    if !has_client() {
        return;
    }
    let (_origin, server) = before_silence();
    assert_eq!(attack(&server, &["lengths", "50"])["answered"], "200");
    assert_eq!(attack(&server, &["lengths", "3000"])["code"], EXCESSIVE_LOAD);
    let resets =
        |cause: &str| server.metrics().sum("penstock_http3_resets_total", &[&format!("cause=\"{cause}\"")]);
    assert_eq!(resets("provoked_reset_flood"), 1.0);
    server.counted("penstock_http3_streams", &[], 0.0);
}

#[test]
fn challenges_without_end_leave_the_connection_as_it_is() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    assert_eq!(attack(&server, &["challenges", "20000"])["answered"], "200");
}

#[test]
fn acknowledgements_without_end_leave_the_connection_as_it_is() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    let before = server.memory();
    assert_eq!(attack(&server, &["acks", "20000"])["answered"], "200");
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 20 << 20, "{grown} bytes");
    // The extension that asks for fewer of them is not offered: its frames are unknown (RFC 9000 §12.4).
    assert_eq!(attack(&server, &["frequencies", "100"])["code"], FRAME_ENCODING_ERROR);
}

#[test]
fn a_client_that_acknowledges_no_reset_gets_them_again_and_its_next_response() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    assert_eq!(attack(&server, &["unheard", "50"])["answered"], "200");
    server.counted("penstock_http3_streams", &[], 0.0);
}

#[test]
fn a_reader_that_gives_no_window_loses_its_response() {
    if !has_client() {
        return;
    }
    let server = setup().limits("minimum_rate: 1MiB, minimum_rate_grace: 2s").start();
    server.file("long.mp4", 30_000_000);
    server.write("small.txt", "hello");
    assert_eq!(attack(&server, &["stalled"])["answered"], "200");
    assert_eq!(server.logged("/long.mp4")["outcome"], "too_slow");
}

#[test]
fn a_window_in_which_no_head_fits_is_not_waited_for_without_end() {
    if !has_client() {
        return;
    }
    let server = setup().limits("minimum_rate: 1MiB, minimum_rate_grace: 2s").start();
    server.file("long.mp4", 1_000_000);
    assert_eq!(attack(&server, &["narrow"])["code"], Value::Null);
    assert_eq!(server.logged("/long.mp4")["outcome"], "too_slow");
}

#[test]
fn a_head_that_is_larger_than_the_first_windows_arrives() {
    if !has_client() {
        return;
    }
    let fields: Vec<_> = (0..16).map(|number| format!("X-Long-{number}: \"{}\"", "v".repeat(4000))).collect();
    let site = format!(
        "- {{origin: {{directory: root}}, headers: {{response: {{set: {{{}}}}}}}}}",
        fields.join(", ")
    );
    let server = setup().sites(&site).start();
    let file = server.file("large.mp4", 300_000);
    file.assert_range(0..file.len, &super::content(&server, "/large.mp4"));
}
