//! KeyUpdates of the client (RFC 8446 §4.6.3). The guest's kernel cannot change keys, newer ones can.

use boring::ssl::SslVersion;
use penstock_testkit::{Client, Server, TlsOptions, Tool, until};

use crate::kernel::{setup, with_everything};
use crate::modules::{file, start_on};

fn tls13() -> TlsOptions {
    TlsOptions::version(SslVersion::TLS1_3)
}

fn can_rekey() -> bool {
    penstock_sys::ktls::probe().unwrap().rekey
}

/// Fails unless so many connections ended because keys could not be changed, none where they can.
fn assert_ended(server: &Server, connections: f64) {
    let wanted = if can_rekey() { 0.0 } else { connections };
    let ended = || server.metrics().sum("penstock_egress_ended_total", &["reason=\"no_rekey\""]);
    until("the count of ended connections", || (ended() == wanted).then_some(()));
}

pub(crate) fn not_requested() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let content = file("clip.mp4", 300_000);
    let mut client = Client::tls_with(&server, &tls13());
    for _ in 0..5 {
        client.stream.update_keys(false);
        content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    }
    assert_eq!(server.metrics().sum("penstock_tls_key_updates_total", &[]), 5.0);
    assert_ended(&server, 0.0);
}

pub(crate) fn while_idle() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let content = file("clip.mp4", 300_000);
    let mut client = Client::tls_with(&server, &tls13());
    content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    client.stream.update_keys(true);
    // The library sends the message with the next write, which here is the start of a request.
    content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    if can_rekey() {
        content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    } else {
        client.assert_closed();
    }
    assert_ended(&server, 1.0);
}

pub(crate) fn within_a_response() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let content = file("large.mp4", 12_000_000);
    let mut client = Client::tls_with(&server, &tls13());
    client.ask("/large.mp4");
    // Half of the next request takes the message along. Nothing has been read, so the server is still sending.
    client.stream.update_keys(true);
    client.send("GET ");
    content.assert_range(0..content.len, &client.response().unwrap().body);
    if can_rekey() {
        client.send("/large.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        content.assert_range(0..content.len, &client.response().unwrap().body);
    } else {
        client.assert_closed();
    }
    assert_ended(&server, 1.0);
}

pub(crate) fn openssl() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let small = server_text();
    let mut tool = Tool::s_client(&server).args(["-tls1_3"]).start();
    let key_updates = || server.metrics().sum("penstock_tls_key_updates_total", &[]);
    let requests = || server.metrics().sum("penstock_requests_total", &[]);
    tool.say("GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    until("the first request", || (requests() == 1.0).then_some(()));
    tool.say("k\n");
    until("a KeyUpdate", || (key_updates() == 1.0).then_some(()));
    tool.say("GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    until("the second request", || (requests() == 2.0).then_some(()));
    tool.say("K\n");
    until("another KeyUpdate", || (key_updates() == 2.0).then_some(()));
    if can_rekey() {
        tool.say("GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until("the third request", || (requests() == 3.0).then_some(()));
        tool.say("Q\n");
    }
    let ended = tool.finish().ok();
    assert_eq!(ended.text().matches(&small).count(), if can_rekey() { 3 } else { 2 }, "{}", ended.text());
    assert!(!ended.stderr.contains("error"), "{}", ended.stderr);
    assert_ended(&server, 1.0);
}

fn server_text() -> String {
    let text = "a small text that occurs once".to_owned();
    std::fs::write(format!("{}/small.txt", crate::kernel::ROOT), &text).unwrap();
    text
}

pub(crate) fn storm() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    file("clip.mp4", 1000);
    let mut client = Client::tls_with(&server, &tls13());
    for _ in 0..100 {
        client.stream.update_keys(false);
        // Each byte takes one message along; the server may have had enough at any of them.
        if std::io::Write::write_all(&mut client.stream, b"G").is_err() {
            break;
        }
    }
    assert!(client.rest().is_err(), "an alert ends it");
    let alerts =
        || server.metrics().sum("penstock_tls_alerts_total", &["direction=\"sent\"", "unexpected_message"]);
    until("the alert to be counted", || (alerts() == 1.0).then_some(()));
}
