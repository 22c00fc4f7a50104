//! TLS handshakes: from a ClientHello to traffic secrets.
//!
//! [`Acceptor::accept`] performs a handshake. It returns [`Established`]: the keys for sending, a [`Receiver`] that
//! decrypts what the client sends, and the facts. [`Outbound`] is the client side, for connections to other servers.
//!
//! ```no_run
//! # use std::{rc::Rc, error::Error};
//! # use penstock_tls::{Acceptor, AcceptorSettings, ConnectingClient, HttpVersions, SigningLimiter};
//! # async fn serve(settings: AcceptorSettings, socket: Rc<penstock_sys::ConnectedSocket>) -> Result<(), Box<dyn Error>> {
//! let acceptor = Acceptor::new(settings)?;
//! let limiter = SigningLimiter::new(4);
//! let accepted = acceptor.accept(socket, Vec::new(), HttpVersions::H1, &limiter, ConnectingClient::default()).await;
//! let established = accepted.map_err(|failure| failure.to_string())?;
//! println!("{} {}", established.facts.version, established.facts.cipher);
//! # Ok(()) }
//! ```
//!
//! This crate knows nothing of HTTP, files or responses.
#![forbid(unsafe_code)]

mod acceptor;
pub mod alert;
mod alpn;
mod candidates;
pub mod certificate;
mod certificate_store;
mod challenges;
pub mod circuit;
mod client_certificates;
mod compression;
mod context;
mod context_selector;
pub mod digest_signer;
pub mod early_data;
mod ec_curve;
mod ecdsa;
pub mod ech;
mod extensions;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod groups;
mod handshake;
pub mod hello;
mod ja4;
mod legacy;
mod load_signal;
mod local_key;
mod mutual;
mod negotiated;
pub mod ocsp;
mod offered_certificate;
mod outbound;
pub mod pkcs11_uri;
mod quic;
mod random;
mod rate;
mod receiver;
pub mod remote_key;
mod rsa;
pub mod session_cache;
mod session_key;
pub mod session_store;
mod settings;
mod signature_kind;
mod signatures;
mod signing;
mod signing_limiter;
pub mod strikes;
mod suites;
pub mod tickets;
mod transport_parameters;
mod wire;

pub use acceptor::Acceptor;
pub use alpn::HttpVersions;
pub use challenges::AnswerChallenges;
pub use client_certificates::{
    AuthoritiesError, ClientCertificateLimits, ClientCertificateMode, ClientCertificates, RevocationsError,
};
pub use compression::Compression;
pub use context::ContextError;
pub use ec_curve::{EcCurve, ecdsa_der};
pub use failure::HandshakeFailure;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{fuzz_client_hello, fuzz_ocsp_response, fuzz_pkcs11_uri, fuzz_ticket_keys};
pub use handshake::{ConnectingClient, Established};
pub use ja4::Ja4;
pub use legacy::{LEGACY_SUITES, Legacy};
pub use mutual::{MutualError, MutualServer};
pub use negotiated::{ApplicationProtocol, Negotiated};
pub use offered_certificate::{CertificateSource, DefaultFor, LoadCertificate, OfferedCertificate};
pub use outbound::{Authorities, ClientIdentity, Outbound, OutboundError, OutboundStream, certificate_end};
pub use quic::{
    QuicAnswer, QuicHandshake, QuicWait, TRANSPORT_PARAMETER_ERROR, has_faulty_parameters, quic_failure,
};
pub use random::random_number;
pub use rate::HandshakeRate;
pub use receiver::{Received, Receiver};
pub use settings::{AcceptorSettings, ChaCha20, Group, KeyLog};
pub use signature_kind::{Hash, SignatureKind};
pub use signing::trial_request;
pub use signing_limiter::SigningLimiter;
pub use suites::{ChaCha20Switch, Protection, SUITES, Suite};

/// Base64 (RFC 4648 §4).
pub fn base64(bytes: &[u8]) -> String {
    boring::base64::encode_block(bytes)
}
