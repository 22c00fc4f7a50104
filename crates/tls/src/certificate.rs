//! A certificate chain with its private key, proven to belong together.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{HasPublic, Id, PKey, PKeyRef, Private, Public};
use boring::ssl::SslContextBuilder;
use boring::x509::X509;
use penstock_sys::small_file;
use penstock_sys::ssl::moment;

use crate::remote_key::{KeyId, PublicKey, RemoteKey};

/// Bytes of a file with a chain or a key.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A leaf certificate, the intermediates to send with it, and the key that signs for it.
///
/// The key matches the leaf: the constructors check it.
pub struct Certificate {
    leaf: X509,
    intermediates: Vec<X509>,
    /// The issuer of the leaf, if the chain contains it; it may be a root, which is not sent.
    issuer: Option<X509>,
    key: CertificateKey,
    summary: Arc<Summary>,
}

/// Where the private key of a certificate is.
#[derive(Clone)]
pub(crate) enum CertificateKey {
    /// In memory.
    Local(PKey<Private>),
    /// On a keyserver or in a hardware module.
    Elsewhere {
        /// Signs; `None` until it is attached.
        remote: Option<Arc<dyn RemoteKey>>,
        id: KeyId,
        public: PublicKey,
        /// Signs if the remote one fails.
        fallback: Option<PKey<Private>>,
    },
}

/// The facts of a leaf certificate: its names, kind of key and validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    names: Vec<String>,
    algorithm: Algorithm,
    not_before: Option<SystemTime>,
    not_after: Option<SystemTime>,
}

impl Summary {
    /// Reads the first certificate of a PEM chain.
    ///
    /// # Errors
    /// The fault of the chain; see [`CertificateError`].
    pub fn from_pem(chain_pem: &[u8]) -> Result<Self, CertificateError> {
        if !chain_pem.windows(BEGIN_CERTIFICATE.len()).any(|window| window == BEGIN_CERTIFICATE) {
            return Err(CertificateError::ChainEmpty);
        }
        Self::of(&X509::from_pem(chain_pem).map_err(|error| malformed_chain(&error))?)
    }

    fn of(leaf: &X509) -> Result<Self, CertificateError> {
        let public = leaf.public_key().map_err(|error| malformed_chain(&error))?;
        let algorithm = Algorithm::of(&public).ok_or(CertificateError::KeyUnsupported)?;
        let (not_before, not_after) = (moment(leaf.not_before()), moment(leaf.not_after()));
        Ok(Self { names: names_of(leaf), algorithm, not_before, not_after })
    }

    /// DNS names it is valid for, in lower case, wildcards as `*.example.com`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of its key.
    pub fn kind(&self) -> KeyKind {
        self.algorithm.kind()
    }

    /// The end of its validity; `None` if the date cannot be represented.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.not_after
    }

    /// From when on it should have been renewed: `margin` before its end, but not before the last sixth of its validity, as renewals come
    /// at two thirds of that. `None` if the end cannot be represented.
    pub fn late_from(&self, margin: Duration) -> Option<SystemTime> {
        /// The part of the validity.
        const PART: u32 = 6;
        let end = self.not_after?;
        let life = self.not_before.and_then(|begin| end.duration_since(begin).ok());
        end.checked_sub(life.map_or(margin, |life| margin.min(life / PART)))
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// What the renewal of a leaf certificate depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalFacts {
    /// Names and end of validity.
    pub summary: Summary,
    /// The beginning of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
    /// The key identifier of its issuer, and its serial number as the content of a DER integer (RFC 9773 section 4.1); `None`
    /// if it names no issuer's key.
    pub identifier: Option<(Vec<u8>, Vec<u8>)>,
}

