//! Early data (0-RTT): answered once, and no replay of it.

use std::net::UdpSocket;

use penstock_testkit::{Server, Setup, until};

use super::{fetch, has_client, setup};
use crate::resumption::early_data::early;

/// A server with HTTP/3 that takes early data, with one small file.
fn start(section: &str, change: impl FnOnce(Setup) -> Setup) -> Server {
    let listeners = ["tls: true, protocols: [h1, h2, h3]", ""];
    let server = change(early(section).listeners(&listeners)).start();
    server.write("small.txt", "hello");
    server
}

/// Options of a client that keeps its ticket, which it now has.
fn session(server: &Server) -> String {
    let options = format!("session={}", server.directory().join("ticket").display());
    assert!(!fetch(server, &options, &["GET /small.txt"]).resumed);
    options
}

fn count(server: &Server, outcome: &str, reason: &str) -> f64 {
    let labels = [format!("outcome=\"{outcome}\""), format!("reason=\"{reason}\"")];
    server.metrics().sum("penstock_early_data_total", &labels.each_ref().map(String::as_str))
}

fn answered(server: &Server) -> f64 {
    server.metrics().sum("penstock_early_requests_total", &["outcome=\"answered\""])
}

#[test]
fn a_request_in_early_data_is_answered_before_the_handshake_ends() {
    if !has_client() {
        return;
    }
    let server = start("{anti_replay: false}", |setup| setup);
    let options = session(&server);
    let exchange = fetch(&server, &format!("{options} early"), &["GET /small.txt", "GET /small.txt"]);
    assert!(exchange.resumed && exchange.early);
    assert!(exchange.responses.iter().all(|response| &*response.content == b"hello"));
    assert_eq!((count(&server, "accepted", "none"), answered(&server)), (1.0, 1.0));
    let logged = || {
        let lines = server.access_log();
        let early: Vec<bool> = lines.iter().map(|line| line["early_data"] == true).collect();
        (early.len() == 3).then_some(early)
    };
    assert_eq!(until("three lines in the log", logged), [false, true, false]);
}

#[test]
fn a_request_that_could_do_harm_a_second_time_waits_for_the_handshake() {
    if !has_client() {
        return;
    }
    let server = start("{anti_replay: false}", |setup| setup);
    let options = session(&server);
    let body = server.directory().join("body");
    std::fs::write(&body, "body").unwrap();
    for (request, status) in
        [(format!("POST /small.txt {}", body.display()), "405"), ("DELETE /small.txt".into(), "405")]
    {
        let exchange = fetch(&server, &format!("{options} early"), &[&request]);
        assert!(exchange.early, "{request}");
        assert_eq!(exchange.responses[0].status, status, "{request}");
    }
    assert_eq!(answered(&server), 0.0);
    assert!(server.access_log().iter().all(|line| line.get("early_data").is_none()));
}

#[test]
fn a_site_may_refuse_early_requests() {
    if !has_client() {
        return;
    }
    let sites = "- origin: {directory: root}\n  early_data: refuse";
    let server = start("{anti_replay: false}", |setup| setup.sites(sites));
    let options = session(&server);
    let exchange = fetch(&server, &format!("{options} early"), &["GET /small.txt", "GET /small.txt"]);
    assert_eq!((&*exchange.responses[0].status, &*exchange.responses[1].status), ("425", "200"));
}

#[test]
fn without_early_data_in_the_configuration_it_is_refused_and_sent_again() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    let options = session(&server);
    let exchange = fetch(&server, &format!("{options} early"), &["GET /small.txt"]);
    assert!(exchange.resumed && !exchange.early);
    assert_eq!(&*exchange.responses[0].content, b"hello");
}

#[test]
fn a_replay_is_not_answered() {
    if !has_client() {
        return;
    }
    let server = start("{anti_replay: true}", |setup| setup.limits("handshake_deadline: 3s"));
    let file = server.directory().join("datagrams");
    // Right after the start any client could be a replay. One whose clock has gone ahead can be told from them soonest.
    let mut before = 0;
    until("a handshake that cannot be older than the server", || {
        before += 1;
        let options = session(&server);
        fetch(&server, &format!("{options} early ahead=57"), &["GET /small.txt"]);
        std::fs::remove_file(server.directory().join("ticket")).unwrap();
        (count(&server, "accepted", "none") == 1.0).then_some(())
    });
    let options = session(&server);
    let recorded = format!("{options} early ahead=59 record={}", file.display());
    assert!(fetch(&server, &recorded, &["GET /small.txt"]).early);
    assert_eq!((count(&server, "accepted", "none"), answered(&server)), (2.0, 2.0));
    server.counted("penstock_http3_streams", &[], 0.0);
    let requests = server.metrics().sum("penstock_http_requests_total", &["version=\"h3\""]);
    assert_eq!(requests, f64::from(2 * before + 2));

    let datagrams: Vec<String> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(!datagrams.is_empty());
    until("the end of the connection that was recorded", || {
        let ends = server.metrics().sum("penstock_quic_connection_ends_total", &[]);
        (ends == f64::from(2 * before + 2)).then_some(())
    });
    for number in 1..=2 {
        // From another port, as an attacker would; the second one once the first is given up.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        until("the replay", || {
            // What comes soon after the end of its connection is dropped.
            for datagram in &datagrams {
                let digit = |at: usize| u8::from_str_radix(&datagram[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..datagram.len()).step_by(2).map(digit).collect();
                socket.send_to(&bytes, server.https()).unwrap();
            }
            (count(&server, "delayed", "replayed") == f64::from(number)).then_some(())
        });
        server.counted("penstock_early_requests_total", &["outcome=\"abandoned\""], f64::from(number));
    }
    assert_eq!(answered(&server), 2.0);
    let served = server.metrics().sum("penstock_http_requests_total", &["version=\"h3\""]);
    assert_eq!(served, requests, "no replay was answered");
}
