//! What a test leaves out on a machine without the programs that it needs.

use std::fs::OpenOptions;
use std::io::Write;

/// `scripts/rust-tests` shows its lines: the output of a test that passes is not shown.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/not-tested");

/// Says that something was not tested, and why.
pub fn not_tested(what: &str) {
    println!("NOT TESTED: {what}");
    let file = OpenOptions::new().create(true).append(true).open(FILE);
    let _best_effort = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
}