impl RenewalFacts {
    /// Reads the first certificate of a PEM chain.
    ///
    /// # Errors
    /// The fault of the chain; see [`CertificateError`]. A date before 1970 is one.
    pub fn from_pem(chain_pem: &[u8]) -> Result<Self, CertificateError> {
        let summary = Summary::from_pem(chain_pem)?;
        let leaf = X509::from_pem(chain_pem).map_err(|error| malformed_chain(&error))?;
        let date = || CertificateError::ChainMalformed { detail: "a date is before 1970".to_owned() };
        let not_before = moment(leaf.not_before()).ok_or_else(date)?;
        let not_after = summary.not_after().ok_or_else(date)?;
        let serial = leaf.serial_number().to_bn().map_err(|error| malformed_chain(&error))?.to_vec();
        let serial = match serial.first() {
            // A positive integer in DER begins with a zero bit.
            None | Some(0x80..) => [vec![0], serial].concat(),
            Some(_) => serial,
        };
        let issuer = leaf.authority_key_id().map(|issuer| issuer.as_slice().to_vec());
        Ok(Self { summary, not_before, not_after, identifier: issuer.map(|issuer| (issuer, serial)) })
    }
}

const BEGIN_CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The kind of private key with its curve, the cheapest to sign with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    P256,
    Ed25519,
    P384,
    P521,
    Rsa,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::P256, Self::Ed25519, Self::P384, Self::P521, Self::Rsa];

    /// `None` for keys that no TLS handshake can be signed with.
    pub(crate) fn of<T: HasPublic>(key: &PKeyRef<T>) -> Option<Self> {
        match key.id() {
            Id::RSA => Some(Self::Rsa),
            Id::ED25519 => Some(Self::Ed25519),
            Id::EC => match key.ec_key().ok()?.group().curve_name()? {
                Nid::X9_62_PRIME256V1 => Some(Self::P256),
                Nid::SECP384R1 => Some(Self::P384),
                Nid::SECP521R1 => Some(Self::P521),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> KeyKind {
        match self {
            Self::P256 | Self::P384 | Self::P521 => KeyKind::Ecdsa,
            Self::Rsa => KeyKind::Rsa,
            Self::Ed25519 => KeyKind::Other,
        }
    }
}

/// The kind of private key, which determines the cost of a full handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Elliptic curve keys: cheap for the server.
    Ecdsa,
    /// RSA keys: about ten times the signing cost of ECDSA P-256, but every client supports them.
    Rsa,
    /// Anything else the library can sign with, such as Ed25519.
    Other,
}

impl KeyKind {
    /// The word used in metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ecdsa => "ecdsa",
            Self::Rsa => "rsa",
            Self::Other => "other",
        }
    }
}

impl Certificate {
    /// Reads a PEM chain (leaf first) and its PEM key.
    ///
    /// # Errors
    /// The fault and its file; see [`CertificateError`].
    pub fn load(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let chain_pem = small_file::read(chain, PEM_BYTES_MAX).map_err(|error| {
            CertificateError::ChainUnreadable { path: chain.to_owned(), source: error.into() }
        })?;
        let key_pem = small_file::read(key, PEM_BYTES_MAX).map_err(|error| {
            CertificateError::KeyUnreadable { path: key.to_owned(), source: error.into() }
        })?;
        Self::from_pem(&chain_pem, &key_pem)
    }

