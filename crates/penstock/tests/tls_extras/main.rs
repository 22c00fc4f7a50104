//! What comes with handshakes: compressed certificates.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../harness/mod.rs"]
mod harness;

mod compression;
