//! Clients that send early data and then do not behave.

use penstock_testkit::tapped::{connect, session};
use penstock_testkit::{Server, until};

use super::early_data::{early, open, requests};
use super::start;

const GET: &[u8] = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_client_that_never_finishes_its_handshake_is_closed() {
    let server = start(early("{anti_replay: false}").limits("handshake_deadline: 3s"));
    let session = session(&server);
    for (number, request) in
        [(1.0, GET), (2.0, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")]
    {
        // It never reads, and so never comes to its own Finished.
        let (client, _) = connect(&server, &session, request);
        until("its end", || (requests(&server, "abandoned") == number).then_some(()));
        drop(client);
    }
    until("the end of all connections", || (open(&server) == 0.0).then_some(()));
}

#[test]
fn a_long_answer_does_not_outlive_the_deadline_of_the_handshake() {
    let server = early("{anti_replay: false}").limits("handshake_deadline: 3s").start();
    server.file("film.mp4", 60_000_000);
    let session = session(&server);
    let (client, _) = connect(&server, &session, b"GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let short = || server.metrics().sum("penstock_short_responses_total", &["reason=\"too_slow\""]);
    until("the end of the answer", || (short() == 1.0).then_some(()));
    drop(client);
}

#[test]
fn a_spoiled_end_of_the_handshake_gets_its_alert() {
    let server = start(early("{anti_replay: false}"));
    let session = session(&server);
    let (mut client, tap) = connect(&server, &session, GET);
    tap.spoil();
    // The answer comes first: it was on its way before.
    let error = loop {
        if let Err(error) = client.response() {
            break error;
        }
    };
    assert!(error.to_string().to_ascii_uppercase().contains("BAD_RECORD_MAC"), "{error}");
    until("the alert", || (alerts(&server, "bad_record_mac") == 1.0).then_some(()));
}

#[test]
fn more_early_data_than_tickets_announce_ends_the_connection() {
    let server = start(early("{anti_replay: false}"));
    let session = session(&server);
    // The client believes that its ticket allows 32 KiB.
    let announced = [2, 2, 0x38, 0x00];
    let mut bytes = session.expose().to_vec();
    let place = bytes.windows(4).position(|four| four == announced).unwrap();
    bytes[place..place + 4].copy_from_slice(&[2, 2, 0x7f, 0xff]);
    let session = penstock_sys::traffic::Secret::new(bytes);
    let mut request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
    request.resize(15_000, b'x');
    let (mut client, _) = connect(&server, &session, &request);
    let error = client.response().unwrap_err();
    assert!(error.to_string().to_ascii_uppercase().contains("UNEXPECTED_MESSAGE"), "{error}");
    until("the alert", || (alerts(&server, "unexpected_message") == 1.0).then_some(()));
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    let server = start(early("{anti_replay: false}"));
    let session = session(&server);
    for request in [&GET[..10], GET, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"] {
        let (client, _) = connect(&server, &session, request);
        drop(client);
    }
    until("the end of all connections", || (open(&server) == 0.0).then_some(()));
}

fn alerts(server: &Server, name: &str) -> f64 {
    let name = format!("alert=\"{name}\"");
    server.metrics().sum("penstock_tls_alerts_total", &["direction=\"sent\"", &name])
}
