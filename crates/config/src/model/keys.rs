//! Private keys that are elsewhere.

use std::sync::Arc;
use std::time::Duration;

use penstock_tls::Authorities;
use penstock_tls::certificate::Certificate;

/// Where a private key is that is not in a file.
#[derive(Clone, Debug)]
pub enum RemoteKeyPlace {
    /// On keyservers.
    Keyserver(Arc<KeyserverAccess>),
}

/// Keyservers with the same keys, and the certificate shown to them.
#[derive(Clone, Debug)]
pub struct KeyserverAccess {
    /// Host and port of each; at least one.
    pub servers: Vec<(String, u16)>,
    /// Authorities of their certificates.
    pub authorities: Authorities,
    /// The certificate shown to them.
    pub certificate: Arc<Certificate>,
    /// Time for a signature.
    pub deadline: Duration,
}

impl KeyserverAccess {
    /// Whether connections of one can be used for the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.servers == other.servers
            && self.authorities == other.authorities
            && self.certificate.fingerprint() == other.certificate.fingerprint()
            && self.deadline == other.deadline
    }
}
