//! Private keys that are elsewhere.

use std::sync::Arc;
use std::time::Duration;

use penstock_tls::Authorities;
use penstock_tls::certificate::Certificate;
use penstock_tls::pkcs11_uri::Pkcs11Uri;

/// Where a private key is that is not in a file.
#[derive(Clone, Debug)]
pub enum RemoteKeyPlace {
    /// On keyservers.
    Keyserver(Arc<KeyserverAccess>),
    /// In a token of a hardware module.
    Token(Arc<TokenAccess>),
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

/// A key in a token of a hardware module.
#[derive(Clone, Debug)]
pub struct TokenAccess {
    /// The module, the token and the key, with absolute paths.
    pub uri: Pkcs11Uri,
    /// Time for a signature.
    pub deadline: Duration,
}

impl TokenAccess {
    /// Whether sessions of one can be used for the other, whose key may be another.
    pub fn is_same_token(&self, other: &Self) -> bool {
        let token =
            |access: &Self| (access.uri.module.clone(), access.uri.pin.clone(), access.uri.token.clone());
        token(self) == token(other) && self.deadline == other.deadline
    }
}
