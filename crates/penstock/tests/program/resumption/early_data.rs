//! Requests before the end of the handshake: answered, delayed, refused, and never answered twice.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use penstock_testkit::tapped::{connect, connect_ahead, session, taken};
use penstock_testkit::{Certificates, Server, Setup, Tool, until};
use rustix::process::Signal;

use super::{BODY, start};

const GET: &[u8] = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn openssl_is_answered_before_its_handshake_is_finished() {
    let server = start(early("{anti_replay: false}"));
    let file = |name: &str| server.directory().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("request"), GET).unwrap();
    let client = || Tool::s_client(&server).args(["-ign_eof", "-tls1_3", "-servername", "localhost"]);
    let close = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let first = client().args(["-sess_out", &file("session")]).run_with_input(close).ok().text();
    assert!(first.contains("Max Early Data: 14336\n"), "{first}");
    let second = client().args(["-sess_in", &file("session"), "-early_data", &file("request")]);
    let second = second.run_with_input(close).ok().text();
    assert!(second.contains("\nReused, TLSv1.3") && second.contains("Early data was accepted\n"), "{second}");
    assert_eq!(second.matches(BODY).count(), 2, "{second}");
    let logged = || {
        let lines = server.access_log();
        let early: Vec<bool> = lines.iter().map(|line| line["early_data"] == true).collect();
        (early.len() == 3).then_some(early)
    };
    assert_eq!(until("three lines in the log", logged), [false, true, false]);
    assert_eq!(handshakes(&server, "accepted", "none"), 1.0);
}

#[test]
fn a_film_is_sent_whole_while_the_handshake_ends() {
    let server = early("{anti_replay: false}").start();
    let film = server.file("film.mp4", 9_000_001);
    let session = session(&server);
    let two = b"GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (mut client, _) = connect(&server, &session, two);
    assert_eq!(client.response().unwrap().body, film.all());
    assert_eq!(client.response_to_head().unwrap().status, 200);
    assert!(taken(&client));
    assert_eq!(client.get("/film.mp4").body, film.all(), "and the connection goes on");
    // The second one comes to its turn before or after the end of the handshake.
    assert!(requests(&server, "answered") >= 1.0);
    assert!(server.logged("/film.mp4").get("early_data").is_none(), "the last one was not early");
}

