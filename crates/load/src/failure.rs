//! The kinds of failures.

use std::borrow::Cow;
use std::io;

use penstock_tls::alert;

/// Why an operation failed. The report has a line for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadFailure {
    /// Nothing is listening at the address.
    ConnectRefused,
    /// TCP was not connected in time.
    ConnectTimeout,
    /// There is no route to the host or network.
    ConnectUnreachable,
    /// This machine has no free port towards the address.
    NoLocalPort,
    /// This process may open no more files.
    NoDescriptors,
    /// TCP failed in another way.
    ConnectFailed,
    /// The handshake did not complete in time.
    HandshakeTimeout,
    /// The server ended the connection during the handshake.
    HandshakeClosed,
    /// The server reset the connection during the handshake.
    HandshakeReset,
    /// The server refused the handshake with this alert. In TLS 1.3 it may arrive instead of the response.
    HandshakeAlert(u8),
    /// The certificate is not trusted.
    CertificateRejected,
    /// The server's handshake violates TLS, or is not TLS.
    HandshakeInvalid,
    /// The server did not choose the protocol of the run by ALPN.
    ProtocolRefused,
    /// The connection ended while the request was sent.
    RequestNotSent,
    /// The head of the response did not arrive in time.
    ResponseTimeout,
    /// The server ended the connection before the first byte of its response.
    ClosedBeforeResponse,
    /// The server reset the connection before the first byte of its response.
    ResetBeforeResponse,
    /// The response is not HTTP/1.1.
    ResponseMalformed,
    /// The head of the response is too long, or has too many fields.
    HeadTooLarge,
    /// The server ended the connection within the head of the response.
    HeadCut,
    /// The body paused for too long.
    BodyTimeout,
    /// The body is shorter than its head said.
    BodyShort,
    /// The server reset the connection within the body.
    BodyReset,
    /// The body is longer than its head said.
    BodyLong,
    /// A record could not be opened, or an alert arrived within the response.
    TlsBroken,
    /// The server reset the stream with this code (RFC 9113 §7, RFC 9114 §8.1).
    StreamReset(u32),
    /// The server ended the connection by GOAWAY with this code, other than NO_ERROR; over QUIC by CONNECTION_CLOSE.
    GoAway(u32),
    /// The server violates HTTP/2.
    Http2Invalid,
    /// The server violates HTTP/3 or QUIC.
    Http3Invalid,
    /// The response is whole, with a status of 4xx.
    StatusClient,
    /// The response is whole, with a status of 5xx.
    StatusServer,
    /// The request had a range, and the status is not 206.
    RangeIgnored,
    /// The body does not have the expected checksum.
    BodyWrong,
    /// A manifest cannot be read, or is too large.
    ManifestInvalid,
    /// A playlist delta update was offered, asked for, and refused with 400.
    DeltaRefused,
    /// A playlist delta update skips segments that the playlist before it did not list.
    DeltaMismatch,
    /// A media file has no usable index.
    IndexInvalid,
    /// A steering manifest cannot be read, or names no pathway of the playlist.
    SteeringInvalid,
}

