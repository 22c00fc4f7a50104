//! Certificates, tickets, Retry, reload and drain.

use std::fs;
use std::path::Path;
use std::thread;

use penstock_testkit::{Keyserver, Tool, until};
use rustix::process::Signal;

use super::{content_with, fetch, has_client, setup};
use crate::private_keys::{certificates, plain, use_keyservers};

#[test]
fn a_ticket_resumes_over_quic() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    let ticket = server.directory().join("ticket");
    let options = format!("session={}", ticket.display());
    assert!(!fetch(&server, &options, &["GET /small.txt"]).resumed);
    assert!(fetch(&server, &options, &["GET /small.txt"]).resumed);
    let resumed = server.metrics().sum("penstock_handshakes_total", &["resumed=\"true\"", "outcome=\"ok\""]);
    assert_eq!(resumed, 1.0);
}

#[test]
fn a_keyserver_that_is_stopped_in_a_handshake_holds_up_that_handshake_alone() {
    if !has_client() {
        return;
    }
    let server = plain().start();
    let file = server.file("clip.mp4", 300_000);
    let keyserver = Keyserver::start(&server, "one");
    use_keyservers(&server, &[keyserver.address()], &certificates(&[keyserver.address()], ", deadline: 60s"));
    let options = format!("session={}", server.directory().join("ticket").display());
    assert!(!fetch(&server, &options, &["GET /clip.mp4"]).resumed);
    let open = |count| server.counted("penstock_connections", &["protocol=\"https\""], count);
    open(0.0);
    let [first, second] = ["first", "second"].map(|name| server.directory().join(name));
    let beginning = |begin: &Path| format!("begin={}", begin.display());
    // The start of a client takes long, compared to the time for which a keyserver may be silent.
    let is_ready = |begin: &Path| begin.with_extension("ready").exists().then_some(());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| content_with(&server, &beginning(&first), "/clip.mp4"));
        let resuming =
            scope.spawn(|| fetch(&server, &format!("{options} {}", beginning(&second)), &["GET /clip.mp4"]));
        until("both clients", || is_ready(&first).and_then(|()| is_ready(&second)));
        keyserver.signal(Signal::STOP);
        fs::write(&first, "").unwrap();
        open(1.0);
        // Of the same worker, and without a signature.
        fs::write(&second, "").unwrap();
        let exchange = resuming.join().unwrap();
        assert!(exchange.resumed && !waiting.is_finished());
        file.assert_range(0..file.len, &exchange.responses[0].content);
        keyserver.signal(Signal::CONT);
        file.assert_range(0..file.len, &waiting.join().unwrap());
    });
}

#[test]
fn keys_of_the_client_are_updated() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    let file = server.file("clip.mp4", 2_000_000);
    let exchange = fetch(&server, "key_update=100000", &["GET /clip.mp4", "GET /clip.mp4"]);
    file.assert_range(0..file.len, &exchange.responses[0].content);
    file.assert_range(0..file.len, &exchange.responses[1].content);
}

#[test]
fn many_handshakes_in_flight_have_clients_prove_their_addresses() {
    if !has_client() {
        return;
    }
    // A quarter of three is none: each client is asked.
    let server = setup().limits("handshakes_in_flight: 3").start();
    let file = server.file("clip.mp4", 1_000_000);
    let exchange = fetch(&server, "", &["GET /clip.mp4"]);
    file.assert_range(0..file.len, &exchange.responses[0].content);
    let retries = server.metrics().sum("penstock_quic_answered_datagrams_total", &["answer=\"retry\""]);
    assert!(retries >= 1.0);
}

#[test]
fn a_drain_ends_connections_after_their_responses() {
    if !has_client() {
        return;
    }
    let server = setup().limits("drain_deadline: 30s").start();
    let file = server.file("clip.mp4", 20_000_000);
    let address = server.https();
    let out = server.directory().join("out");
    let client = Tool::new(super::PYTHON).arg(super::CLIENT).arg(server.certificates().authority());
    let client = client.args([address.ip().to_string(), address.port().to_string()]);
    let client = client.arg("GET /clip.mp4").env("OUT", &out).start();
    server.counted("penstock_http3_streams", &[], 1.0);
    server.signal(Signal::TERM);
    client.finish().ok();
    file.assert_file(&server.directory().join("out.0"));
    assert!(server.wait().success());
}

#[test]
fn a_reload_keeps_the_socket_and_takes_the_new_settings() {
    if !has_client() {
        return;
    }
    let server = setup().start();
    server.write("small.txt", "hello");
    assert_eq!(fetch(&server, "", &["GET /small.txt"]).responses[0].status, "200");
    // A listener with other options on the same address.
    let address = server.https();
    let other = format!("address: {address}, tls: true, backlog: 77, protocols: [h1, h2, h3]");
    server.reload(&setup().listeners(&[&other]));
    for _ in 0..5 {
        assert_eq!(fetch(&server, "", &["GET /small.txt"]).responses[0].status, "200");
    }
}
