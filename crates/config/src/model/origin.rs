//! Where a site's bytes come from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_http::OriginUrl;
use penstock_sys::traffic::Secret;
use penstock_tls::{Authorities, ClientIdentity};

use super::route::{FixedResponse, Redirect};
use crate::limits;

/// Where a site's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Files below this directory; absolute, and a directory when the configuration was read.
    Directory(PathBuf),
    /// HTTP servers with the same content.
    Http(Box<HttpOrigin>),
    /// Nowhere: a redirect.
    Redirect(Redirect),
    /// Nowhere: the configuration has the response.
    Fixed(FixedResponse),
}

/// HTTP servers with the same content, and how they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOrigin {
    /// The servers: at least one that is no backup, no two the same, backups last.
    pub targets: Vec<OriginServer>,
    /// How one is chosen for each request.
    pub balance: Balance,
    /// What a server is chosen by, before `balance`; `None` for `balance` alone.
    pub spread: Option<SpreadBy>,
    /// The certificate that is shown to servers that ask for one.
    pub identity: Option<ClientIdentity>,
    /// Names of response fields that are removed, in lowercase letters.
    pub hide: Vec<String>,
    /// The bucket, for an S3 origin; `targets` then is its server.
    pub s3: Option<S3>,
    /// The host name in requests; `None` uses each server's own.
    pub host: Option<String>,
    /// Authorities of their certificates; present if one of them uses TLS.
    pub authorities: Option<Authorities>,
    /// How long they may take.
    pub timeouts: OriginTimeouts,
    /// Connections to each of them.
    pub connections: usize,
    /// How old a connection may be that takes another request.
    pub connection_age: Duration,
    /// How often a request that failed is sent once more.
    pub retries: u32,
    /// How many redirections are followed.
    pub follow_redirects: u32,
    /// Servers of DNS that are asked for names; empty for those of the system.
    pub resolvers: Vec<SocketAddr>,
    /// Hosts to which they are followed, beside the servers: `host` for any port, or `host:port`.
    pub redirect_hosts: Vec<String>,
    /// Bytes of a body whose length is not announced.
    pub max_unannounced: u64,
    /// When one is taken out.
    pub health: Health,
    /// Whether the nodes of the cluster share what comes from it.
    pub peers: bool,
    /// Names of the nodes of the cluster through which misses go to it.
    pub shield: Vec<String>,
    /// How responses are relayed without the cache; `None` if they are cached.
    pub uncached: Option<Uncached>,
    /// To what connections may switch; `None` if they may not.
    pub upgrades: Option<Upgrades>,
}

/// Protocols to which a connection may switch (RFC 9110 section 7.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrades {
    /// Their names in lowercase letters; no version of HTTP or TLS.
    pub protocols: Vec<String>,
    /// How long such a connection may have no bytes.
    pub idle: Duration,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginServer {
    /// Where it is.
    pub url: OriginUrl,
    /// Its share of the requests relative to the others; at least 1.
    pub weight: u32,
    /// Whether it is used only while all others are out.
    pub is_backup: bool,
}

/// How a server is chosen for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest requests under way for its weight.
    LeastConnections,
}

/// How a site without cache uses its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncached {
    /// Whether connections begin with a header of the PROXY protocol, version 2.
    pub proxy_protocol: bool,
}

/// The part of a request that chooses its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadBy {
    /// Path and query.
    Url,
    /// The path.
    Path,
    /// The host.
    Host,
}

impl HttpOrigin {
    /// Servers with their weights, and the default of everything else.
    pub fn new(servers: Vec<(OriginUrl, u32)>) -> Self {
        let server = |(url, weight)| OriginServer { url, weight, is_backup: false };
        Self {
            targets: servers.into_iter().map(server).collect(),
            balance: Balance::default(),
            spread: None,
            identity: None,
            hide: Vec::new(),
            s3: None,
            host: None,
            authorities: None,
            timeouts: OriginTimeouts::default(),
            connections: limits::ORIGIN_CONNECTIONS,
            connection_age: Duration::from_secs(limits::ORIGIN_CONNECTION_AGE_SECONDS),
            retries: limits::ORIGIN_RETRIES,
            follow_redirects: 0,
            resolvers: Vec::new(),
            redirect_hosts: Vec::new(),
            max_unannounced: limits::ORIGIN_UNANNOUNCED_BYTES,
            health: Health::default(),
            peers: false,
            shield: Vec::new(),
            uncached: None,
            upgrades: None,
        }
    }
}

/// A bucket of an S3-compatible store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3 {
    /// The store.
    pub endpoint: OriginUrl,
    /// Name of the bucket.
    pub bucket: String,
    /// The region that signatures name.
    pub region: String,
    /// Whether the bucket's name stands in the path.
    pub path_style: bool,
    /// Prefix of every path: empty, or with a slash at its end and none at its start.
    pub prefix: String,
    /// Names the key.
    pub access_key: String,
    /// The key.
    pub secret_key: Arc<Secret>,
}

/// How long servers of an origin may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTimeouts {
    /// To a connection.
    pub connect: Duration,
    /// To the head of a response.
    pub first_byte: Duration,
    /// Between two pieces of it.
    pub between_bytes: Duration,
}

impl Default for OriginTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(limits::ORIGIN_CONNECT_SECONDS),
            first_byte: Duration::from_secs(limits::ORIGIN_FIRST_BYTE_SECONDS),
            between_bytes: Duration::from_secs(limits::ORIGIN_BETWEEN_BYTES_SECONDS),
        }
    }
}

/// When a server is taken out, and when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Failures in a row after which it is out.
    pub unhealthy_after: u32,
    /// Path and query that it is asked for again and again; `None` if it is not.
    pub check: Option<String>,
    /// How often.
    pub interval: Duration,
    /// Good answers in a row after which it is in again.
    pub healthy_after: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            unhealthy_after: limits::ORIGIN_UNHEALTHY_AFTER,
            check: None,
            interval: Duration::from_secs(limits::ORIGIN_CHECK_SECONDS),
            healthy_after: limits::ORIGIN_HEALTHY_AFTER,
        }
    }
}
