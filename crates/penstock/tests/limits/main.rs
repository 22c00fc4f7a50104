//! Clients that take too long, too much, or too little; and those that break off.
//!
//! Each test ends by looking at what was counted. That nothing was logged at WARN and nothing panicked is checked
//! when the server is dropped.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod closing;
mod crowds;
mod deadlines;
mod handshakes;
mod records;
mod unsent;

use std::io::{ErrorKind, Read, Write};

use penstock_testkit::{Client, Server};

/// Waits until the server has let go of every connection.
fn no_connections(server: &Server) {
    server.counted("penstock_connections", &[], 0.0);
    assert_eq!(server.metrics().sum("penstock_worker_panics_total", &[]), 0.0);
}

/// Fails unless the server ends this connection, whether by FIN or, where it did not read everything, by RST.
fn ends<S: Read + Write>(client: &mut Client<S>) {
    match client.rest() {
        Ok(_) => {}
        Err(error) => {
            let waited_in_vain = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!waited_in_vain, "the connection did not end: {error}");
        }
    }
}
