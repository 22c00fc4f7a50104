//! How handshakes are chosen, put off and turned away: under pressure, and by what clients offer.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod ciphers;
mod groups;
#[path = "../harness/mod.rs"]
mod harness;
mod ja4;
mod limits;
mod signing;

use harness::{Finished, Server, Tool, until};

/// Waits until the sum of these series is exactly this.
#[track_caller]
fn counted(server: &Server, name: &str, labels: &[&str], value: f64) {
    let place = std::panic::Location::caller();
    until(&format!("{name} {labels:?} to be {value} ({place})"), || {
        (server.metrics().sum(name, labels) == value).then_some(())
    });
}

/// What `openssl s_client` says, which asks for `/`.
fn fetch(server: &Server, arguments: &[&str]) -> Finished {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    Tool::s_client(server).arg("-ign_eof").args(arguments).run_with_input(request)
}
