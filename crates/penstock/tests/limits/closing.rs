//! Connections that end in the middle of something, from either side.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use boring::ssl::SslVersion;
use rustix::net::sockopt::set_socket_linger;

use crate::{ends, no_connections};
use penstock_testkit::{Client, Server, Setup, TlsOptions, TlsStream, until};

/// A file that no socket buffer on the way holds.
const LARGE: u64 = 64 << 20;
const SHORT: &str = "penstock_short_responses_total";

fn server() -> Server {
    let server = Setup::new().start();
    server.file("large.mp4", LARGE);
    server.write("a.txt", "a\n");
    server
}

/// A client in the middle of a download that it has stopped reading.
fn downloading<S: Read + Write>(mut client: Client<S>) -> Client<S> {
    client.begin("/large.mp4");
    client
}

/// Ends a connection with RST instead of FIN.
fn reset(socket: &TcpStream) {
    set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_plain_client_that_has_said_everything_still_gets_its_answers() {
    let server = server();
    let file = server.file("clip.mp4", 8 << 20);
    let mut client = Client::plain(&server);
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(3));
    client.ask("/clip.mp4");
    client.ask("/a.txt");
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        assert_eq!(client.response().unwrap().text(), "a\n");
    }
    file.assert_range(0..file.len, &client.response().unwrap().body);
    assert_eq!(client.response().unwrap().text(), "a\n");
    client.assert_closed();
    server.counted(SHORT, &[], 0.0);
}

#[test]
fn a_head_that_is_cut_off_by_the_end_gets_no_answer() {
    let server = server();
    for cut in ["G", "GET /a.txt HTTP/1.1\r\n", "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n", "\r\n"] {
        let mut client = Client::plain(&server);
        client.send(cut);
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.assert_closed();
        let mut client = Client::tls(&server);
        client.send(cut);
        client.stream.close();
        client.assert_closed();
    }
    server.counted("penstock_request_rejections_total", &[], 0.0);
    no_connections(&server);
}

#[test]
fn close_notify_behind_requests_leaves_small_answers_whole() {
    let server = server();
    let mut client = Client::tls(&server);
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2));
    client.stream.close();
    assert_eq!(client.response().unwrap().text(), "a\n");
    assert_eq!(client.response().unwrap().text(), "a\n");
    client.assert_closed();
    no_connections(&server);
}

/// Ends the client's direction of a TLS connection.
type HalfClose = fn(&mut TlsStream);

const HALF_CLOSES: [(&str, HalfClose); 2] = [
    ("close_notify", TlsStream::close),
    ("FIN", |stream| stream.socket().shutdown(Shutdown::Write).unwrap()),
];

#[test]
fn a_half_closed_tls_connection_gets_its_whole_response() {
    let server = server();
    let file = server.file("clip.mp4", 8 << 20);
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        for (name, close) in HALF_CLOSES {
            for mid_body in [false, true] {
                println!("{version:?}, {name}, in the body: {mid_body}");
                let mut client = Client::tls_with(&server, &TlsOptions::version(version));
                client.ask("/clip.mp4");
                let mut body = Vec::new();
                if mid_body {
                    assert_eq!(client.response_to_head().unwrap().status, 200);
                    body = client.take(1 << 20).unwrap();
                    close(&mut client.stream);
                } else {
                    close(&mut client.stream);
                    assert_eq!(client.response_to_head().unwrap().status, 200);
                }
                // Up to the server's close_notify.
                body.extend(client.rest().unwrap());
                file.assert_range(0..file.len, &body);
            }
        }
    }
    server.counted(SHORT, &[], 0.0);
    no_connections(&server);
}

#[test]
fn a_half_closed_client_that_does_not_read_is_too_slow() {
    let server = Setup::new().limits("minimum_rate: 1MiB, minimum_rate_grace: 1s").start();
    server.file("large.mp4", LARGE);
    let _clients = HALF_CLOSES.map(|(_, close)| {
        let mut client = downloading(Client::tls(&server));
        close(&mut client.stream);
        client
    });
    server.counted(SHORT, &["reason=\"too_slow\""], 2.0);
    no_connections(&server);
}

#[test]
fn a_reset_in_the_middle_of_a_response_ends_it() {
    let server = server();
    let before = server.descriptors();
    let workers = 2;
    let plain = downloading(Client::plain(&server));
    reset(&plain.stream);
    let tls = downloading(Client::tls(&server));
    reset(tls.stream.socket());
    drop((plain, tls));
    server.counted(SHORT, &["reason=\"client_closed\""], 2.0);
    server.counted(SHORT, &[], 2.0);
    no_connections(&server);
    // Each worker may keep the file open.
    until("the descriptors to be given back", || (server.descriptors() <= before + workers).then_some(()));
}

#[test]
fn a_reset_at_any_other_time_ends_quietly() {
    let server = server();
    let hello = penstock_testkit::client_hello(&server, &TlsOptions::default());
    for sent in [&b""[..], &hello[..20], &hello] {
        let mut client = Client::connect(server.https());
        client.send(sent);
        if sent == hello {
            client.stream.read_exact(&mut [0]).unwrap();
        }
        reset(&client.stream);
    }
    for sent in ["", "GET /a", "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n12"] {
        let mut plain = Client::plain(&server);
        plain.send(sent);
        reset(&plain.stream);
        let mut tls = Client::tls(&server);
        tls.send(sent);
        reset(tls.stream.socket());
    }
    no_connections(&server);
    server.counted("penstock_handshakes_total", &["outcome=\"failed\""], 3.0);
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
}

#[test]
fn the_server_lets_go_of_a_client_that_never_closes_its_side() {
    let server = server();
    let last = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(plain.request(last).text(), "a\n");
    assert_eq!(tls.request(last).text(), "a\n");
    plain.assert_closed();
    tls.assert_closed();
    no_connections(&server);
    drop((plain, tls));
}

#[test]
fn the_server_lets_go_of_a_client_that_never_stops_talking() {
    let server = server();
    let mut client = Client::plain(&server);
    client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n");
    assert_eq!(client.response().unwrap().status, 405);
    // Until the socket is gone; with a server that reads on for ever this does not end.
    let flood = vec![b'x'; 64 * 1024];
    let sent = (0..10_000).take_while(|_| client.stream.write_all(&flood).is_ok()).count();
    assert!(sent < 10_000, "the server took 600 MB that it had refused");
    no_connections(&server);
}

#[test]
fn a_refusal_arrives_although_its_request_is_still_on_the_way() {
    let server = server();
    for _ in 0..20 {
        let mut client = Client::plain(&server);
        let head = "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 66000\r\n\r\n";
        client.send([head.as_bytes(), &vec![b'x'; 66_000]].concat());
        assert_eq!(client.response().unwrap().status, 405);
        ends(&mut client);
    }
}
