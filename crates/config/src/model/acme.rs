//! Certificates that are ordered from a certificate authority.

use std::path::PathBuf;

use penstock_sys::traffic::Secret;
use penstock_tls::Authorities;

use crate::limits;

/// Certificates ordered from a certificate authority (ACME, RFC 8555).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// URL of the authority's directory; https.
    pub directory: String,
    /// Where the authority may write to; `None` nowhere.
    pub email: Option<String>,
    /// Where accounts, certificates and answers are kept; absolute.
    pub storage: PathBuf,
    /// Whether account, certificates and answers are also in the store of the fleet.
    pub shared: bool,
    /// How the authority is shown that a name leads here.
    pub challenge: AcmeChallenge,
    /// The kind of private keys.
    pub key: AcmeKey,
    /// The profile of the certificates; `None` leaves it to the authority.
    pub profile: Option<String>,
    /// Who signs the certificate of the authority's own server.
    pub authorities: Authorities,
    /// The account elsewhere that a new account belongs to (RFC 8555 section 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The names that need a certificate: those of the sites that no configured certificate covers.
    pub names: Vec<String>,
}

/// How the authority is shown that a name leads here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a response on port 80.
    Http01,
    /// By a handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// By a TXT record, which this command sets and removes.
    Dns01(PathBuf),
}

impl AcmeChallenge {
    /// Its name in the registry.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01(_) => "dns-01",
        }
    }
}

/// The kind of private keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeKey {
    /// ECDSA on P-256.
    #[default]
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
}

/// An account that the authority has made another way.
#[derive(Clone, Debug)]
pub struct ExternalAccount {
    /// Its identifier.
    pub id: String,
    /// Its key.
    pub key: Secret,
}

impl PartialEq for ExternalAccount {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.key.expose() == other.key.expose()
    }
}

impl Eq for ExternalAccount {}

impl Acme {
    /// The name of the authority in paths: its URL with plain characters.
    pub fn label(&self) -> String {
        let url = self.directory.strip_prefix("https://").unwrap_or(&self.directory);
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
        let plain = url.chars().map(|letter| if plain(letter) { letter } else { '_' });
        plain.take(limits::ACME_LABEL_CHARACTERS).collect::<String>().replace("..", "__")
    }

    /// The directory of the authority's certificates.
    pub fn certificates(&self) -> PathBuf {
        self.storage.join("certificates").join(self.label())
    }

    /// The file with the certificate of a name and its key.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.certificates().join(format!("{}.pem", name.replace('*', "_")))
    }

    /// The file about the last failed order of a name.
    pub fn failure(&self, name: &str) -> PathBuf {
        self.storage.join("failures").join(self.label()).join(name.replace('*', "_"))
    }

    /// The directory of answers to challenges.
    pub fn challenges(&self) -> PathBuf {
        self.storage.join("challenges")
    }

    /// The file with the answer to a challenge on port 80; `None` if that cannot be a token (RFC 8555 section 8.3).
    pub fn http_answer(&self, token: &str) -> Option<PathBuf> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_valid = (1..=limits::ACME_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(is_token);
        is_valid.then(|| self.challenges().join(token))
    }

    /// The file with the certificate that answers a challenge on port 443.
    pub fn tls_answer(&self, name: &str) -> PathBuf {
        self.challenges().join(format!("{name}.pem"))
    }
}
