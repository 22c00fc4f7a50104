//! The first step of a stop: the server accepts, and each response ends its connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use penstock_testkit::frames::{GOAWAY, Peer, get};
use penstock_testkit::{Client, Server, Setup, until};
use rustix::process::Signal;

use super::ask_admin;

/// A server that goes on accepting until a second signal.
fn server() -> Server {
    let setup = Setup::new().listeners(&["tls: true, health: /up", "health: /up"]);
    let server = setup.limits("lame_duck: 1h").start();
    server.write("a.txt", "a\n");
    server
}

fn begin_to_stop(server: &Server) {
    server.signal(Signal::TERM);
    server.wait_for_log("stopping: health checks fail");
}

/// The next response is whole, and the last of its connection.
fn assert_last<S: Read + Write>(client: &mut Client<S>) {
    let last = client.get("/a.txt");
    assert_eq!((last.status, last.text(), last.field("Connection")), (200, "a\n", Some("close")));
    client.assert_closed();
}

#[test]
fn the_next_request_of_each_idle_connection_is_answered_and_told_that_it_was_the_last() {
    let server = server();
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    let (mut silent, mut silent_tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(plain.get("/a.txt").field("Connection"), None);
    assert_eq!(tls.get("/a.txt").field("Connection"), None);
    begin_to_stop(&server);
    assert_last(&mut plain);
    assert_last(&mut tls);
    assert_last(&mut silent);
    assert_last(&mut silent_tls);
    assert_last(&mut Client::plain(&server));
    assert_last(&mut Client::tls(&server));
    let mut refused = Client::plain(&server);
    let refusal = refused.request("GET a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((refusal.status, refusal.field("Connection")), (400, Some("close")));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn a_connection_of_http2_that_had_a_request_gets_goaway_and_a_new_one_has_its_first_answered() {
    let server = server();
    let mut used = Peer::tls(&server).open(&[]);
    used.send(&get(1, "/a.txt"));
    assert_eq!(used.body(1), b"a\n");
    begin_to_stop(&server);
    let first = used.expect(GOAWAY);
    assert_eq!(first.payload[..4], [0x7f, 0xff, 0xff, 0xff]);
    used.send(&get(3, "/a.txt"));
    assert_eq!(used.body(3), b"a\n", "the client did not know of the end when it sent this");
    used.rest();
    let mut new = Peer::tls(&server).open(&[]);
    new.send(&get(1, "/a.txt"));
    assert_eq!(new.body(1), b"a\n");
    new.expect(GOAWAY);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn health_checks_fail_from_the_signal_on_while_listeners_accept() {
    let server = server();
    let ask = |secure: bool, method: &str| {
        let request = format!("{method} /up HTTP/1.1\r\nHost: any.example\r\n\r\n");
        if secure { Client::tls(&server).request(&request) } else { Client::plain(&server).request(&request) }
    };
    for secure in [false, true] {
        let healthy = ask(secure, "GET");
        assert_eq!((healthy.status, healthy.text()), (200, "200 OK\n"), "{}", healthy.head);
        assert_eq!(healthy.field("Cache-Control"), Some("no-store"));
    }
    let mut kept = Client::plain(&server);
    kept.send("HEAD /up HTTP/1.1\r\nHost: any.example\r\n\r\nGET /up/ HTTP/1.1\r\nHost: any.example\r\n\r\n");
    assert_eq!(kept.response_to_head().unwrap().status, 200);
    assert_eq!(kept.response().unwrap().status, 404, "a longer path is the site's");
    let post = "POST /up HTTP/1.1\r\nHost: any.example\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(kept.request(post).status, 405, "and other methods are");
    assert_eq!(ask_admin(&server, "/healthz").0, 200);
    begin_to_stop(&server);
    assert_eq!(ask_admin(&server, "/healthz"), (503, "draining\n".to_owned()));
    for secure in [false, true] {
        assert_eq!(ask(secure, "GET").status, 503);
    }
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
}

#[test]
fn the_drain_follows_after_the_time_of_the_lame_duck() {
    let server = Setup::new().limits("lame_duck: 200ms").start();
    server.write("a.txt", "a\n");
    let mut idle = Client::plain(&server);
    assert_eq!(idle.get("/a.txt").text(), "a\n");
    begin_to_stop(&server);
    server.wait_for_log("draining");
    idle.assert_closed();
    until("new connections to be refused", || TcpStream::connect(server.http()).err());
    assert!(server.wait().success());
}
