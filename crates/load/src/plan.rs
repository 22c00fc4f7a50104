//! The plan of a run, complete before the run starts.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::player::config::PlayerConfig;
use crate::target::TargetUrl;
use crate::workload::Workload;

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The URL to load.
    pub target: TargetUrl,
    /// The addresses of the server, used in turn.
    pub addresses: Vec<SocketAddr>,
    /// The options of TLS.
    pub tls: TlsPlan,
    /// The protocol of requests.
    pub protocol: HttpProtocol,
    /// The kind of operations.
    pub mode: LoadMode,
    /// The requests.
    pub workload: Workload,
    /// Concurrent connections.
    pub connections: usize,
    /// Threads, which share the connections.
    pub threads: usize,
    /// The time after which no operation starts.
    pub duration: Option<Duration>,
    /// The number of operations in all.
    pub operations: Option<u64>,
    /// Operations that start per second (open loop); `None` starts one as soon as a connection is free (closed loop).
    pub rate: Option<f64>,
    /// How long connecting, a handshake, a response head, or a pause in a body may take.
    pub timeout: Duration,
    /// The file that keeps sessions from one run to the next.
    pub sessions: Option<PathBuf>,
    /// How connections end.
    pub ending: ConnectionEnding,
    /// The seed of random choices.
    pub seed: u64,
}

/// The protocol of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpProtocol {
    /// HTTP/1.1 (RFC 9112).
    Http1,
    /// HTTP/2 (RFC 9113), over TLS by ALPN, otherwise by prior knowledge.
    Http2 {
        /// Requests under way on each connection.
        streams: NonZeroUsize,
    },
    /// HTTP/3 (RFC 9114) over QUIC, without asking over TCP before.
    Http3 {
        /// Requests under way on each connection.
        streams: NonZeroUsize,
        /// The most packets for which one acknowledgement is sent. `None` for all that were received together.
        ack_every: Option<NonZeroUsize>,
    },
}

impl HttpProtocol {
    /// The name in ALPN (RFC 7301 §6).
    pub fn alpn(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 { .. } => "h2",
            Self::Http3 { .. } => "h3",
        }
    }

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 { .. } => "h2",
            Self::Http3 { .. } => "h3",
        }
    }

    /// Requests under way on each connection.
    pub fn streams(self) -> usize {
        match self {
            Self::Http1 => 1,
            Self::Http2 { streams } | Self::Http3 { streams, .. } => streams.get(),
        }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMode {
    /// Connect, handshake, optionally a small request, end.
    Handshakes {
        /// Whether a request follows the handshake.
        request: bool,
    },
    /// A request.
    Requests,
    /// A body, at full speed or at a bitrate.
    Download {
        /// The most bits per second of a connection.
        bitrate: Option<u64>,
    },
    /// A player from its arrival to its departure.
    Playback(PlayerConfig),
}

/// The options of TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsPlan {
    /// The only version that is offered; `None` offers 1.2 and 1.3.
    pub version: Option<OfferedVersion>,
    /// Names of cipher suites, best first.
    pub ciphers: Vec<String>,
    /// Names of groups, best first.
    pub groups: Vec<String>,
    /// Names of signature algorithms, best first.
    pub signature_algorithms: Vec<String>,
    /// The server name that is sent and, unless `insecure`, verified; `None` is the host of the URL.
    pub server_name: Option<String>,
    /// ALPN protocols, best first.
    pub alpn: Vec<String>,
    /// The client's certificate chain and key (PEM).
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Authorities that are trusted beside the system's (PEM).
    pub authorities: Option<PathBuf>,
    /// Trusts every certificate.
    pub insecure: bool,
    /// How sessions are resumed.
    pub resume: Resume,
    /// Requests no tickets, so that servers keep sessions of TLS 1.2 themselves.
    pub no_tickets: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferedVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// How the generator ends a connection. The two cost a server differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionEnding {
    /// By close_notify (over TLS) and FIN, then reading until the server ends its side. Over QUIC by CONNECTION_CLOSE.
    #[default]
    CloseNotify,
    /// By RST, without close_notify. Over QUIC without a word.
    Reset,
}

impl ConnectionEnding {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloseNotify => "close-notify",
            Self::Reset => "reset",
        }
    }
}

/// How sessions are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Not at all: every handshake is full.
    #[default]
    None,
    /// By ticket (RFC 5077, RFC 8446 §2.2).
    Ticket,
    /// By session ID (TLS 1.2 only).
    Id,
    /// By ticket, with the request in the first flight (RFC 8446 §2.3).
    EarlyData,
}
