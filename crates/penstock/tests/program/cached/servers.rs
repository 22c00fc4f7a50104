//! The servers of an origin: backups, Unix sockets, the choice by URL or by load, certificates, hidden fields.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Server, Setup, until};
use tempfile::TempDir;

use super::Edge;

/// Passes connections of a Unix socket to a TCP port. Ends with the test's process.
fn forward(socket: &Path, port: u16) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                drop(io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Write));
            });
            let (mut from, mut to): (TcpStream, UnixStream) = (server, client);
            thread::spawn(move || drop(io::copy(&mut from, &mut to)));
        }
    });
}

#[test]
fn a_unix_socket_is_an_origin_with_the_cache_and_without() {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("app.sock");
    let origin = Origin::counting("Cache-Control: max-age=60\r\n");
    forward(&socket, origin.port());
    let sites = format!(
        "- {{hosts: [cached.example], origin: {{http: [\"unix:{0}:/vod\"]}}}}\n\
         - {{hosts: [relayed.example], origin: {{http: [\"unix:{0}\"], cache: off}}}}",
        socket.display()
    );
    let edge = Edge::before(&sites);
    let mut client = Client::plain(&edge.server);
    let mut get = |host: &str| {
        let response = client.request(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        (response.status, response.text().to_owned())
    };
    assert_eq!(get("cached.example"), (200, "0".to_owned()));
    assert_eq!(get("cached.example"), (200, "0".to_owned()), "it is cached");
    assert_eq!(get("relayed.example"), (200, "1".to_owned()));
    assert_eq!(get("relayed.example"), (200, "2".to_owned()));
    let asked = origin.asked();
    assert!(asked[0].starts_with("GET /vod/a "), "{asked:?}");
    assert!(asked[0].to_ascii_lowercase().contains("\r\nhost: localhost\r\n"), "{asked:?}");
    assert!(asked[1].starts_with("GET /a "), "{asked:?}");
}

#[test]
fn a_socket_without_a_server_is_502() {
    let edge = Edge::before("- origin: {http: [\"unix:/nowhere/app.sock\"], retries: 0}");
    edge.server.tolerate_warning("is out: ");
    assert_eq!(Client::plain(&edge.server).get("/a").status, 502);
}

#[test]
fn a_backup_answers_while_the_first_server_does_not() {
    let first = Origin::start(|_, number, stream| match number {
        0 => answer(stream, "200 OK", "Cache-Control: no-store\r\n", b"first"),
        1..=4 => answer(stream, "503 Service Unavailable", "Cache-Control: no-store\r\n", b"no"),
        _ => answer(stream, "200 OK", "Cache-Control: no-store\r\n", b"again"),
    });
    let backup = Origin::answering("200 OK", "Cache-Control: no-store\r\n", "backup");
    let edge = Edge::before(&format!(
        "- origin:\n    http: [{{url: \"{}\", backup: true}}, \"{}\"]\n    health: {{unhealthy_after: 2}}",
        backup.url(),
        first.url()
    ));
    edge.server.tolerate_warning("is out: ");
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/0").text(), "first");
    assert!(backup.asked().is_empty());
    assert_eq!(client.get("/1").text(), "backup", "another server is asked for what one cannot answer");
    assert_eq!(client.get("/2").text(), "backup");
    let asked = first.asked().len();
    assert_eq!(client.get("/3").text(), "backup", "the first is out now");
    assert_eq!(first.asked().len(), asked);
    let mut number = 4;
    until("the first server to be in again", || {
        number += 1;
        (client.get(&format!("/{number}")).text() == "again").then_some(())
    });
    let asked = backup.asked().len();
    assert_eq!(client.get("/last").text(), "again");
    assert_eq!(backup.asked().len(), asked);
}

#[test]
fn urls_choose_their_server_with_the_cache_on() {
    let servers = [(); 3].map(|()| Origin::answering("200 OK", "Cache-Control: max-age=0\r\n", "body"));
    let urls: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.url())).collect();
    let sites = format!("- origin: {{http: [{}], spread: {{by: url}}}}", urls.join(", "));
    // Two edges with the same servers choose alike.
    let edges = [Edge::before(&sites), Edge::before(&sites)];
    for edge in &edges {
        let mut client = Client::plain(&edge.server);
        for number in 0..180 {
            assert_eq!(client.get(&format!("/{}", number % 90)).status, 200);
        }
    }
    let asked: Vec<Vec<String>> = servers.iter().map(Origin::asked).collect();
    for number in 0..90 {
        let line = format!("GET /{number} ");
        let with = asked.iter().filter(|heads| heads.iter().any(|head| head.starts_with(&line))).count();
        assert_eq!(with, 1, "/{number} was asked of several servers");
    }
    assert!(
        asked.iter().all(|heads| heads.len() > 40),
        "{:?}",
        asked.iter().map(Vec::len).collect::<Vec<_>>()
    );
}