impl LoadFailure {
    /// The name in reports.
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectUnreachable => "connect_unreachable",
            Self::NoLocalPort => "no_local_port",
            Self::NoDescriptors => "no_descriptors",
            Self::ConnectFailed => "connect_failed",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::HandshakeClosed => "handshake_closed",
            Self::HandshakeReset => "handshake_reset",
            Self::HandshakeAlert(number) => {
                return Cow::Owned(match alert::name(number) {
                    "unknown" => format!("handshake_alert_{number}"),
                    name => format!("handshake_alert_{name}"),
                });
            }
            Self::CertificateRejected => "certificate_rejected",
            Self::HandshakeInvalid => "handshake_invalid",
            Self::ProtocolRefused => "protocol_refused",
            Self::RequestNotSent => "request_not_sent",
            Self::ResponseTimeout => "response_timeout",
            Self::ClosedBeforeResponse => "closed_before_response",
            Self::ResetBeforeResponse => "reset_before_response",
            Self::ResponseMalformed => "response_malformed",
            Self::HeadTooLarge => "head_too_large",
            Self::HeadCut => "head_cut",
            Self::BodyTimeout => "body_timeout",
            Self::BodyShort => "body_short",
            Self::BodyReset => "body_reset",
            Self::BodyLong => "body_long",
            Self::TlsBroken => "tls_broken",
            Self::StreamReset(code) => return Cow::Owned(format!("stream_reset_{}", code_name(code))),
            Self::GoAway(code) => return Cow::Owned(format!("goaway_{}", code_name(code))),
            Self::Http2Invalid => "http2_invalid",
            Self::Http3Invalid => "http3_invalid",
            Self::StatusClient => "status_4xx",
            Self::StatusServer => "status_5xx",
            Self::RangeIgnored => "range_ignored",
            Self::BodyWrong => "body_wrong",
            Self::ManifestInvalid => "manifest_invalid",
            Self::DeltaRefused => "delta_refused",
            Self::DeltaMismatch => "delta_mismatch",
            Self::IndexInvalid => "index_invalid",
            Self::SteeringInvalid => "steering_invalid",
        })
    }

    /// The fault of a whole response, by its status and by whether it answers a request for a delta update.
    pub fn of_status(status: u16, is_delta: bool) -> Option<Self> {
        match status {
            400 if is_delta => Some(Self::DeltaRefused),
            400..500 => Some(Self::StatusClient),
            500..600 => Some(Self::StatusServer),
            _ => None,
        }
    }

    /// The meaning, and a remedy.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ConnectRefused => "nothing is listening there: check the port, and that the server runs",
            Self::ConnectTimeout => {
                "no answer to a connection in time: a firewall, or a full backlog (--timeout)"
            }
            Self::ConnectUnreachable => "no route to that address",
            Self::NoLocalPort => {
                "this machine has no free port towards that address: use more --address, or fewer connections"
            }
            Self::NoDescriptors => "too many open files: raise `ulimit -n`, or lower --connections",
            Self::ConnectFailed => "TCP could not be connected",
            Self::HandshakeTimeout => "the handshake did not complete in time (--timeout)",
            Self::HandshakeClosed => "the server ended the connection during the handshake",
            Self::HandshakeReset => "the server reset the connection during the handshake",
            Self::HandshakeAlert(number) => alert_meaning(number),
            Self::CertificateRejected => {
                "trust its authority with --ca, name the server with --sni, or accept any with --insecure"
            }
            Self::HandshakeInvalid => "the server violates TLS, or speaks plain HTTP on this port",
            Self::ProtocolRefused => "the server did not choose the protocol of --protocol by ALPN",
            Self::RequestNotSent => "the connection ended while the request was sent",
            Self::ResponseTimeout => "the head of the response did not arrive in time (--timeout)",
            Self::ClosedBeforeResponse => "the server ended the connection instead of answering",
            Self::ResetBeforeResponse => "the server reset the connection instead of answering",
            Self::ResponseMalformed => "the response is not HTTP/1.1; is this the port of another protocol?",
            Self::HeadTooLarge => "the head of the response has more than 64 KiB, or too many fields",
            Self::HeadCut => "the connection ended within the head of the response",
            Self::BodyTimeout => "the body paused for too long (--timeout)",
            Self::BodyShort => "the connection ended before the end of the body",
            Self::BodyReset => "the server reset the connection within the body",
            Self::BodyLong => "the body is longer than the head of the response said",
            Self::TlsBroken => "a record could not be opened, or an alert arrived within the response",
            Self::StreamReset(_) => "the server reset the stream instead of completing the response",
            Self::GoAway(_) => {
                "the server ended the connection because of this client's behaviour, or its own fault"
            }
            Self::Http2Invalid => "the server violates HTTP/2",
            Self::Http3Invalid => "the server violates HTTP/3 or QUIC",
            Self::StatusClient => "client error: check the URL",
            Self::StatusServer => "server error",
            Self::RangeIgnored => "the request had a range, and the server sent the whole object",
            Self::BodyWrong => "the body does not have the expected checksum",
            Self::ManifestInvalid => "the manifest cannot be read, or is too large",
            Self::DeltaRefused => "400 to _HLS_skip=YES, though the playlist offers CAN-SKIP-UNTIL",
            Self::DeltaMismatch => "a delta update skips segments that the playlist before it did not list",
            Self::IndexInvalid => "the index of a media file cannot be read",
            Self::SteeringInvalid => {
                "the steering manifest cannot be read, or names no pathway of the playlist"
            }
        }
    }

    /// Whether the connection could not be opened.
    pub fn is_before_request(self) -> bool {
        self <= Self::ProtocolRefused
    }

    /// The kind of a failed `connect`.
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectRefused,
            io::ErrorKind::TimedOut => Self::ConnectTimeout,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::ConnectUnreachable,
            io::ErrorKind::AddrNotAvailable => Self::NoLocalPort,
            _ if is_out_of_descriptors(error) => Self::NoDescriptors,
            _ => Self::ConnectFailed,
        }
    }
}

