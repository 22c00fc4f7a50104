//! TLS records that no library would send.

use std::io::Write;

use boring::ssl::SslAlert;
use penstock_testkit::{Client, ContentType, Records, Server, Setup, Tool};

use crate::{ends, no_connections};

fn server() -> Server {
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    server
}

/// Waits for the server's end of the connection, and gives the alert it came with.
fn last_alert(client: &mut Client<Records>) -> Option<SslAlert> {
    ends(client);
    client.stream.alert()
}

#[test]
fn a_client_may_change_its_keys_now_and_then() {
    let server = server();
    let mut client = Records::connect(&server);
    for answer_wanted in [false, true, true, false, true] {
        let update = client.stream.seal_key_update(answer_wanted);
        client.stream.socket().write_all(&update).unwrap();
        // With an answer wanted, this answer is sealed with the server's next keys.
        assert_eq!(client.get("/a.txt").text(), "a\n");
    }
    client.stream.send(ContentType::Alert, &[1, 0]).unwrap();
    client.assert_closed();
    server.counted("penstock_tls_key_updates_total", &[], 5.0);
    server.counted("penstock_tls_alerts_total", &["direction=\"sent\"", "alert=\"close_notify\""], 1.0);
}

#[test]
fn a_client_may_change_its_keys_during_a_download() {
    let server = server();
    let file = server.file("clip.mp4", 32 << 20);
    let mut client = Records::connect(&server);
    client.begin("/clip.mp4");
    let mut body = Vec::new();
    for _ in 0..8 {
        let update = client.stream.seal_key_update(true);
        client.stream.socket().write_all(&update).unwrap();
        body.extend(client.take(4 << 20).unwrap());
    }
    file.assert_range(0..file.len, &body);
    assert_eq!(client.get("/a.txt").text(), "a\n");
    server.counted("penstock_tls_key_updates_total", &[], 8.0);
}

#[test]
fn a_storm_of_key_updates_is_cut_off() {
    let server = server();
    // In one go, which the library's own limit ends, and one with each request, which ours does.
    for with_requests in [false, true] {
        let before = server.metrics().sum("penstock_tls_key_updates_total", &[]);
        let mut client = Records::connect(&server);
        for _ in 0..5000 {
            let mut bytes = client.stream.seal_key_update(true);
            if with_requests {
                let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
                bytes.extend(client.stream.seal(ContentType::ApplicationData, request));
            }
            let sent = client.stream.socket().write_all(&bytes).is_ok();
            if !sent || with_requests && client.response().is_err() {
                break;
            }
        }
        let alert = last_alert(&mut client);
        // A reset may overtake the alert if the storm goes on; with an answer to each it cannot.
        if with_requests {
            assert_eq!(alert, Some(SslAlert::UNEXPECTED_MESSAGE));
        }
        let followed = server.metrics().sum("penstock_tls_key_updates_total", &[]) - before;
        assert!(followed <= 61.0, "the server followed {followed} KeyUpdates");
    }
    no_connections(&server);
}

#[test]
fn more_than_32_key_updates_in_a_row_end_a_download_and_are_counted() {
    let server = server();
    let file = server.file("large.mp4", 64 << 20);
    for (updates, ended) in [(32, 0.0), (33, 1.0)] {
        let mut client = Records::connect(&server);
        client.ask("/large.mp4");
        assert_eq!(client.response_to_head().unwrap().status, 200);
        for _ in 0..updates {
            let update = client.stream.seal_key_update(false);
            client.stream.socket().write_all(&update).unwrap();
        }
        if updates == 32 {
            let body = client.take(64 << 20).unwrap();
            file.assert_range(0..file.len, &body);
        }
        server.counted("penstock_short_responses_total", &["reason=\"key_updates\""], ended);
    }
    no_connections(&server);
}

/// Makes what is sent.
type Maker<'m> = &'m dyn Fn(&mut Records) -> Vec<u8>;

