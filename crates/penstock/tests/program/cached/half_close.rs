//! Clients that end their direction of a TLS connection before they have their response (RFC 8446 §6.1).

use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use boring::ssl::SslVersion;
use rustix::net::sockopt::set_socket_linger;

use super::Edge;
use penstock_testkit::origin::{Origin, answer, target, write};
use penstock_testkit::{Client, Gate, TlsOptions, TlsStream, until};

/// Ends the client's direction of a TLS connection.
type HalfClose = fn(&mut TlsStream);

const HALF_CLOSES: [(&str, HalfClose); 2] = [
    ("close_notify", TlsStream::close),
    ("FIN", |stream| stream.socket().shutdown(Shutdown::Write).unwrap()),
];

const BYTES: usize = 1 << 20;

fn body() -> Vec<u8> {
    (0..251_u8).cycle().take(BYTES).collect()
}

#[test]
fn a_half_closed_tls_connection_gets_its_whole_response_from_cache_and_origin() {
    let origin =
        Origin::start(|_, _, stream| answer(stream, "200 OK", "Cache-Control: max-age=60\r\n", &body()));
    let edge = Edge::with(&origin.sites(), "64MiB");
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        for (name, close) in HALF_CLOSES {
            for mid_body in [false, true] {
                // Each path is a miss first and then a hit.
                for kind in ["miss", "hit"] {
                    println!("{version:?}, {name}, in the body: {mid_body}, {kind}");
                    let mut client = Client::tls_with(&edge.server, &TlsOptions::version(version));
                    let path = format!("/{version:?}-{name}-{mid_body}.mp4").replace(['(', ')'], "");
                    client.ask(&path);
                    let mut received = Vec::new();
                    if mid_body {
                        assert_eq!(client.response_to_head().unwrap().status, 200);
                        received = client.take(1000).unwrap();
                        close(&mut client.stream);
                    } else {
                        close(&mut client.stream);
                        assert_eq!(client.response_to_head().unwrap().status, 200);
                    }
                    received.extend(client.rest().unwrap());
                    let bytes = received.len();
                    assert!(received == body(), "{bytes} bytes, {}", edge.server.logged(&path));
                }
            }
        }
    }
}

/// Resets the connection of a client.
fn reset<S>(client: Client<S>, socket: impl FnOnce(&S) -> &TcpStream) {
    set_socket_linger(socket(&client.stream), Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_client_that_resets_its_connection_ends_its_wait_for_the_origin() {
    let gate = Gate::closed();
    let passing = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        let head_first = target(head).starts_with("/body");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nCache-Control: max-age=60\r\n\r\n");
        (!head_first || write(&mut *stream, format!("{head}0123456789")))
            && passing.pass()
            && (head_first || write(&mut *stream, head))
    });
    let edge = Edge::of(&origin);
    let (server, mut left) = (&edge.server, 0.0);
    for half_closed in [false, true] {
        for path in ["/head", "/body"] {
            println!("{path}, half-closed before: {half_closed}");
            let (mut plain, mut tls) = (Client::plain(server), Client::tls(server));
            let asked = origin.asked().len();
            plain.ask(&format!("{path}?plain={half_closed}"));
            tls.ask(&format!("{path}?tls={half_closed}"));
            until("both requests", || (origin.asked().len() == asked + 2).then_some(()));
            if path == "/body" {
                assert_eq!(plain.response_to_head().unwrap().status, 200);
                assert_eq!(tls.response_to_head().unwrap().status, 200);
            } else {
                left += 2.0;
            }
            if half_closed {
                plain.stream.shutdown(Shutdown::Write).unwrap();
                tls.stream.close();
            }
            server.counted("penstock_connections", &[], 2.0);
            reset(plain, |stream| stream);
            reset(tls, TlsStream::socket);
            server.counted("penstock_connections", &[], 0.0);
            server.counted("penstock_request_rejections_total", &["reason=\"client_gone\""], left);
        }
    }
    gate.open();
}

#[test]
fn a_half_closed_tls_connection_follows_a_body_that_is_still_arriving() {
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |_, _, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nCache-Control: max-age=60\r\n\r\n");
        write(stream, head) && write(stream, &body()[..1000]) && {
            wait.lock().unwrap().recv().unwrap();
            write(stream, &body()[1000..])
        }
    });
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    client.ask("/live.mp4");
    assert_eq!(client.response_to_head().unwrap().status, 200);
    let mut received = client.take(1000).unwrap();
    client.stream.close();
    go_on.send(()).unwrap();
    received.extend(client.rest().unwrap());
    assert!(received == body(), "{} bytes", received.len());
}
