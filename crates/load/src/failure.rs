//! What can go wrong with one operation, named so that it can be counted.

use std::borrow::Cow;
use std::io;

use penstock_tls::alert;

/// Why something failed. Each has its own line in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Nobody listens there.
    ConnectRefused,
    /// TCP was not connected in time.
    ConnectTimeout,
    /// No route to that host or network.
    ConnectUnreachable,
    /// This machine has no free port towards that address: too many connections in too short a time.
    NoLocalPort,
    /// This process may not open more files.
    NoDescriptors,
    /// TCP failed otherwise.
    ConnectFailed,
    /// The handshake was not over in time.
    HandshakeTimeout,
    /// The server ended the connection within the handshake.
    HandshakeClosed,
    /// The server reset the connection within the handshake.
    HandshakeReset,
    /// The server refused the handshake with this alert; in TLS 1.3 this may come in place of the response.
    HandshakeAlert(u8),
    /// The certificate is not to be trusted.
    CertificateRejected,
    /// What the server said in the handshake is no TLS, or breaks its rules.
    HandshakeInvalid,
    /// The connection ended while the request was sent.
    RequestNotSent,
    /// No byte of the response came in time.
    ResponseTimeout,
    /// The server ended the connection before the first byte of its response.
    ClosedBeforeResponse,
    /// The server reset the connection before the first byte of its response.
    ResetBeforeResponse,
    /// The response is not HTTP/1.1.
    ResponseMalformed,
    /// The head of the response is longer than any that makes sense, or never ends.
    HeadTooLarge,
    /// The server ended the connection within the head of its response.
    HeadCut,
    /// The body stopped coming.
    BodyTimeout,
    /// The body is shorter than its head said.
    BodyShort,
    /// The server reset the connection within the body.
    BodyReset,
    /// More bytes came than the head said.
    BodyLong,
    /// A record could not be opened, or the server sent an alert within its response.
    TlsBroken,
    /// The whole response came, but its status is 4xx.
    StatusClient,
    /// The whole response came, but its status is 5xx.
    StatusServer,
    /// A range was asked for and the answer is not 206.
    RangeIgnored,
    /// The body's checksum is not the one expected.
    BodyWrong,
    /// A manifest cannot be read.
    ManifestInvalid,
    /// A file of media has no index that can be used.
    IndexInvalid,
}

impl Failure {
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
            Self::StatusClient => "status_4xx",
            Self::StatusServer => "status_5xx",
            Self::RangeIgnored => "range_ignored",
            Self::BodyWrong => "body_wrong",
            Self::ManifestInvalid => "manifest_invalid",
            Self::IndexInvalid => "index_invalid",
        })
    }

    /// What is wrong with a whole response, by its status.
    pub fn of_status(status: u16) -> Option<Self> {
        match status {
            400..500 => Some(Self::StatusClient),
            500..600 => Some(Self::StatusServer),
            _ => None,
        }
    }

    /// What it means, and what to do about it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ConnectRefused => "nobody listens there: is it the right port, and does the server run?",
            Self::ConnectTimeout => {
                "no answer to a connection in time: a firewall, or a full backlog (--timeout)"
            }
            Self::ConnectUnreachable => "there is no way to that address",
            Self::NoLocalPort => "no port is left towards that address: more --address, or fewer connections",
            Self::NoDescriptors => {
                "this process may open no more files: raise `ulimit -n`, or lower --connections"
            }
            Self::ConnectFailed => "TCP could not be connected",
            Self::HandshakeTimeout => "the handshake was not over in time (--timeout)",
            Self::HandshakeClosed => "the server ended the connection within the handshake",
            Self::HandshakeReset => "the server reset the connection within the handshake",
            Self::HandshakeAlert(number) => alert_meaning(number),
            Self::CertificateRejected => {
                "--ca trusts an authority, --sni names the server, --insecure asks nothing"
            }
            Self::HandshakeInvalid => "the server broke the rules of TLS, or speaks plain HTTP on this port",
            Self::RequestNotSent => "the connection ended while the request was sent",
            Self::ResponseTimeout => "no byte of the response came in time (--timeout)",
            Self::ClosedBeforeResponse => "the server ended the connection instead of answering",
            Self::ResetBeforeResponse => "the server reset the connection instead of answering",
            Self::ResponseMalformed => "the response is not HTTP/1.1: does another protocol live there?",
            Self::HeadTooLarge => "the head of the response has more than 64 KiB, or too many fields",
            Self::HeadCut => "the connection ended within the head of the response",
            Self::BodyTimeout => "the body stopped coming (--timeout)",
            Self::BodyShort => "the connection ended before the end of the body",
            Self::BodyReset => "the server reset the connection within the body",
            Self::BodyLong => "more bytes came than the head of the response said",
            Self::TlsBroken => "a record could not be opened, or an alert came within the response",
            Self::StatusClient => "the server found fault with the request: look at the URL",
            Self::StatusServer => "the server failed",
            Self::RangeIgnored => "a range was asked for, and all of the object came",
            Self::BodyWrong => "the body is not the one it should be",
            Self::ManifestInvalid => "the manifest cannot be read",
            Self::IndexInvalid => "the index of a media file cannot be read",
        }
    }

    /// Whether the connection could not even be opened.
    pub fn is_before_request(self) -> bool {
        self <= Self::HandshakeInvalid
    }

    /// What a failed `connect` means.
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

/// What a server usually means by refusing a handshake with this alert (RFC 8446 §6.2).
fn alert_meaning(number: u8) -> &'static str {
    match number {
        40 => {
            "the server takes nothing of what was offered (--tls, --cipher, --group, --signature-algorithm), or wants a \
             --client-certificate"
        }
        42..=46 | 48 => "the server does not take the client's certificate",
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

/// The server reset the connection, as opposed to ending it.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_named_by_its_word_or_its_number() {
        assert_eq!(Failure::HandshakeAlert(40).name(), "handshake_alert_handshake_failure");
        assert_eq!(Failure::HandshakeAlert(255).name(), "handshake_alert_255");
    }

    #[test]
    fn what_happens_before_the_request_is_told_from_what_happens_after() {
        assert!(Failure::ConnectRefused.is_before_request());
        assert!(Failure::HandshakeInvalid.is_before_request());
        assert!(!Failure::RequestNotSent.is_before_request());
        assert!(!Failure::StatusServer.is_before_request());
    }

    #[test]
    fn a_failed_connect_is_named_by_its_cause() {
        let of = |errno: rustix::io::Errno| Failure::of_connect(&io::Error::from(errno));
        assert_eq!(of(rustix::io::Errno::CONNREFUSED), Failure::ConnectRefused);
        assert_eq!(of(rustix::io::Errno::ADDRNOTAVAIL), Failure::NoLocalPort);
        assert_eq!(of(rustix::io::Errno::MFILE), Failure::NoDescriptors);
        assert_eq!(of(rustix::io::Errno::HOSTUNREACH), Failure::ConnectUnreachable);
    }
}
