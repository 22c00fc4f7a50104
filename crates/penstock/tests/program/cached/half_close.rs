//! Clients that end their direction of a TLS connection before they have their response (RFC 8446 §6.1).

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use boring::ssl::SslVersion;

use super::Edge;
use penstock_testkit::origin::{Origin, answer, write};
use penstock_testkit::{Client, TlsOptions, TlsStream};

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
