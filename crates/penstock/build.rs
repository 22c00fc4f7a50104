//! Asks git for the revision that `penstock --version` names. Without git or a repository there is none.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Grows with every commit and checkout.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let revision = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    let revision = revision.ok().filter(|output| output.status.success());
    let revision = revision.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = match revision {
        Some(revision) if log.exists() => format!("{} ({})", env!("CARGO_PKG_VERSION"), revision.trim()),
        _ => env!("CARGO_PKG_VERSION").to_owned(),
    };
    println!("cargo::rustc-env=PENSTOCK_VERSION={version}");
}
