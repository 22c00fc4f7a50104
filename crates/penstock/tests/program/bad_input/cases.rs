//! One bad request, what must become of it, and the player that tries it in every way.

use std::io::Write;

use penstock_testkit::{Client, Server, Setup, Stream, until};

/// A request that is wrong in one way. A good request follows it in the same packet.
pub(crate) struct Case {
    name: String,
    request: Vec<u8>,
    status: u16,
    /// The label in `penstock_request_rejections_total`; empty if this is an answer like any other.
    reason: &'static str,
    /// Whether the good request behind it is answered.
    open: bool,
}

/// How the bytes travel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Plain,
    /// Plain, each byte in a packet of its own as far as the kernel goes along.
    PlainByteByByte,
    Tls,
}

/// The good request.
pub(crate) const NEXT: &str = "GET /next.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Longer requests do not travel byte by byte.
const BYTE_BY_BYTE_MAX: usize = 2000;

/// A good request with `lines` (each ending in CRLF) behind its Host.
pub(crate) fn get(lines: &str) -> Vec<u8> {
    format!("GET /next.txt HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n").into_bytes()
}

/// A request for another path.
pub(crate) fn get_path(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// This request gets this answer, and the connection ends.
pub(crate) fn closes(request: impl Into<Vec<u8>>, status: u16, reason: &'static str) -> Case {
    case(request.into(), status, reason, false)
}

/// This request gets this answer, and the next one is answered too.
pub(crate) fn stays(request: impl Into<Vec<u8>>, status: u16, reason: &'static str) -> Case {
    case(request.into(), status, reason, true)
}

fn case(request: Vec<u8>, status: u16, reason: &'static str, open: bool) -> Case {
    let name = String::from_utf8_lossy(&request).escape_debug().take(300).collect();
    Case { name, request, status, reason, open }
}

/// A server with what the cases need: a file inside its root, a secret outside.
pub(crate) fn server() -> Server {
    server_with(&Setup::new())
}

pub(crate) fn server_with(setup: &Setup) -> Server {
    let server = setup.start();
    server.write("next.txt", "next\n");
    std::fs::write(server.directory().join("secret.txt"), "secret\n").unwrap();
    server
}

/// A new connection.
pub(crate) fn connect(server: &Server, way: Way) -> Client<Box<dyn Stream>> {
    match way {
        Way::Plain | Way::PlainByteByByte => Client::plain(server).boxed(),
        Way::Tls => Client::tls(server).boxed(),
    }
}

/// Plays every case in every way, and sees whether the server is as it was.
pub(crate) fn play(server: &Server, cases: &[Case]) {
    for case in cases {
        let rejections = |labels: &[&str]| server.metrics().sum("penstock_request_rejections_total", labels);
        let reason = format!("reason=\"{}\"", case.reason);
        let (all, these) = (rejections(&[]), rejections(&[&reason]));
        let mut ways = vec![Way::Plain, Way::Tls];
        if case.request.len() <= BYTE_BY_BYTE_MAX {
            ways.push(Way::PlainByteByByte);
        }
        for &way in &ways {
            play_one(server, case, way);
        }
        let counted = if case.reason.is_empty() { 0.0 } else { ways.len() as f64 };
        assert_eq!(rejections(&[&reason]) - these, counted, "{reason} for {}", case.name);
        assert_eq!(rejections(&[]) - all, counted, "other reasons than {reason} for {}", case.name);
    }
    unharmed(server);
}

fn play_one(server: &Server, case: &Case, way: Way) {
    let shown = format!("{way:?}: {}", case.name);
    let mut client = connect(server, way);
    let bytes = [&case.request, NEXT.as_bytes()].concat();
    let step = if matches!(way, Way::PlainByteByByte) { 1 } else { bytes.len() };
    for piece in bytes.chunks(step) {
        // The server need not read on after a request that ends the connection.
        if client.stream.write_all(piece).is_err() {
            break;
        }
    }
    let response = client.response().unwrap_or_else(|error| panic!("no response ({error}) to {shown}"));
    assert_eq!(response.status, case.status, "{shown}");
    assert!(!response.text().contains("secret"), "{shown}");
    let says_close = response.field("Connection") == Some("close");
    assert_eq!(says_close, !case.open, "Connection after {shown}");
    if case.open {
        let next = client.response().unwrap();
        assert_eq!((next.status, next.text()), (200, "next\n"), "behind {shown}");
        client.assert_open();
    } else {
        let rest = client.rest().unwrap_or_else(|error| panic!("no clean close ({error}) after {shown}"));
        assert!(rest.is_empty(), "{} behind {shown}", String::from_utf8_lossy(&rest));
    }
}

/// Fails unless the server has ended every connection of the past, never panicked, and answers.
pub(crate) fn unharmed(server: &Server) {
    until("the last connection to end", || {
        (server.metrics().sum("penstock_connections", &[]) == 0.0).then_some(())
    });
    assert_eq!(server.metrics().sum("penstock_worker_panics_total", &[]), 0.0);
    assert_eq!(Client::tls(server).get("/next.txt").text(), "next\n");
}
