//! The configuration of `penstock keyserver`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_tls::ClientCertificates;
use penstock_tls::certificate::Certificate;

use super::{Admin, TokenAccess};
use crate::fault::Fault;

/// The configuration of `penstock keyserver`.
#[derive(Clone, Debug)]
pub struct KeyserverConfig {
    /// Where clients connect.
    pub address: SocketAddr,
    /// The certificate shown to clients.
    pub certificate: Arc<Certificate>,
    /// Rules for the certificates of clients.
    pub client_certificates: ClientCertificates,
    /// Directories with private keys.
    pub directories: Vec<PathBuf>,
    /// Private keys in tokens. There are some of either.
    pub tokens: Vec<Arc<TokenAccess>>,
    /// The clients; no name twice.
    pub clients: Vec<KeyserverClient>,
    /// Threads that sign.
    pub threads: NonZeroUsize,
    /// Whether digests of MD5 and SHA-1 are signed.
    pub legacy_hashes: bool,
    /// The admin listener; `None` if there is none.
    pub admin: Option<Admin>,
    /// The log of operations; `None` if there is none.
    pub access_log: Option<PathBuf>,
    /// How long operations under way may take after a signal to stop.
    pub drain_deadline: Duration,
    /// What an operator should know.
    pub warnings: Vec<Fault>,
}

/// A client of the keyserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyserverClient {
    /// The name in its certificate.
    pub name: String,
    /// The names or identifiers of the keys it may sign with; `None` for all.
    pub keys: Option<BTreeSet<String>>,
    /// Operations it may have under way.
    pub operations: usize,
    /// Operations per second; 0 is no limit.
    pub rate: u32,
    /// Connections it may have.
    pub connections: usize,
}
