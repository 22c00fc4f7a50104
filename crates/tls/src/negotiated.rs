//! The negotiated parameters of a handshake, and the parts of its duration.

use std::time::SystemTime;

use boring::ssl::{NameType, SslRef, SslVersion};
use penstock_metrics::{Extensions, LookupWait};
use penstock_sys::ssl;

use crate::alpn;
use crate::challenges::ACME_TLS;
use crate::early_data::EarlyDataOutcome;
use crate::extensions;
use crate::ja4::Ja4;
use crate::session_store;
use crate::signing::{self, HandshakeProgress};
use crate::tickets::{self, TicketFacts};

/// The negotiated parameters, in the terms of logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLSv1.3`, `TLSv1.2`, and where they are spoken `TLSv1.1` and `TLSv1.0`.
    pub version: &'static str,
    /// The suite's name in the IANA registry.
    pub cipher: &'static str,
    /// The key exchange group; `none` when a TLS 1.2 session was resumed without one.
    pub group: &'static str,
    /// Whether an earlier session was resumed, without certificate or signature.
    pub resumed: bool,
    /// The kind of key that signed: `ecdsa` or `rsa`; `none` when a session was resumed.
    pub certificate: &'static str,
    /// Whether the client had to send a second ClientHello.
    pub retried: bool,
    /// The protocol on top of TLS.
    pub protocol: ApplicationProtocol,
    /// The server name the client asked for, in lower case.
    pub server_name: Option<String>,
    /// Outcome of early data.
    pub early_data: EarlyDataOutcome,
    /// The JA4 fingerprint; `None` unless the settings ask for it.
    pub ja4: Option<Ja4>,
    /// The name in the client's certificate, which was verified in this handshake or in the original one of the session;
    /// `None` without a certificate.
    pub client_certificate: Option<String>,
    /// How the handshake waited for a session lookup; `None` if it did not.
    pub lookup_wait: Option<LookupWait>,
    /// Outcome of its extensions.
    pub extensions: Extensions,
    /// Tickets offered and issued.
    pub tickets: TicketFacts,
}

/// The protocol on top of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationProtocol {
    /// HTTP/1, also for clients that agreed on none.
    Http1,
    /// HTTP/2.
    Http2,
    /// None: a certificate authority has validated a name, and the connection ends (RFC 8737 section 3).
    AcmeChallenge,
}

/// Reads what a finished handshake agreed on.
pub(crate) fn facts_of(ssl: &SslRef, early_data: EarlyDataOutcome) -> Negotiated {
    let version = match ssl.version2() {
        Some(SslVersion::TLS1_3) => "TLSv1.3",
        Some(SslVersion::TLS1_1) => "TLSv1.1",
        Some(SslVersion::TLS1) => "TLSv1.0",
        _ => "TLSv1.2",
    };
    let cipher = ssl.current_cipher().and_then(|cipher| cipher.standard_name()).unwrap_or("unknown");
    let certificate = if ssl.session_reused() {
        "none"
    } else {
        signer(cipher, ssl::notes(ssl).and_then(ssl::Notes::signature_scheme))
    };
    Negotiated {
        version,
        cipher,
        certificate,
        group: ssl.curve_name().unwrap_or("none"),
        resumed: ssl.session_reused(),
        retried: ssl::used_hello_retry_request(ssl),
        protocol: match ssl.selected_alpn_protocol() {
            Some(alpn::H2) => ApplicationProtocol::Http2,
            Some(ACME_TLS) => ApplicationProtocol::AcmeChallenge,
            _ => ApplicationProtocol::Http1,
        },
        server_name: ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase),
        early_data,
        ja4: signing::progress(ssl).and_then(HandshakeProgress::ja4),
        client_certificate: None,
        lookup_wait: session_store::lookup_wait(ssl),
        extensions: extensions::outcome(ssl),
        tickets: tickets::facts_of(ssl, SystemTime::now()),
    }
}

/// The kind of key that signed: TLS 1.3 says it in the scheme (RFC 8446 §4.2.3), older versions in the suite.
fn signer(suite: &str, scheme: Option<u16>) -> &'static str {
    match (scheme.map(u16::to_be_bytes), suite) {
        (Some([2..=6, 3]), _) => "ecdsa",
        (Some([8, 4..=6 | 9..=11] | [2..=6, 1]), _) => "rsa",
        (None, suite) if suite.contains("_ECDSA_") => "ecdsa",
        (None, suite) if suite.contains("_RSA_") => "rsa",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_certificate_is_read_from_what_was_signed() {
        for (scheme, kind) in
            [(0x0403, "ecdsa"), (0x0603, "ecdsa"), (0x0804, "rsa"), (0x080b, "rsa"), (0x0807, "other")]
        {
            assert_eq!(signer("TLS_AES_128_GCM_SHA256", Some(scheme)), kind, "{scheme:04x}");
        }
        assert_eq!(signer("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", None), "ecdsa");
        assert_eq!(signer("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", None), "rsa");
    }
}
