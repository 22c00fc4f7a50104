//! The configuration of an HTTP origin.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use penstock_http::OriginUrl;
use penstock_sys::traffic::Secret;
use penstock_tls::{Authorities, ClientIdentity};

/// Configuration of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSettings {
    /// The servers; at least one, at most [`TriedServers::MAX`](super::TriedServers::MAX).
    pub servers: Vec<ServerSettings>,
    /// How a server is chosen for each request.
    pub balance: BalanceBy,
    /// Fields of responses that are removed when they arrive.
    pub hidden_fields: Vec<HeaderName>,
    /// The name in Host and in TLS. Without one, each server is asked by its own name.
    pub host: Option<String>,
    /// The authorities that sign its certificates; needed for `https`.
    pub authorities: Option<Authorities>,
    /// The certificate that its servers are shown if they ask for one.
    pub identity: Option<ClientIdentity>,
    /// The bucket of an S3-compatible store; `servers` then is the one server of the store.
    pub s3: Option<S3Bucket>,
    /// The servers of DNS that are asked for names; empty for those of the system.
    pub resolvers: Arc<[SocketAddr]>,
    /// Hosts to which redirections are followed, beside the servers: `host` for any port, or `host:port`.
    pub redirect_hosts: Vec<String>,
    /// The health check of its servers; `None` if only requests decide.
    pub health_check: Option<HealthCheck>,
    /// Whether each connection begins with a header of the PROXY protocol, version 2.
    pub proxy_protocol: bool,
    /// Bounds in time, bytes and number.
    pub limits: OriginLimits,
}

/// One server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where it is.
    pub url: OriginUrl,
    /// Its share of the requests relative to the others.
    pub weight: u32,
    /// Whether it is asked only when no other server can be.
    pub is_backup: bool,
}

impl ServerSettings {
    /// A server that is asked in its turn.
    pub fn new(url: OriginUrl, weight: u32) -> Self {
        Self { url, weight, is_backup: false }
    }
}

/// How a server is chosen for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalanceBy {
    /// In turn, by weight.
    #[default]
    Turns,
    /// The one with the fewest requests under way, relative to its weight.
    LeastRequests,
}

/// The bounds of talking to origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginLimits {
    /// From the first packet to a connection that requests can be sent on, TLS included.
    pub connect: Duration,
    /// From the request, or the last piece of its body, to the end of the response head.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub between_bytes: Duration,
    /// The least rate of a body.
    pub minimum_rate: MinimumRate,
    /// Bytes of a response head.
    pub head_bytes: usize,
    /// Bytes that one read of a connection may bring; more than a head may have.
    pub read_bytes: usize,
    /// Fields of a response head.
    pub head_fields: usize,
    /// Idle connections that one worker keeps to one server.
    pub idle_connections: usize,
    /// How old a connection may be that takes another request.
    pub connection_age: Duration,
    /// Connections to one server, of all workers together.
    pub connections: usize,
    /// Requests that wait for one of them, of all workers together.
    pub waiting: usize,
    /// Lookups of a server's name under way, of all workers together; at least one.
    pub lookups: usize,
    /// How often a request that failed is sent once more, if that is safe.
    pub retries: u32,
    /// How many redirections are followed; with zero they are ordinary responses.
    pub redirects: u32,
    /// TLS sessions kept of one server.
    pub sessions: usize,
    /// When servers are taken out, and in again.
    pub health: HealthLimits,
}

/// The least rate of a body while a reader waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumRate {
    /// Bytes per second, over each window.
    pub bytes_per_second: u64,
    /// The time that a rate is measured over, and so the shortest time after which a body is too slow.
    pub window: Duration,
}

/// When a server is taken out, and when it is in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthLimits {
    /// Failures in a row, of requests or of health checks, after which a server is out.
    pub unhealthy_after: u32,
    /// Good health checks in a row after which it is in again; used only with health checks.
    pub healthy_after: u32,
    /// How long a server without health checks is out before one request may try it. Doubles with each failure.
    pub backoff: Duration,
    /// The longest such time.
    pub backoff_max: Duration,
    /// Whether servers are checked: then only health checks bring them in again.
    pub checked: bool,
}

/// The request that checks a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query of a GET that a healthy server answers with 2xx or 3xx.
    pub path: String,
    /// From the begin of one check to the begin of the next; also the longest time that one may take.
    pub interval: Duration,
    /// A field of the response that is kept for [`HttpOrigin::take_note`](super::HttpOrigin::take_note).
    pub note: Option<&'static str>,
}

/// A bucket of an S3-compatible store, and the key to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Bucket {
    /// The store; its path stands in front of the bucket's name.
    pub endpoint: OriginUrl,
    /// Name of the bucket.
    pub bucket: String,
    /// The region that signatures name.
    pub region: String,
    /// Whether the bucket's name stands in the path, and not in front of the host name.
    pub path_style: bool,
    /// Stands in front of every path; no slash at its begin, one at its end unless it is empty.
    pub prefix: String,
    /// Names the key.
    pub access_key: String,
    /// The key.
    pub secret_key: Arc<Secret>,
}