    /// Reads both from memory.
    ///
    /// # Errors
    /// See [`CertificateError`]; never one of the two about unreadable files.
    pub fn from_pem(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, CertificateError> {
        Self::with_key(chain_pem, |public| Ok(CertificateKey::Local(private_key(key_pem, &public)?)))
    }

    /// Reads a chain whose private key is elsewhere. `fallback_pem` is a copy of the key in memory, for the time in which
    /// the remote one fails. The certificate signs after [`Self::with_remote`] only.
    ///
    /// # Errors
    /// See [`CertificateError`]; never one of the two about unreadable files.
    pub fn without_key(chain_pem: &[u8], fallback_pem: Option<&[u8]>) -> Result<Self, CertificateError> {
        Self::with_key(chain_pem, |public| {
            let fallback = fallback_pem.map(|pem| private_key(pem, &public)).transpose()?;
            let id = KeyId::of(&public).ok_or(CertificateError::KeyUnsupported)?;
            let public = PublicKey::new(public);
            Ok(CertificateKey::Elsewhere { remote: None, id, public, fallback })
        })
    }

    /// The same certificate, with signatures from `remote` if its key is elsewhere.
    #[must_use]
    pub fn with_remote(&self, remote: Arc<dyn RemoteKey>) -> Self {
        let key = match &self.key {
            CertificateKey::Local(key) => CertificateKey::Local(key.clone()),
            CertificateKey::Elsewhere { id, public, fallback, .. } => CertificateKey::Elsewhere {
                remote: Some(remote),
                id: *id,
                public: public.clone(),
                fallback: fallback.clone(),
            },
        };
        Self {
            leaf: self.leaf.clone(),
            intermediates: self.intermediates.clone(),
            issuer: self.issuer.clone(),
            key,
            summary: Arc::clone(&self.summary),
        }
    }

    fn with_key(
        chain_pem: &[u8],
        key: impl FnOnce(PKey<Public>) -> Result<CertificateKey, CertificateError>,
    ) -> Result<Self, CertificateError> {
        let mut chain = X509::stack_from_pem(chain_pem).map_err(|error| malformed_chain(&error))?.into_iter();
        let leaf = chain.next().ok_or(CertificateError::ChainEmpty)?;
        let key = key(leaf.public_key().map_err(|error| malformed_chain(&error))?)?;
        let issuer = chain.clone().find(|one| one.issued(&leaf).is_ok());
        // Clients have the root already, and it costs bytes of the first flight.
        let intermediates = chain.filter(|certificate| !is_self_issued(certificate)).collect();
        let summary = Arc::new(Summary::of(&leaf)?);
        Ok(Self { leaf, intermediates, issuer, key, summary })
    }

    /// The summary of its leaf.
    pub fn summary(&self) -> &Arc<Summary> {
        &self.summary
    }

    /// DNS names the leaf is valid for, in lower case, wildcards as `*.example.com`.
    pub fn names(&self) -> &[String] {
        self.summary.names()
    }

    /// The kind of its key.
    pub fn kind(&self) -> KeyKind {
        self.summary.kind()
    }

    /// The end of its validity; `None` if the date cannot be represented.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.summary.not_after()
    }

    pub(crate) fn leaf(&self) -> &X509 {
        &self.leaf
    }

    /// The SHA-256 digest of the leaf; zeros without memory.
    pub fn fingerprint(&self) -> [u8; 32] {
        let digest = self.leaf.digest(MessageDigest::sha256());
        digest.ok().and_then(|digest| digest.as_ref().try_into().ok()).unwrap_or_default()
    }

    /// The certificate that signed the leaf, if the chain contains it.
    pub(crate) fn issuer(&self) -> Option<&X509> {
        self.issuer.as_ref()
    }

    pub(crate) fn intermediates(&self) -> &[X509] {
        &self.intermediates
    }

    pub(crate) fn key(&self) -> &CertificateKey {
        &self.key
    }

    /// Has a context show the chain and sign with the key in memory.
    ///
    /// # Errors
    /// The error of the library; an empty one if the key is elsewhere.
    pub(crate) fn show(&self, context: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let CertificateKey::Local(key) = &self.key else { return Err(ErrorStack::get()) };
        context.set_certificate(&self.leaf)?;
        for intermediate in &self.intermediates {
            context.add_extra_chain_cert(intermediate.clone())?;
        }
        context.set_private_key(key)
    }

    /// The identifier of its key; `None` if the library cannot encode it.
    pub fn key_id(&self) -> Option<KeyId> {
        KeyId::of(&*self.leaf.public_key().ok()?)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log by construction.
        f.debug_struct("Certificate").field("summary", &self.summary).finish_non_exhaustive()
    }
}

/// A certificate of a chain without its issuer right behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFault {
    /// The issuer of this certificate, counted from 1, is elsewhere in the chain.
    Misplaced(usize),
    /// The certificate behind this one, counted from 1, did not issue it, and no other of the chain did.
    Unrelated(usize),
}

