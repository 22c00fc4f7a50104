//! Private key operations of a key that is elsewhere: the kind of signature, and the digest that is signed.

use boring::hash::{MessageDigest, hash};
use boring::nid::Nid;
use boring::ssl::SslSignatureAlgorithm;

/// A hash whose output is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// MD5 and SHA-1 one after the other, as TLS 1.0 and 1.1 sign (RFC 4346 section 7.4.3).
    Md5Sha1,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All hashes, the weakest first.
    pub const ALL: [Self; 6] =
        [Self::Md5Sha1, Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Length of a digest in bytes.
    pub fn length(self) -> usize {
        match self {
            Self::Md5Sha1 => 36,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Whether collisions can be computed, so that only clients of TLS 1.0 to 1.2 accept it.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Md5Sha1 | Self::Sha1)
    }

    pub(crate) fn library(self) -> Option<MessageDigest> {
        match self {
            Self::Md5Sha1 => MessageDigest::from_nid(Nid::MD5_SHA1),
            Self::Sha1 => Some(MessageDigest::sha1()),
            Self::Sha224 => Some(MessageDigest::sha224()),
            Self::Sha256 => Some(MessageDigest::sha256()),
            Self::Sha384 => Some(MessageDigest::sha384()),
            Self::Sha512 => Some(MessageDigest::sha512()),
        }
    }
}

/// A kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureKind {
    /// RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2).
    RsaPkcs1(Hash),
    /// RSASSA-PSS with a salt as long as the digest (RFC 8017 section 8.1).
    RsaPss(Hash),
    /// ECDSA, in DER.
    Ecdsa(Hash),
    /// Ed25519 (RFC 8032); the message itself is signed.
    Ed25519,
}

impl SignatureKind {
    /// The hash of what is signed; `None` for Ed25519.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Self::RsaPkcs1(hash) | Self::RsaPss(hash) | Self::Ecdsa(hash) => Some(hash),
            Self::Ed25519 => None,
        }
    }

    /// Its name in the metrics: without the curve, which the signatures of TLS 1.2 do not say.
    pub fn label(self) -> &'static str {
        const RSA_PKCS1: [&str; 6] = [
            "rsa_pkcs1_md5_sha1",
            "rsa_pkcs1_sha1",
            "rsa_pkcs1_sha224",
            "rsa_pkcs1_sha256",
            "rsa_pkcs1_sha384",
            "rsa_pkcs1_sha512",
        ];
        const RSA_PSS: [&str; 6] =
            ["other", "other", "other", "rsa_pss_sha256", "rsa_pss_sha384", "rsa_pss_sha512"];
        const ECDSA: [&str; 6] =
            ["other", "ecdsa_sha1", "other", "ecdsa_sha256", "ecdsa_sha384", "ecdsa_sha512"];
        match self {
            Self::RsaPkcs1(hash) => RSA_PKCS1[hash as usize],
            Self::RsaPss(hash) => RSA_PSS[hash as usize],
            Self::Ecdsa(hash) => ECDSA[hash as usize],
            Self::Ed25519 => "ed25519",
        }
    }

    /// What a signer gets for this message: its digest, for Ed25519 the message. `None` if the library has not the hash.
    pub fn digest(self, message: &[u8]) -> Option<Vec<u8>> {
        match self.hash() {
            Some(kind) => Some(hash(kind.library()?, message).ok()?.to_vec()),
            None => Some(message.to_vec()),
        }
    }

    /// The kind of signature of a scheme of RFC 8446 section 4.2.3.
    pub(crate) fn of(scheme: SslSignatureAlgorithm) -> Option<Self> {
        use SslSignatureAlgorithm as Scheme;
        Some(match scheme {
            Scheme::RSA_PKCS1_MD5_SHA1 => Self::RsaPkcs1(Hash::Md5Sha1),
            Scheme::RSA_PKCS1_SHA1 => Self::RsaPkcs1(Hash::Sha1),
            Scheme::RSA_PKCS1_SHA256 => Self::RsaPkcs1(Hash::Sha256),
            Scheme::RSA_PKCS1_SHA384 => Self::RsaPkcs1(Hash::Sha384),
            Scheme::RSA_PKCS1_SHA512 => Self::RsaPkcs1(Hash::Sha512),
            Scheme::RSA_PSS_RSAE_SHA256 => Self::RsaPss(Hash::Sha256),
            Scheme::RSA_PSS_RSAE_SHA384 => Self::RsaPss(Hash::Sha384),
            Scheme::RSA_PSS_RSAE_SHA512 => Self::RsaPss(Hash::Sha512),
            Scheme::ECDSA_SHA1 => Self::Ecdsa(Hash::Sha1),
            Scheme::ECDSA_SECP256R1_SHA256 => Self::Ecdsa(Hash::Sha256),
            Scheme::ECDSA_SECP384R1_SHA384 => Self::Ecdsa(Hash::Sha384),
            Scheme::ECDSA_SECP521R1_SHA512 => Self::Ecdsa(Hash::Sha512),
            Scheme::ED25519 => Self::Ed25519,
            _ => return None,
        })
    }
}