#[test]
fn early_data_that_could_do_harm_a_second_time_waits_for_the_handshake() {
    let server = start(early("{anti_replay: false}"));
    let session = session(&server);
    for (number, request, status) in [
        (1.0, "POST /a.mp4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 405),
        (2.0, "GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 200),
        (3.0, "DELETE /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    ] {
        let (mut client, tap) = connect(&server, &session, request.as_bytes());
        // As long as the client does not go on, it is not answered; nor is a replay of its bytes.
        let replay = tap.replay(&server);
        until("two handshakes", || (handshakes(&server, "accepted", "none") == 2.0 * number).then_some(()));
        assert_eq!(requests(&server, "answered"), 0.0);
        drop(replay);
        assert_eq!(client.response().unwrap().status, status, "{request}");
        assert!(taken(&client));
    }
    until("all lines in the log", || (server.access_log().len() == 4).then_some(()));
    assert!(server.access_log().iter().all(|line| line.get("early_data").is_none()));
}

#[test]
fn more_than_may_be_acted_upon_waits_for_the_handshake() {
    let server = start(early("{anti_replay: false, max_bytes: 100}"));
    let session = session(&server);
    let (mut client, _) = connect(&server, &session, &GET.repeat(3));
    for _ in 0..3 {
        assert_eq!(client.response().unwrap().text(), BODY);
    }
    assert_eq!((requests(&server, "answered"), requests(&server, "waited")), (2.0, 1.0));
}

#[test]
fn a_site_may_refuse_early_requests() {
    let server =
        start(early("{anti_replay: false}").sites("- origin: {directory: root}\n  early_data: refuse"));
    let session = session(&server);
    let (mut client, _) = connect(&server, &session, GET);
    assert_eq!(client.response().unwrap().status, 425);
    assert_eq!(client.get("/a.mp4").text(), BODY, "the same again");
    assert_eq!(requests(&server, "refused"), 1.0);
    // A proxy in front may have taken early data.
    assert_eq!(client.get_with("/a.mp4", "Early-Data: 1\r\n").status, 425);
    assert_eq!(
        client.get_with("/a.mp4", "Early-Data: 0\r\n").status,
        425,
        "any value means 1 (RFC 8470 section 5.1)"
    );
    assert_eq!(client.get("/a.mp4").status, 200);
}

#[test]
fn a_replay_is_answered_once() {
    let server = start(early("{anti_replay: true}"));
    let session = session(&server);
    // Right after the start any client could be a replay. One whose clock has gone ahead can be told from them soonest.
    let mut answered = 1.0;
    until("a handshake that cannot be older than the server", || {
        let (mut client, _) = connect_ahead(&server, &session, GET, 57);
        assert_eq!(client.response().unwrap().text(), BODY);
        answered += 1.0;
        (handshakes(&server, "accepted", "none") == 1.0).then_some(())
    });
    // Times are in whole seconds and are read twice: a copy of that one could count as older than the server.
    let (mut client, fresh) = connect_ahead(&server, &session, GET, 59);
    assert_eq!(client.response().unwrap().text(), BODY);
    drop(client);
    answered += 1.0;
    until("its early data", || (handshakes(&server, "accepted", "none") == 2.0).then_some(()));
    assert_eq!(requests(&server, "answered"), 2.0);
    let replays = [fresh.replay(&server), fresh.replay(&server)];
    until("the replays", || (handshakes(&server, "delayed", "replayed") == 2.0).then_some(()));
    // By the time another client is served, the replays would have been.
    assert_eq!(connect_ahead(&server, &session, GET, 57).0.response().unwrap().status, 200);
    drop(replays);
    until("the end of the replays", || (open(&server) == 0.0).then_some(()));
    assert_eq!(served(&server), answered + 1.0);
}

#[test]
fn right_after_the_start_nothing_counts_as_said_before_the_handshake_is_finished() {
    let server = start(early("{}"));
    let session = session(&server);
    let (mut client, tap) = connect(&server, &session, GET);
    let replay = tap.replay(&server);
    until("both handshakes", || (handshakes(&server, "delayed", "before_start") == 2.0).then_some(()));
    assert_eq!(client.response().unwrap().text(), BODY);
    drop((replay, client));
    until("the end of both", || (open(&server) == 0.0).then_some(()));
    assert_eq!(server.logged("/a.mp4").get("early_data"), None);
    // The first one got the session.
    assert_eq!(served(&server), 2.0);
}

/// The register does not go along at a hand-over.
#[test]
fn a_replay_to_a_successor_waits_for_a_handshake_that_never_ends() {
    let server = start(early("{anti_replay: true}"));
    let session = session(&server);
    let mut taps = Vec::new();
    until("early data", || {
        let (mut client, tap) = connect_ahead(&server, &session, GET, 57);
        assert_eq!(client.response().unwrap().text(), BODY);
        taps.push(tap);
        (handshakes(&server, "accepted", "none") == 1.0).then_some(())
    });
    server.hand_over();
    assert!(server.wait_for_predecessor().success());
    let replay = taps.pop().unwrap().replay(&server);
    until("the replay", || (handshakes(&server, "delayed", "before_start") == 1.0).then_some(()));
    drop(replay);
    until("its end", || (open(&server) == 0.0).then_some(()));
    assert_eq!((served(&server), requests(&server, "answered")), (0.0, 0.0));
}

#[test]
fn for_public_content_replays_may_be_answered() {
    let server = start(early("{anti_replay: false}"));
    let session = session(&server);
    let (mut client, tap) = connect(&server, &session, GET);
    assert_eq!(client.response().unwrap().text(), BODY);
    let replay = tap.replay(&server);
    until("the second answer", || (requests(&server, "answered") == 2.0).then_some(()));
    drop(replay);
}

#[test]
fn a_session_whose_early_data_is_refused_is_resumed() {
    let server = start(early("{anti_replay: false}"));
    let file = |name: &str| server.directory().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("request"), GET).unwrap();
    let fetch = |options: &[&str]| {
        let client =
            Tool::s_client(&server).args(["-ign_eof", "-tls1_3", "-servername", "localhost"]).args(options);
        let close = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.run_with_input(close).ok().text()
    };
    fetch(&["-sess_out", &file("session")]);
    let early = ["-sess_in", &file("session"), "-early_data", &file("request")];
    let retried = fetch(&[&early[..], &["-groups", "P-384:P-256"]].concat());
    assert!(
        retried.contains("\nReused, TLSv1.3") && retried.contains("Early data was rejected"),
        "{retried}"
    );
    assert_eq!(handshakes(&server, "rejected", "hello_retry"), 1.0);
    // Without early_data what an old ticket promised is refused.
    server.configure(&Setup::new().tls(&Certificates::yaml(&["ec"])));
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    let refused = until("the new settings", || {
        let text = fetch(&early);
        text.contains("Early data was rejected").then_some(text)
    });
    assert!(refused.contains("\nReused, TLSv1.3") && refused.contains(BODY), "{refused}");
    assert!(handshakes(&server, "rejected", "off") >= 1.0);
}

#[test]
fn an_origin_is_told_what_may_be_a_replay() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let sites = format!("- origin: {{http: [\"http://{}\"]}}", origin.local_addr().unwrap());
    let asked = thread::spawn(move || [answer_one(&origin), answer_one(&origin)]);
    let memory = penstock_testkit::memory_directory();
    let cache =
        format!("cache: {{slice: 64KiB, memory: {{directory: {}, size: 8MiB}}}}", memory.path().display());
    let server = early("{anti_replay: false}").sites(&sites).section(&cache).start();
    let session = session(&server);
    let (mut client, _) = connect(&server, &session, b"GET /early HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response().unwrap().text(), "ok");
    assert_eq!(client.get("/late").text(), "ok");
    let [early, late] = asked.join().unwrap().map(|head| head.to_ascii_lowercase());
    assert!(early.contains("/early ") && early.contains("\r\nearly-data: 1\r\n"), "{early}");
    assert!(late.contains("/late ") && !late.contains("early-data"), "{late}");
}

/// Takes one connection and answers one request; its head.
fn answer_one(origin: &TcpListener) -> String {
    let (mut socket, _) = origin.accept().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").unwrap();
    String::from_utf8(head).unwrap()
}

/// A server with this `early_data`.
pub(crate) fn early(section: &str) -> Setup {
    Setup::new().tls(&format!("{}\nearly_data: {section}", Certificates::yaml(&["ec"])))
}

fn handshakes(server: &Server, outcome: &str, reason: &str) -> f64 {
    let labels = [format!("outcome=\"{outcome}\""), format!("reason=\"{reason}\"")];
    server.metrics().sum("penstock_early_data_total", &[&labels[0], &labels[1]])
}

pub(crate) fn requests(server: &Server, outcome: &str) -> f64 {
    let outcome = format!("outcome=\"{outcome}\"");
    server.metrics().sum("penstock_early_requests_total", &[&outcome])
}

fn served(server: &Server) -> f64 {
    server.metrics().sum("penstock_requests_total", &[])
}

pub(crate) fn open(server: &Server) -> f64 {
    server.metrics().sum("penstock_connections", &["protocol=\"https\""])
}
