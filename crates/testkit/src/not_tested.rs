//! What a test leaves out on a machine without the programs that it needs.

use std::fs::OpenOptions;
use std::io::Write;

/// `scripts/rust-tests` shows its lines: the output of a test that passes is not shown.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/not-tested");

/// Whether this process may choose that algorithm of TCP; says so if it may not.
#[must_use]
pub fn has_congestion_control(name: &str) -> bool {
    match penstock_sys::socket::probe_congestion_control(name) {
        Ok(()) => true,
        Err(error) => {
            not_tested(&format!("congestion control {name} of TCP, which the system refuses: {error}"));
            false
        }
    }
}

/// Says that something was not tested, and why.
pub fn not_tested(what: &str) {
    println!("NOT TESTED: {what}");
    let file = OpenOptions::new().create(true).append(true).open(FILE);
    let _best_effort = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
}