#[test]
fn records_that_break_the_protocol_end_the_connection_with_the_right_alert() {
    let server = server();
    let other_key = |client: &mut Records| {
        let mut record = client.seal(ContentType::ApplicationData, b"GET / HTTP/1.1\r\n");
        *record.last_mut().unwrap() ^= 1;
        record
    };
    let finished = |client: &mut Records| client.seal(ContentType::Handshake, &[20, 0, 0, 1, 0]);
    let hello = |client: &mut Records| client.seal(ContentType::Handshake, &[1, 0, 0, 1, 0]);
    let half_update = |client: &mut Records| {
        let mut records = client.seal(ContentType::Handshake, &[24, 0, 0]);
        records.extend(client.seal(ContentType::ApplicationData, b"x"));
        records
    };
    let bad_update = |client: &mut Records| client.seal(ContentType::Handshake, &[24, 0, 0, 1, 7]);
    let cases: [(&str, Maker<'_>, SslAlert); 9] = [
        ("a record that was tampered with", &other_key, SslAlert::BAD_RECORD_MAC),
        ("a record in the clear", &|_| b"\x16\x03\x03\x00\x01\x00".to_vec(), SslAlert::BAD_RECORD_MAC),
        ("a record longer than any may be", &|_| b"\x17\x03\x03\xff\xff".to_vec(), SslAlert::RECORD_OVERFLOW),
        ("a Finished after the handshake", &finished, SslAlert::UNEXPECTED_MESSAGE),
        ("a ClientHello after the handshake", &hello, SslAlert::UNEXPECTED_MESSAGE),
        ("data inside a handshake message", &half_update, SslAlert::UNEXPECTED_MESSAGE),
        ("a KeyUpdate with an unknown wish", &bad_update, SslAlert::DECODE_ERROR),
        (
            "a record of an unknown type",
            &|client| client.seal(ContentType::Unknown, b"x"),
            SslAlert::UNEXPECTED_MESSAGE,
        ),
        ("bytes that are no record", &|_| vec![0x99; 64], SslAlert::PROTOCOL_VERSION),
    ];
    let mut ends_with = Vec::new();
    for (name, record, _) in cases {
        let mut client = Records::connect(&server);
        assert_eq!(client.get("/a.txt").text(), "a\n");
        let record = record(&mut client.stream);
        client.stream.socket().write_all(&record).unwrap();
        ends_with.push((name, last_alert(&mut client)));
    }
    let wanted: Vec<_> = cases.iter().map(|(name, _, alert)| (*name, Some(*alert))).collect();
    assert_eq!(ends_with, wanted);
    server.counted("penstock_tls_alerts_total", &["alert=\"bad_record_mac\""], 2.0);
    no_connections(&server);
}

#[test]
fn records_without_content_are_not_followed_for_ever() {
    let server = server();
    let mut client = Records::connect(&server);
    let mut flood = Vec::new();
    for _ in 0..1000 {
        flood.extend(client.stream.seal(ContentType::ApplicationData, b""));
    }
    drop(client.stream.socket().write_all(&flood));
    ends(&mut client);
    no_connections(&server);
}

#[test]
fn an_alert_from_the_client_ends_the_connection() {
    let server = server();
    for (alert, name) in [([2, 80], "internal_error"), ([1, 90], "user_canceled"), ([1, 0], "close_notify")] {
        let mut client = Records::connect(&server);
        client.stream.send(ContentType::Alert, &alert).unwrap();
        if name == "user_canceled" {
            // Only a warning: close_notify is what follows (RFC 8446 §6.1).
            assert_eq!(client.get("/a.txt").text(), "a\n");
            client.stream.send(ContentType::Alert, &[1, 0]).unwrap();
        }
        ends(&mut client);
    }
    server.counted("penstock_tls_alerts_total", &["direction=\"received\"", "alert=\"internal_error\""], 1.0);
    no_connections(&server);
}

#[test]
fn a_renegotiation_is_refused() {
    let server = server();
    let tool = Tool::s_client(&server).args(["-tls1_2", "-msg"]);
    let output = tool.run_with_input(b"R\n");
    let shown = output.text();
    assert!(shown.contains("\n<<< TLS 1.2, Alert [length 0002], fatal no_renegotiation\n"), "{shown}");
    no_connections(&server);
}