/// The first certificate of a PEM chain that is not followed by its issuer (RFC 5246 section 7.4.2). The issuer of the last
/// one need not be there. `None` if there is no such certificate, or if the chain cannot be read.
pub fn chain_fault(chain_pem: &[u8]) -> Option<ChainFault> {
    let chain = X509::stack_from_pem(chain_pem).ok()?;
    let place = chain.windows(2).position(|pair| pair[1].issued(&pair[0]).is_err())?;
    let has_issuer = chain.iter().any(|one| one.issued(&chain[place]).is_ok());
    Some(if has_issuer { ChainFault::Misplaced(place + 1) } else { ChainFault::Unrelated(place + 1) })
}

fn private_key(pem: &[u8], public: &PKey<Public>) -> Result<PKey<Private>, CertificateError> {
    let key = PKey::private_key_from_pem(pem)
        .map_err(|error| CertificateError::KeyMalformed { detail: error.to_string() })?;
    if public.public_eq(&key) { Ok(key) } else { Err(CertificateError::KeyMismatch) }
}

fn is_self_issued(certificate: &X509) -> bool {
    let (Ok(issuer), Ok(subject)) = (certificate.issuer_name().to_der(), certificate.subject_name().to_der())
    else {
        return false;
    };
    issuer == subject
}

fn malformed_chain(error: &ErrorStack) -> CertificateError {
    CertificateError::ChainMalformed { detail: error.to_string() }
}

fn names_of(leaf: &X509) -> Vec<String> {
    let mut names: Vec<String> = leaf
        .subject_alt_names()
        .into_iter()
        .flatten()
        .filter_map(|name| name.dnsname().map(str::to_ascii_lowercase))
        .collect();
    if names.is_empty() {
        // Certificates older than RFC 6125 carry their only name in the subject.
        let common = leaf.subject_name().entries_by_nid(Nid::COMMONNAME);
        names.extend(common.filter_map(|entry| {
            entry.data().as_utf8().ok().map(|name| name.to_string().to_ascii_lowercase())
        }));
    }
    names
}

/// Why a certificate cannot be used.
#[derive(Debug)]
pub enum CertificateError {
    /// The chain file could not be read.
    ChainUnreadable {
        /// The file named in the configuration.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The key file could not be read.
    KeyUnreadable {
        /// The file named in the configuration.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The chain is not PEM certificates.
    ChainMalformed {
        /// The error of the parser.
        detail: String,
    },
    /// The key is not an unencrypted PEM private key.
    KeyMalformed {
        /// The error of the parser.
        detail: String,
    },
    /// The chain holds no certificate.
    ChainEmpty,
    /// The key does not belong to the first certificate of the chain.
    KeyMismatch,
    /// No TLS handshake can be signed with this kind of key.
    KeyUnsupported,
}

impl CertificateError {
    /// The word used in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::ChainUnreadable { .. } | Self::KeyUnreadable { .. } => "unreadable",
            Self::ChainMalformed { .. } | Self::ChainEmpty => "no_certificate",
            Self::KeyMalformed { .. } => "no_key",
            Self::KeyMismatch => "key_mismatch",
            Self::KeyUnsupported => "key_unsupported",
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChainUnreadable { path, source } => {
                write!(f, "cannot read the certificate chain {}: {source}", path.display())
            }
            Self::KeyUnreadable { path, source } => {
                write!(f, "cannot read the private key {}: {source}", path.display())
            }
            Self::ChainMalformed { detail } => {
                write!(f, "the certificate chain is not valid PEM ({detail})")
            }
            Self::KeyMalformed { detail } => {
                write!(f, "the private key is not an unencrypted PEM key ({detail})")
            }
            Self::ChainEmpty => write!(f, "the certificate chain holds no certificate"),
            Self::KeyMismatch => {
                write!(f, "the private key does not belong to the first certificate of the chain")
            }
            Self::KeyUnsupported => write!(f, "the key is neither RSA nor P-256, P-384, P-521 or Ed25519"),
        }
    }
}

impl std::error::Error for CertificateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ChainUnreadable { source, .. } | Self::KeyUnreadable { source, .. } => Some(source),
            Self::ChainMalformed { .. }
            | Self::KeyMalformed { .. }
            | Self::ChainEmpty
            | Self::KeyMismatch
            | Self::KeyUnsupported => None,
        }
    }
}
