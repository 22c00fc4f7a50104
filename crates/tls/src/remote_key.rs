//! Private keys that are elsewhere: on a keyserver or in a hardware module.
//!
//! A handshake that needs such a key suspends, and waits for the future of [`RemoteKey::sign`]. The worker goes on with
//! other connections.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use boring::bn::BigNum;
use boring::hash::{MessageDigest, hash};
use boring::pkey::{HasPublic, PKey, PKeyRef, Public};
use boring::rsa::{Padding, Rsa};
use boring::sign::{RsaPssSaltlen, Verifier};
use x509_cert::der::Decode;
use x509_cert::spki::SubjectPublicKeyInfoRef;

use crate::signature_kind::SignatureKind;

/// Identifies a key: SHA-1 of the bits of the public key, as in a subject key identifier (RFC 5280 section 4.2.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 20]);

impl KeyId {
    /// The identifier of a key; `None` if the library cannot encode it.
    pub(crate) fn of<T: HasPublic>(key: &PKeyRef<T>) -> Option<Self> {
        let der = key.public_key_to_der().ok()?;
        let parsed = SubjectPublicKeyInfoRef::from_der(&der).ok()?;
        let digest = hash(MessageDigest::sha1(), parsed.subject_public_key.raw_bytes()).ok()?;
        Some(Self(digest.as_ref().try_into().ok()?))
    }

    /// Reads 40 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 40 || !text.is_ascii() {
            return None;
        }
        let mut id = [0; 20];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A public key that checks what a remote key has signed.
#[derive(Clone)]
pub struct PublicKey(PKey<Public>);

impl PublicKey {
    pub(crate) fn new(key: PKey<Public>) -> Self {
        Self(key)
    }

    /// The RSA key of a modulus and an exponent, both in network byte order; `None` if the library refuses them.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let number = |bytes| BigNum::from_slice(bytes).ok();
        let key = Rsa::from_public_components(number(modulus)?, number(exponent)?).ok()?;
        Some(Self(PKey::from_rsa(key).ok()?))
    }

    /// The Ed25519 key of an encoded point (RFC 8032 section 5.1.2); `None` if it has not 32 bytes.
    pub fn ed25519(point: &[u8]) -> Option<Self> {
        // SubjectPublicKeyInfo (RFC 8410 section 4).
        const PREFIX: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
        let point: &[u8; 32] = point.try_into().ok()?;
        Some(Self(PKey::public_key_from_der(&[PREFIX, point].concat()).ok()?))
    }

    /// The identifier of the key; `None` if the library cannot encode it.
    pub fn id(&self) -> Option<KeyId> {
        KeyId::of(&self.0)
    }

    /// Whether this is the signature of the message.
    pub fn verifies(&self, kind: SignatureKind, message: &[u8], signature: &[u8]) -> bool {
        self.verify(kind, message, signature).unwrap_or(false)
    }

    fn verify(&self, kind: SignatureKind, message: &[u8], signature: &[u8]) -> Option<bool> {
        let mut verifier = match kind.hash() {
            Some(hash) => Verifier::new(hash.library()?, &self.0).ok()?,
            None => Verifier::new_without_digest(&self.0).ok()?,
        };
        if matches!(kind, SignatureKind::RsaPss(_)) {
            verifier.set_rsa_padding(Padding::PKCS1_PSS).ok()?;
            verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).ok()?;
        }
        verifier.verify_oneshot(signature, message).ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.0.id()).finish()
    }
}

/// A signature that a handshake needs.
#[derive(Clone, Debug)]
pub struct SignRequest {
    /// The key.
    pub key: KeyId,
    /// Checks the signature. A signature that it refuses must not be returned.
    pub public: PublicKey,
    /// The kind of signature.
    pub kind: SignatureKind,
    /// What is signed; a digest of it goes to the remote key.
    pub message: Vec<u8>,
    /// The server name that the client sent.
    pub server_name: Option<String>,
    /// The client.
    pub client: Option<IpAddr>,
}

/// Why there is no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteKeyError {
    /// No server can be reached, or all were found faulty.
    Unavailable,
    /// No answer came in time.
    TimedOut,
    /// The answer is an error of the protocol; see the keyless protocol, version 1.0.
    Refused(u8),
    /// The signature does not verify.
    WrongSignature,
    /// Too many operations are under way.
    Overloaded,
}

impl RemoteKeyError {
    /// The label of metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Refused(_) => "refused",
            Self::WrongSignature => "wrong_signature",
            Self::Overloaded => "overloaded",
        }
    }
}

impl fmt::Display for RemoteKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable => f.write_str("there is no connection with it"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Refused(code) => write!(f, "refused with error {code}"),
            Self::WrongSignature => f.write_str("the signature does not verify"),
            Self::Overloaded => f.write_str("too many operations are under way"),
        }
    }
}

impl std::error::Error for RemoteKeyError {}

/// A signature that comes later.
pub type LaterSignature = Pin<Box<dyn Future<Output = Result<Vec<u8>, RemoteKeyError>> + Send>>;

/// Signs with private keys that are elsewhere. Called on the workers: it must not block.
pub trait RemoteKey: fmt::Debug + Send + Sync + 'static {
    /// Signs. The future ends within a deadline, and may be dropped before.
    fn sign(&self, request: SignRequest) -> LaterSignature;

    /// Tells that the local key signed because of this error.
    fn used_fallback(&self, error: RemoteKeyError);
}

/// A [`RemoteKey`] and a request to it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteOperation {
    pub(crate) remote: Arc<dyn RemoteKey>,
    pub(crate) request: SignRequest,
    /// Whether a key in memory signs if the remote one fails.
    pub(crate) has_fallback: bool,
}
