//! What an operator does to a running server: reload, drain, stop. And what a wrong configuration is answered with.
//!
//! The plain cases of signals are in `tests/cli`; these are the ones with clients in the middle of something.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod drain;
mod faults;
#[path = "../harness/mod.rs"]
mod harness;
mod reload;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use harness::{Client, Server, Setup};

/// A file that no socket buffer on the way holds.
const LARGE: u64 = 64 << 20;

/// A client in the middle of a download that it has stopped reading.
fn downloading<S: Read + Write>(mut client: Client<S>) -> Client<S> {
    client.send("GET /large.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response_to_head().unwrap().status, 200);
    client
}

/// Reads such a download to its end.
fn finish<S: Read + Write>(client: &mut Client<S>) -> Vec<u8> {
    client.take(usize::try_from(LARGE).unwrap()).unwrap()
}

/// An address on which nobody listened a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// The configuration that this server runs with, to be changed.
fn text_of(setup: &Setup) -> String {
    setup.yaml(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// The answer of the admin listener to a path: its status and its body.
fn ask_admin(server: &Server, path: &str) -> (u16, String) {
    let mut client = Client::connect(server.admin());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n"));
    let answer = client.response().unwrap();
    (answer.status, answer.text().to_owned())
}
