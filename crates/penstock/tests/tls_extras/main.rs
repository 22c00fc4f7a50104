//! What comes with handshakes: compressed certificates, OCSP responses, encrypted hellos.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../harness/mod.rs"]
mod harness;

mod compression;
mod ech;
mod key_log;
mod legacy;
mod ocsp;
