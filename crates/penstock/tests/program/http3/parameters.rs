//! Transport parameters of clients (RFC 9000 §7.4, §18.2): faulty ones end their connection with an error code.

use penstock_testkit::{Keyserver, Server};
use serde_json::Value;

use super::floods::attack;
use super::{has_client, setup};
use crate::private_keys::{certificates, plain, use_keyservers};

/// `TRANSPORT_PARAMETER_ERROR` of RFC 9000 §20.1.
const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;

/// What a client leaves out of its list and what it adds, as `attack.py` takes it.
const FAULTY: [(&str, &str); 28] = [
    ("initial_source_connection_id is missing", "f:1b00"),
    ("no parameters", "all:"),
    ("a wrong initial_source_connection_id", "f:0f080102030405060708"),
    ("an initial_source_connection_id of no bytes", "f:0f00"),
    ("an initial_source_connection_id of 21 bytes", "f:0f15010203040506070809101112131415161718192021"),
    ("original_destination_connection_id", ":00080102030405060708"),
    ("stateless_reset_token", ":021000010203040506070809101112131415"),
    (
        "preferred_address",
        ":0d29c0000201 01bb 20010db8000000000000000000000001 01bb 00 00010203040506070809101112131415",
    ),
    ("retry_source_connection_id", ":10080102030405060708"),
    ("max_udp_payload_size of 1199", "3:030244af"),
    ("ack_delay_exponent of 21", "a:0a0115"),
    ("max_ack_delay of 2^14", "b:0b0480004000"),
    ("active_connection_id_limit of 1", "e:0e0101"),
    ("active_connection_id_limit of 0", "e:0e0100"),
    ("initial_max_streams_bidi of 2^60 + 1", "8:0808d000000000000001"),
    ("initial_max_streams_uni of 2^60 + 1", "9:0908d000000000000001"),
    ("initial_source_connection_id twice", ":0f080102030405060708"),
    ("max_idle_timeout twice", ":01024e20"),
    ("an unknown parameter twice", ":7a0001aa 7a0001bb"),
    ("initial_max_data of no bytes", "4:0400"),
    ("initial_max_data of half a number", "4:040140"),
    ("initial_max_data with a byte behind its number", "4:0405 80100000 00"),
    ("max_datagram_frame_size with a byte behind its number", ":20020500"),
    ("disable_active_migration with a value", ":0c0101"),
    ("a list that ends behind the number of a parameter", ":1b"),
    ("a list that ends inside a value", ":1b05 01020304"),
    ("a value of 2^62 - 1 bytes", ":1b ffffffffffffffff 00"),
    ("a list that ends inside the number of a parameter", ":40"),
];

/// Lists that RFC 9000 allows.
const VALID: [(&str, &str); 9] = [
    ("the list of aioquic", ":"),
    ("reserved parameters (31 * N + 27) with and without a value", ":1b03ffffff 3a00 497200"),
    ("unknown parameters", ":6ab200 c0000000ff04de1b 02ffff ff03020100fedcba 04 00000000"),
    ("disable_active_migration", ":0c00"),
    ("max_udp_payload_size of 1200", "3:030244b0"),
    ("ack_delay_exponent of 20", "a:0a0114"),
    ("max_ack_delay of 2^14 - 1", "b:0b027fff"),
    ("active_connection_id_limit of 2", "e:0e0102"),
    ("limits of 2^60 streams", "8:0808d000000000000000"),
];

/// An unknown parameter that makes a ClientHello longer than a datagram.
fn long() -> String {
    format!("80001234 4514 {}", "00".repeat(1300))
}

/// Makes a connection for each list, and a usual one behind it. Asserts that each is closed with the code, or answered with status
/// 200 without one, and that all usual ones are answered.
fn assert_outcomes(server: &Server, lists: &[(&str, &str)], code: Option<u64>) {
    let arguments: Vec<String> = lists.iter().map(|(_, list)| list.replace(' ', "")).collect();
    let arguments: Vec<&str> =
        ["parameters"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let expected = [code.map_or_else(|| Value::from("200"), Value::from), Value::from("200")];
    let outcomes = attack(server, &arguments);
    let outcomes = outcomes.as_array().unwrap();
    assert_eq!(outcomes.len(), lists.len());
    let others: Vec<_> = (lists.iter().zip(outcomes))
        .filter(|(_, outcome)| outcome.as_array().unwrap() != &expected)
        .map(|((name, _), outcome)| format!("{name}: {outcome}"))
        .collect();
    assert!(others.is_empty(), "not {expected:?}: {others:#?}");
}

fn failures(server: &Server, count: usize) {
    let reason = ["reason=\"transport_parameters\""];
    server.counted("penstock_handshake_failures_total", &reason, count as f64);
    server.counted("penstock_handshake_failures_total", &[], count as f64);
}

fn server() -> Server {
    let server = setup().start();
    server.write("small.txt", "hello");
    server
}

#[test]
fn faulty_parameters_end_their_connection_with_an_error_that_the_client_gets() {
    if !has_client() {
        return;
    }
    let server = server();
    assert_outcomes(&server, &FAULTY, Some(TRANSPORT_PARAMETER_ERROR));
    failures(&server, FAULTY.len());
    server.counted("penstock_connections", &["protocol=\"https\""], 0.0);
}

#[test]
fn unknown_and_reserved_parameters_and_numbers_at_their_limits_are_taken() {
    if !has_client() {
        return;
    }
    let server = server();
    assert_outcomes(&server, &VALID, None);
    failures(&server, 0);
}

#[test]
fn a_hello_of_two_datagrams_is_checked_as_a_whole() {
    if !has_client() {
        return;
    }
    let server = server();
    let (faulty, valid) = (format!("a:0a0115{}", long()), format!(":{}", long()));
    assert_outcomes(&server, &[("ack_delay_exponent of 21", &faulty)], Some(TRANSPORT_PARAMETER_ERROR));
    assert_outcomes(&server, &[("unknown", &valid)], None);
    failures(&server, 1);
}

#[test]
fn parameters_are_checked_after_a_retry() {
    if !has_client() {
        return;
    }
    // A quarter of three is none: each client has to prove its address.
    let server = setup().limits("handshakes_in_flight: 3").start();
    server.write("small.txt", "hello");
    // One at a time: more are refused.
    for faulty in &FAULTY[..2] {
        assert_outcomes(&server, &[*faulty], Some(TRANSPORT_PARAMETER_ERROR));
    }
    assert_outcomes(&server, &VALID[..1], None);
    failures(&server, 2);
    let retries = server.metrics().sum("penstock_quic_answered_datagrams_total", &["answer=\"retry\""]);
    // Each connection, and the usual one behind it.
    assert!(retries >= 6.0, "{retries}");
}

#[test]
fn a_keyserver_signs_for_clients_without_faults_alone() {
    if !has_client() {
        return;
    }
    let server = plain().start();
    server.write("small.txt", "hello");
    let keyserver = Keyserver::start(&server, "one");
    use_keyservers(&server, &[keyserver.address()], &certificates(&[keyserver.address()], ""));
    assert_outcomes(&server, &FAULTY[..3], Some(TRANSPORT_PARAMETER_ERROR));
    assert_outcomes(&server, &VALID[..2], None);
    failures(&server, 3);
    // Two valid lists, and five usual ones.
    server.counted("penstock_keyserver_operations_total", &["result=\"ok\""], 7.0);
}