#[test]
fn the_server_with_fewer_requests_is_asked() {
    let (release, held) = channel::<()>();
    let held = std::sync::Mutex::new(held);
    let slow = Origin::start(move |_, _, stream| {
        let _released = held.lock().unwrap().recv();
        answer(stream, "200 OK", "Cache-Control: no-store\r\n", b"slow")
    });
    let fast = Origin::answering("200 OK", "Cache-Control: no-store\r\n", "fast");
    let edge = Edge::before(&format!(
        "- origin: {{http: [\"{}\", \"{}\"], balance: least_connections}}",
        slow.url(),
        fast.url()
    ));
    let mut waiting = Client::plain(&edge.server);
    let mut client = Client::plain(&edge.server);
    // Whichever is first, one of these two is with the slow server.
    waiting.ask("/waiting");
    until("a request to one of them", || (slow.asked().len() + fast.asked().len() > 0).then_some(()));
    if slow.asked().is_empty() {
        assert_eq!(waiting.response().unwrap().text(), "fast");
        waiting.ask("/again");
        until("a request to the slow one", || (!slow.asked().is_empty()).then_some(()));
    }
    for number in 0..10 {
        assert_eq!(client.get(&format!("/{number}")).text(), "fast");
    }
    assert_eq!(slow.asked().len(), 1);
    drop(release);
    assert_eq!(waiting.response().unwrap().text(), "slow");
}

#[test]
fn hidden_fields_reach_no_client() {
    let origin = Origin::answering(
        "200 OK",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\nX-Powered-By: x\r\nX-Kept: y\r\n",
        "body",
    );
    let edge = Edge::before(&format!(
        "- {{hosts: [cached.example], origin: {{http: [\"{0}\"], hide: [Set-Cookie, X-Powered-By]}}}}\n\
         - {{hosts: [relayed.example], origin: {{http: [\"{0}\"], cache: off, hide: [set-cookie, x-powered-by]}}}}",
        origin.url()
    ));
    let mut client = Client::plain(&edge.server);
    for host in ["cached.example", "cached.example", "relayed.example"] {
        let response = client.request(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((response.status, response.text()), (200, "body"));
        assert_eq!((response.field("Set-Cookie"), response.field("X-Powered-By")), (None, None), "{host}");
        assert_eq!(response.field("X-Kept"), Some("y"));
    }
    assert_eq!(origin.asked().len(), 2);
}

/// A server that asks its clients for certificates, and what an edge has to know of it.
fn strict() -> (Server, String) {
    let setup = Setup::new();
    let tls = format!(
        "{}\nclient_certificates: {{ca: authority.crt, mode: required}}",
        penstock_testkit::Certificates::yaml(&["ec"])
    );
    let origin = setup.tls(&tls).start();
    let keys = format!(
        "http: [\"https://{}\"], ca: {}",
        origin.https(),
        origin.certificates().authority().display()
    );
    (origin, keys)
}

#[test]
fn an_origin_that_asks_for_a_certificate_is_shown_one() {
    let (origin, keys) = strict();
    let film = origin.file("film.mp4", 10_000);
    let certificate = |kind: &str| origin.certificates().path(&format!("rsa.{kind}")).display().to_string();
    let shown = format!("- origin: {{{keys}, chain: {}, key: {}}}", certificate("crt"), certificate("key"));
    let edge = Edge::before(&shown);
    film.assert_range(0..10_000, &Client::plain(&edge.server).get("/film.mp4").body);
    let edge = Edge::before(&format!("- origin: {{{keys}}}"));
    edge.server.tolerate_warning("is out: ");
    assert_eq!(Client::plain(&edge.server).get("/film.mp4").status, 502);
}
