//! Failures of handshakes, as labels of metrics.

use std::fmt;

use boring::ssl::Error;

use crate::alert;

/// A failed handshake. The client or the network caused it, so it is counted and logged at DEBUG only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeFailure {
    /// Label from a fixed set.
    pub reason: &'static str,
    /// The alert that was sent to the client.
    pub alert_sent: Option<u8>,
    /// The alert that the client sent.
    pub alert_received: Option<u8>,
    /// Whether the server requested a second ClientHello.
    pub retried: bool,
}

impl HandshakeFailure {
    /// A failure without an alert.
    pub fn silent(reason: &'static str) -> Self {
        Self { reason, alert_sent: None, alert_received: None, retried: false }
    }

    /// Whether the client sent plain HTTP, and so understands a response in plain HTTP.
    pub fn is_plain_http(&self) -> bool {
        self.reason == "http_request"
    }

    pub(crate) fn new(
        error: &Error,
        alert_sent: Option<u8>,
        alert_received: Option<u8>,
        at_end: bool,
        retried: bool,
    ) -> Self {
        let library =
            error.ssl_error().and_then(|stack| stack.errors().first()).and_then(|first| first.reason());
        let reason = match (alert_sent, alert_received, library) {
            // The side that sends an alert ended the handshake, even after warnings of the other side.
            (Some(70), ..) => "unsupported_version",
            (Some(_), _, Some(reason)) => label(reason),
            (_, Some(number), _) => alert_label(number),
            (_, None, Some(reason)) => label(reason),
            (_, None, None) if at_end => "closed_by_client",
            (_, None, None) => "connection_lost",
        };
        Self { reason, alert_sent, alert_received, retried }
    }
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        if let Some(number) = self.alert_sent {
            write!(f, ", answered with {}", alert::name(number))?;
        }
        Ok(())
    }
}

/// Maps the library's reasons to the few that an operator can act on.
fn label(reason: &str) -> &'static str {
    match reason {
        "HTTP_REQUEST" | "HTTPS_PROXY_REQUEST" => "http_request",
        "UNSUPPORTED_PROTOCOL" | "WRONG_SSL_VERSION" | "UNKNOWN_PROTOCOL" | "WRONG_VERSION_NUMBER" => {
            "unsupported_version"
        }
        "INAPPROPRIATE_FALLBACK" => "inappropriate_fallback",
        "NO_SHARED_CIPHER" | "NO_CIPHERS_SPECIFIED" | "NO_CIPHERS_PASSED" => "no_shared_cipher",
        "NO_SHARED_GROUP" | "WRONG_CURVE" | "NO_P256_SUPPORT" => "no_shared_group",
        "NO_COMMON_SIGNATURE_ALGORITHMS" => "no_shared_signature_algorithm",
        "NO_CERTIFICATE_SET" | "UNKNOWN_CERTIFICATE_TYPE" => "no_certificate",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE" => "no_client_certificate",
        "NO_APPLICATION_PROTOCOL" => "no_application_protocol",
        "CERTIFICATE_VERIFY_FAILED" => "client_certificate_rejected",
        "CONNECTION_REJECTED" => "rejected",
        "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
        | "BAD_DECRYPT"
        | "DECRYPTION_FAILED"
        | "BAD_PACKET_LENGTH"
        | "DIGEST_CHECK_FAILED" => "bad_record",
        "UNEXPECTED_MESSAGE"
        | "UNEXPECTED_RECORD"
        | "APP_DATA_IN_HANDSHAKE"
        | "EXCESS_HANDSHAKE_DATA"
        | "TOO_MANY_EMPTY_FRAGMENTS"
        | "TOO_MANY_WARNING_ALERTS" => "unexpected_message",
        "EXCESSIVE_MESSAGE_SIZE" | "ENCRYPTED_LENGTH_TOO_LONG" | "DATA_LENGTH_TOO_LONG" => "too_long",
        "DECODE_ERROR"
        | "LENGTH_MISMATCH"
        | "CLIENTHELLO_PARSE_FAILED"
        | "CLIENTHELLO_TLSEXT"
        | "PARSE_TLSEXT"
        | "BAD_EXTENSION"
        | "DUPLICATE_EXTENSION"
        | "ERROR_PARSING_EXTENSION"
        | "MISSING_KEY_SHARE"
        | "DUPLICATE_KEY_SHARE"
        | "BAD_ECPOINT"
        | "POINT_IS_NOT_ON_CURVE"
        | "PRE_SHARED_KEY_MUST_BE_LAST"
        | "PSK_IDENTITY_BINDER_COUNT_MISMATCH"
        | "RENEGOTIATION_MISMATCH"
        | "UNKNOWN_ALERT_TYPE"
        | "INVALID_COMPRESSION_LIST"
        | "BAD_HANDSHAKE_RECORD"
        | "BAD_ALERT" => "malformed",
        _ => "other",
    }
}

fn alert_label(number: u8) -> &'static str {
    match number {
        0 => "closed_by_client",
        40 => "alert_handshake_failure",
        42 => "alert_bad_certificate",
        45 => "alert_certificate_expired",
        46 => "alert_certificate_unknown",
        48 => "alert_unknown_ca",
        70 => "alert_protocol_version",
        80 => "alert_internal_error",
        90 => "closed_by_client",
        _ => "alert_other",
    }
}
