//! How handshakes are chosen, put off and turned away: under pressure, and by what clients offer.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod ciphers;
#[path = "../harness/mod.rs"]
mod harness;
mod signing;

use harness::{Server, until};

/// Waits until the sum of these series is exactly this.
#[track_caller]
fn counted(server: &Server, name: &str, labels: &[&str], value: f64) {
    let place = std::panic::Location::caller();
    until(&format!("{name} {labels:?} to be {value} ({place})"), || {
        (server.metrics().sum(name, labels) == value).then_some(())
    });
}
