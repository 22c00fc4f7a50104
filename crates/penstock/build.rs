//! Asks git for the revision that `penstock --version` names. Without git or a repository there is none. And puts
//! AWS-LC's X25519 in the place of BoringSSL's.

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
    replace_key_exchange();
}

/// Lets the linker replace BoringSSL's X25519 by `crates/sys/src/key_exchange.rs`, on the platforms on which that was
/// measured to be faster.
fn replace_key_exchange() {
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ARCH") == "x86_64" {
        for function in ["X25519", "X25519_keypair"] {
            println!("cargo::rustc-link-arg-bins=-Wl,--wrap={function}");
            // Linkers that read each library once have to look for it before they know who wants it.
            println!("cargo::rustc-link-arg-bins=-Wl,--undefined=__wrap_{function}");
        }
    }
}
