//! Other servers of the same cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_tls::certificate::Certificate;
use penstock_tls::{Authorities, ClientCertificates};

use super::Listener;

/// Penstock servers that share their caches.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where the list of the servers comes from.
    pub source: ClusterSource,
    /// Place of this server among the nodes.
    pub own: usize,
    /// All servers, this one included; no name and no address twice. Only this one, if the list comes from elsewhere.
    pub nodes: Vec<ClusterNode>,
    /// Certificates on both sides; `None` is plain HTTP.
    pub tls: Option<ClusterTls>,
    /// Of the memory tier, the part that copies of what others own may have while others need the space, in percent.
    pub copies_percent: u64,
    /// Where this server listens for the others.
    pub listener: Listener,
}

/// Where the list of the servers of a cluster comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// The configuration.
    Listed,
    /// The store of the fleet.
    Fleet,
    /// DNS.
    Dns {
        /// The name whose records are the servers: SRV records if it begins with `_`, addresses otherwise.
        name: String,
        /// The server to ask for SRV records; `None` for those of the system.
        resolver: Option<SocketAddr>,
    },
}

/// A server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name, in lowercase letters.
    pub name: String,
    /// Where the others reach it.
    pub address: SocketAddr,
    /// Its share relative to the others; 0 owns nothing.
    pub weight: u32,
}

/// How nodes prove to each other that they belong to the cluster.
#[derive(Clone, Debug)]
pub struct ClusterTls {
    /// The authorities of nodes that are asked.
    pub authorities: Authorities,
    /// The rules for nodes that ask.
    pub clients: ClientCertificates,
    /// The certificate of this node.
    pub certificate: Arc<Certificate>,
}
