//! HTTP/3 as a client of another author sees it: aioquic, through a small client (`client.py`).

mod addresses;
mod clients;
mod corpora;
mod early;
mod floods;
mod frames;
mod handshakes;
mod hostile;
pub(crate) mod network;
mod others;
mod parameters;
mod qlog;
mod records;

use std::path::Path;

use penstock_testkit::{Server, Setup, Tool};
use serde_json::Value;

/// The Python of an environment with aioquic, which `scripts/install-needs test` makes.
pub(crate) const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/quic/bin/python3");

/// The client of quic-go, which `scripts/install-needs test` builds.
pub(crate) const QUIC_GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/quicgo");

/// The client of h3i, which `scripts/install-needs h3i` builds.
const H3I: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/h3i");

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/http3/client.py");

/// The usual server, whose listener with TLS speaks HTTP/3 by default.
fn setup() -> Setup {
    Setup::new()
}

/// Whether there is that Python; says so if there is none.
pub(crate) fn has_client() -> bool {
    let has = Path::new(PYTHON).exists();
    if !has {
        penstock_testkit::not_tested(
            "needs Python with aioquic and cryptography; scripts/install-needs test installs it",
        );
    }
    has
}

/// Whether there is that client; says so if there is none.
pub(crate) fn has_quic_go() -> bool {
    let has = Path::new(QUIC_GO).exists();
    if !has {
        penstock_testkit::not_tested("needs a client of quic-go; scripts/install-needs test builds it");
    }
    has
}

/// Whether there is that of h3i; says so if there is none.
fn has_h3i() -> bool {
    let has = Path::new(H3I).exists();
    if !has {
        penstock_testkit::not_tested(
            "needs a client of h3i; scripts/install-needs h3i builds it after the server",
        );
    }
    has
}

/// What came for one request.
struct Response {
    status: String,
    fields: Value,
    content: Vec<u8>,
}

/// What came on one connection.
struct Exchange {
    responses: Vec<Response>,
    resumed: bool,
    /// Whether early data was accepted.
    early: bool,
}

/// The client, of a connection to this server.
pub(crate) fn client(server: &Server) -> Tool {
    let address = server.https();
    let client = Tool::new(PYTHON).arg(CLIENT).arg(server.certificates().authority());
    client.args([address.ip().to_string(), address.port().to_string()])
}

/// Sends requests (`METHOD PATH [FILE]`) on one connection to `localhost`, or to the `name=` of the options.
fn fetch(server: &Server, options: &str, requests: &[&str]) -> Exchange {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let finished = client(server).args(requests).env("OPTIONS", options).env("OUT", &out).run().ok();
    let text = finished.text();
    let mut lines: Vec<(&str, Value)> = text
        .lines()
        .map(|line| line.split_once(' ').expect("a status and fields"))
        .map(|(status, fields)| (status, serde_json::from_str(fields).unwrap()))
        .collect();
    let (_, session) = lines.pop().expect("the session comes last");
    let responses = lines.into_iter().enumerate().map(|(number, (status, fields))| {
        let content = std::fs::read(format!("{}.{number}", out.display())).unwrap();
        Response { status: status.to_owned(), fields, content }
    });
    Exchange {
        responses: responses.collect(),
        resumed: session["resumed"] == true,
        early: session["early"] == true,
    }
}

/// A field of the second response to two requests on one connection.
pub(crate) fn field_of_second(server: &Server, path: &str, field: &str) -> String {
    let request = format!("GET {path}");
    let exchange = fetch(server, "", &[&request, &request]);
    exchange.responses[1].fields[field].as_str().unwrap().to_owned()
}

/// The content of one response.
pub(crate) fn content(server: &Server, path: &str) -> Vec<u8> {
    content_with(server, "", path)
}

/// The same with options of the client.
pub(crate) fn content_with(server: &Server, options: &str, path: &str) -> Vec<u8> {
    let mut exchange = fetch(server, options, &[&format!("GET {path}")]);
    exchange.responses.remove(0).content
}
