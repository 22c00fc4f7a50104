//! What a run is to do, all of it decided before it begins.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::target::Target;
use crate::workload::Workload;

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to.
    pub target: Target,
    /// The addresses that stand for the target, taken in turn.
    pub addresses: Vec<SocketAddr>,
    /// How TLS is spoken.
    pub tls: Tls,
    /// What is done again and again.
    pub mode: Mode,
    /// What is asked for.
    pub workload: Workload,
    /// Connections at the same time.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// When the run is over, if it has not done everything before.
    pub duration: Option<Duration>,
    /// How many operations to do in all.
    pub operations: Option<u64>,
    /// Operations that begin per second, whatever the server does; else each connection goes on as it can.
    pub rate: Option<f64>,
    /// How long one step (connecting, handshake, waiting for bytes) may take.
    pub timeout: Duration,
    /// Where sessions are kept from one run to the next.
    pub sessions: Option<PathBuf>,
    /// Makes the random choices the same in each run.
    pub seed: u64,
}

/// What one operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A connection, a handshake, perhaps a small request, and the end.
    Handshakes {
        /// Whether a request follows.
        request: bool,
    },
    /// A request.
    Requests,
    /// A body, as fast as it comes or as fast as this, in bits per second.
    Download {
        /// At most so many bits per second and stream.
        bitrate: Option<u64>,
    },
    /// A player from its start to its end.
    Playback(crate::player::Habits),
}

/// How TLS is spoken.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The only version offered; else 1.2 and 1.3.
    pub version: Option<Version>,
    /// Suites by their names, best first.
    pub ciphers: Vec<String>,
    /// Groups by their names, best first.
    pub groups: Vec<String>,
    /// Signature algorithms by their names, best first.
    pub signature_algorithms: Vec<String>,
    /// The server name that is sent and, unless `insecure`, that the certificate must have; `None`: the target's host.
    pub server_name: Option<String>,
    /// ALPN names, best first.
    pub alpn: Vec<String>,
    /// The client's certificate chain and key (PEM).
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Authorities to trust beside the system's (PEM).
    pub authorities: Option<PathBuf>,
    /// Trust every certificate.
    pub insecure: bool,
    /// How handshakes are shortened.
    pub resume: Resume,
    /// Whether tickets are neither asked for nor taken, so that servers keep sessions of TLS 1.2 themselves.
    pub no_tickets: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// How handshakes are shortened, once there is a session to offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Every handshake is a full one.
    #[default]
    None,
    /// By ticket (RFC 5077, RFC 8446 §2.2).
    Ticket,
    /// By session ID, which only TLS 1.2 has.
    Id,
    /// By ticket, and the request goes out with the first flight (RFC 8446 §2.3).
    EarlyData,
}
