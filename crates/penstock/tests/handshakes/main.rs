//! What is seen of handshakes, and what becomes of those that are none.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]
#![expect(clippy::print_stdout, reason = "shown with a test that fails")]

mod client_hello;
mod fields;
#[path = "../harness/mod.rs"]
mod harness;
mod odd;
mod rfc9325;
mod scanner;
mod seen;

use harness::{Server, until};

/// Waits until the sum of these series is exactly this.
#[track_caller]
fn counted(server: &Server, name: &str, labels: &[&str], value: f64) {
    let place = std::panic::Location::caller();
    let mut seen = Vec::new();
    until(&format!("{name} {labels:?} to be {value} ({place})"), || {
        let sum = server.metrics().sum(name, labels);
        if seen.last() != Some(&sum) {
            println!("{name} {labels:?}: {sum}");
            seen.push(sum);
        }
        (sum == value).then_some(())
    });
}
