//! Clients that send their bodies slowly, and networks that hold many connections to an origin.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use penstock_testkit::{Client, Response, Setup, until};

use super::Edge;
use super::passing::echo;

const HEAD: &str = "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";

/// Sends a body byte by byte until a response comes.
fn drip(client: &mut Client<TcpStream>) -> Response {
    client.send(HEAD);
    client.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    for _ in 0..300 {
        // Once the response is on its way, this may not be read any more.
        drop(client.stream.write_all(b"a"));
        match client.response() {
            Ok(response) => return response,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("no response to a slow body: {error}"),
        }
    }
    panic!("after 30 seconds the server still waits for the end of the body")
}

#[test]
fn a_body_that_comes_byte_by_byte_is_408() {
    for limits in ["upload_rate: 1KiB, upload_rate_grace: 1s", "upload_rate: 0, upload_deadline: 1s"] {
        let edge = Edge::tuned(&echo().sites(), "4MiB", &[limits]);
        let mut client = Client::plain(&edge.server);
        let response = drip(&mut client);
        assert_eq!((response.status, response.field("Connection")), (408, Some("close")), "{limits}");
        edge.server.counted("penstock_request_rejections_total", &["reason=\"body_incomplete\""], 1.0);
    }
}

#[test]
fn a_network_does_not_hold_all_connections_to_an_origin() {
    let origin = echo();
    let memory = penstock_testkit::memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 32MiB}}}}", memory.path().display());
    let setup = Setup::new().listeners(&["proxy_protocol: true"]).sites(&origin.sites()).section(&cache);
    let server = setup.limits("forwarded_per_network: 2").start();
    let post = |address: &str, body: &str| {
        let mut client = Client::plain(&server);
        client.send(format!("PROXY TCP4 {address} 127.0.0.1 1111 80\r\n{HEAD}{body}"));
        client
    };
    let whole = "a".repeat(1000);
    let mut held = vec![post("192.0.2.1", "a"), post("192.0.2.2", "a")];
    until("two bodies to be on their way", || (origin.asked().len() == 2).then_some(()));
    assert_eq!(post("192.0.2.3", &whole).response().unwrap().status, 429);
    assert_eq!(post("198.51.100.1", &whole).response().unwrap().text(), whole);
    let mut ending = held.pop().unwrap();
    ending.send(&whole[1..]);
    assert_eq!(ending.response().unwrap().text(), whole);
    until("a place for the network", || {
        let response = post("192.0.2.3", &whole).response().unwrap();
        (response.status == 200).then(|| assert_eq!(response.text(), whole))
    });
}