/// The name of an error code of HTTP/2 (RFC 9113 §7) or HTTP/3 (RFC 9114 §8.1, from 256 on).
fn code_name(code: u32) -> Cow<'static, str> {
    const HTTP3: [&str; 17] = [
        "no_error",
        "general_protocol_error",
        "internal_error",
        "stream_creation_error",
        "closed_critical_stream",
        "frame_unexpected",
        "frame_error",
        "excessive_load",
        "id_error",
        "settings_error",
        "missing_settings",
        "request_rejected",
        "request_cancelled",
        "request_incomplete",
        "message_error",
        "connect_error",
        "version_fallback",
    ];
    const HTTP2: [&str; 14] = [
        "no_error",
        "protocol_error",
        "internal_error",
        "flow_control_error",
        "settings_timeout",
        "stream_closed",
        "frame_size_error",
        "refused_stream",
        "cancel",
        "compression_error",
        "connect_error",
        "enhance_your_calm",
        "inadequate_security",
        "http_1_1_required",
    ];
    let name = usize::try_from(code).ok().and_then(|code| match code.checked_sub(256) {
        Some(code) => HTTP3.get(code),
        None => HTTP2.get(code),
    });
    name.map_or_else(|| Cow::Owned(code.to_string()), |name| Cow::Borrowed(*name))
}

/// The usual meaning of an alert that refuses a handshake (RFC 8446 §6.2).
fn alert_meaning(number: u8) -> &'static str {
    match number {
        40 => {
            "the server accepts nothing of the offer (--tls, --cipher, --group, --signature-algorithm), or wants a \
             --client-certificate"
        }
        42..=46 | 48 => "the server rejects the client's certificate",
        70 => "the server does not speak this version: --tls",
        112 => "the server does not know this name: --sni",
        116 => "the server wants a certificate: --client-certificate with --client-key",
        120 => "the server speaks none of these protocols: --alpn",
        _ => "the server refused the handshake",
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Whether the server reset the connection, as opposed to ending it.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_named_by_its_word_or_its_number() {
        assert_eq!(LoadFailure::HandshakeAlert(40).name(), "handshake_alert_handshake_failure");
        assert_eq!(LoadFailure::HandshakeAlert(255).name(), "handshake_alert_255");
    }

    #[test]
    fn a_code_of_http_2_is_named_by_its_word_or_its_number() {
        assert_eq!(LoadFailure::StreamReset(7).name(), "stream_reset_refused_stream");
        assert_eq!(LoadFailure::GoAway(11).name(), "goaway_enhance_your_calm");
        assert_eq!(LoadFailure::GoAway(14).name(), "goaway_14");
    }

    #[test]
    fn a_code_of_http_3_is_named_by_its_word_or_its_number() {
        assert_eq!(LoadFailure::StreamReset(0x10c).name(), "stream_reset_request_cancelled");
        assert_eq!(LoadFailure::GoAway(0x107).name(), "goaway_excessive_load");
        assert_eq!(LoadFailure::GoAway(0x111).name(), "goaway_273");
    }

    #[test]
    fn failures_before_the_request_are_told_from_later_ones() {
        assert!(LoadFailure::ConnectRefused.is_before_request());
        assert!(LoadFailure::HandshakeInvalid.is_before_request());
        assert!(LoadFailure::ProtocolRefused.is_before_request());
        assert!(!LoadFailure::RequestNotSent.is_before_request());
        assert!(!LoadFailure::StatusServer.is_before_request());
    }

    #[test]
    fn a_failed_connect_is_named_by_its_cause() {
        let of = |errno: rustix::io::Errno| LoadFailure::of_connect(&io::Error::from(errno));
        assert_eq!(of(rustix::io::Errno::CONNREFUSED), LoadFailure::ConnectRefused);
        assert_eq!(of(rustix::io::Errno::ADDRNOTAVAIL), LoadFailure::NoLocalPort);
        assert_eq!(of(rustix::io::Errno::MFILE), LoadFailure::NoDescriptors);
        assert_eq!(of(rustix::io::Errno::HOSTUNREACH), LoadFailure::ConnectUnreachable);
    }
}
