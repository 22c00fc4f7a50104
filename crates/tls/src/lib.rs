//! TLS handshakes: from a ClientHello to traffic secrets.
//!
//! [`Acceptor::accept`] is the only way in. What comes out is [`Established`]: the keys to send with, which leave
//! this crate for good, a [`Receiver`] that stays in the library, and the facts of the handshake.
//!
//! [`Outbound`] is the other side: our own connections to servers, whose certificates it verifies.
//!
//! This crate has never seen HTTP, a file or a response.
#![forbid(unsafe_code)]

mod accept;
pub mod alert;
mod alpn;
mod candidates;
pub mod certificate;
mod client_certificates;
mod compression;
mod context;
pub mod early_data;
mod ecdsa;
pub mod ech;
mod extensions;
mod failure;
mod fuzz;
mod groups;
pub mod hello;
mod ja4;
mod legacy;
pub mod ocsp;
mod outbound;
mod rate;
mod receiver;
mod rsa;
pub mod session_cache;
pub mod session_store;
mod settings;
mod shelf;
mod signatures;
mod signing;
pub mod strikes;
mod suites;
pub mod tickets;
mod turns;
mod wire;

pub use accept::{Established, Facts, Timing};
pub use client_certificates::{
    AuthoritiesError, ClientCertificateLimits, ClientCertificateMode, ClientCertificates, RevocationsError,
};
pub use compression::Compression;
pub use context::{Acceptor, ContextError};
pub use extensions::{EncryptedHello, Extensions, Staple};
pub use failure::HandshakeFailure;
#[doc(hidden)]
pub use fuzz::{fuzz_client_hello, fuzz_ocsp_response, fuzz_ticket_keys};
pub use ja4::Ja4;
pub use legacy::{LEGACY_SUITES, Legacy};
pub use outbound::{Authorities, Outbound, OutboundError, OutboundStream};
pub use rate::HandshakeRate;
pub use receiver::{Received, Receiver};
pub use settings::{ChaCha20, Group, KeyLog, Settings};
pub use shelf::{DefaultFor, Load, Offered, Source};
pub use suites::{ChaCha20Switch, Protection, SUITES, Suite};
pub use turns::Turns;
pub use wire::receive;

/// A random number, for what must be unlikely rather than secret; 0 if the system has no randomness to give.
pub fn random_number() -> u64 {
    let mut bytes = [0; 8];
    match boring::rand::rand_bytes(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

/// Base64 (RFC 4648 §4).
pub fn base64(bytes: &[u8]) -> String {
    boring::base64::encode_block(bytes)
}
