//! Signs digests with a private key in memory: the work of a keyserver, which never sees the message.
//!
//! AWS-LC signs where it can, because it is faster and runs in constant time; BoringSSL signs the rest. Raw RSA and
//! decryption are not offered: an answer to a number that a client chose could serve as an oracle.

use std::fmt;

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, RsaEncoding,
};
use boring::ecdsa::EcdsaSig;
use boring::pkey::{PKey, Private};
use boring::rsa::Padding;
use boring::sign::Signer;
use zeroize::Zeroizing;

use crate::certificate::{Algorithm, CertificateError, KeyKind};
use crate::remote_key::KeyId;
use crate::signature_kind::{Hash, SignatureKind};

/// A private key that signs digests. Its debug form shows the kind of key only.
pub struct DigestSigner {
    key: PKey<Private>,
    algorithm: Algorithm,
    id: KeyId,
    rsa: Option<KeyPair>,
    ecdsa: Option<EcdsaKeyPair>,
}

/// Why a digest is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestError {
    /// The key cannot make this kind of signature.
    WrongKind,
    /// The digest has not the length of its hash.
    WrongLength,
    /// The library failed.
    Library,
}

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongKind => "the key cannot make this kind of signature",
            Self::WrongLength => "the digest has not the length of its hash",
            Self::Library => "the library cannot sign",
        })
    }
}

impl std::error::Error for DigestError {}

/// A message that Ed25519 signs may have this many bytes; handshakes sign less than 200.
const ED25519_MESSAGE_BYTES: usize = 4096;

/// The smallest RSA key, in bits.
const RSA_BITS_MIN: u32 = 2048;

impl DigestSigner {
    /// Reads an unencrypted private key in PEM: RSA from 2,048 bits, P-256, P-384, P-521 or Ed25519.
    ///
    /// # Errors
    /// [`CertificateError::KeyMalformed`] or [`CertificateError::KeyUnsupported`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        let key = PKey::private_key_from_pem(pem)
            .map_err(|error| CertificateError::KeyMalformed { detail: error.to_string() })?;
        let algorithm = Algorithm::of(&key).ok_or(CertificateError::KeyUnsupported)?;
        if algorithm == Algorithm::Rsa && key.bits() < RSA_BITS_MIN {
            return Err(CertificateError::KeyUnsupported);
        }
        let id = KeyId::of(&key).ok_or(CertificateError::KeyUnsupported)?;
        let rsa = if algorithm == Algorithm::Rsa { rsa_of(&key) } else { None };
        let ecdsa = ecdsa_of(&key, algorithm);
        Ok(Self { key, algorithm, id, rsa, ecdsa })
    }

    /// The identifier of the public key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.algorithm.kind()
    }

    /// Signs a digest; for Ed25519 a message of at most 4,096 bytes.
    ///
    /// # Errors
    /// See [`DigestError`].
    pub fn sign(&self, kind: SignatureKind, digest: &[u8]) -> Result<Vec<u8>, DigestError> {
        let fits =
            kind.hash().map_or(digest.len() <= ED25519_MESSAGE_BYTES, |hash| hash.length() == digest.len());
        if !fits {
            return Err(DigestError::WrongLength);
        }
        match (kind, self.algorithm) {
            (SignatureKind::RsaPkcs1(hash), Algorithm::Rsa) => self.pkcs1(hash, digest),
            (SignatureKind::RsaPss(hash), Algorithm::Rsa) => self.pss(hash, digest),
            (SignatureKind::Ecdsa(hash), Algorithm::P256 | Algorithm::P384 | Algorithm::P521) => {
                self.ecdsa(hash, digest)
            }
            (SignatureKind::Ed25519, Algorithm::Ed25519) => self.ed25519(digest),
            _ => Err(DigestError::WrongKind),
        }
    }

    fn pkcs1(&self, hash: Hash, digest: &[u8]) -> Result<Vec<u8>, DigestError> {
        let encoding: Option<&'static dyn RsaEncoding> = match hash {
            Hash::Sha256 => Some(&signature::RSA_PKCS1_SHA256),
            Hash::Sha384 => Some(&signature::RSA_PKCS1_SHA384),
            Hash::Sha512 => Some(&signature::RSA_PKCS1_SHA512),
            Hash::Md5Sha1 | Hash::Sha1 | Hash::Sha224 => None,
        };
        if let (Some(key), Some(encoding)) = (&self.rsa, encoding) {
            return sign_rsa(key, encoding, hash, digest);
        }
        let rsa = self.key.rsa().map_err(|_| DigestError::Library)?;
        let mut output = vec![0; self.key.size()];
        let info = [digest_info(hash), digest].concat();
        let length =
            rsa.private_encrypt(&info, &mut output, Padding::PKCS1).map_err(|_| DigestError::Library)?;
        output.truncate(length);
        Ok(output)
    }

    fn pss(&self, hash: Hash, digest: &[u8]) -> Result<Vec<u8>, DigestError> {
        let encoding: &'static dyn RsaEncoding = match hash {
            Hash::Sha256 => &signature::RSA_PSS_SHA256,
            Hash::Sha384 => &signature::RSA_PSS_SHA384,
            Hash::Sha512 => &signature::RSA_PSS_SHA512,
            Hash::Md5Sha1 | Hash::Sha1 | Hash::Sha224 => return Err(DigestError::WrongKind),
        };
        // AWS-LC takes every size that this type takes, up to 8,192 bits.
        sign_rsa(self.rsa.as_ref().ok_or(DigestError::WrongKind)?, encoding, hash, digest)
    }

    fn ecdsa(&self, hash: Hash, digest: &[u8]) -> Result<Vec<u8>, DigestError> {
        let own = matches!(
            (hash, self.algorithm),
            (Hash::Sha256, Algorithm::P256)
                | (Hash::Sha384, Algorithm::P384)
                | (Hash::Sha512, Algorithm::P521)
        );
        if let (Some(key), true) = (&self.ecdsa, own) {
            let digest = import(hash, digest)?;
            return Ok(key.sign_digest(&digest).map_err(|_| DigestError::Library)?.as_ref().to_vec());
        }
        let key = self.key.ec_key().map_err(|_| DigestError::Library)?;
        EcdsaSig::sign(digest, &key)
            .and_then(|signature| signature.to_der())
            .map_err(|_| DigestError::Library)
    }

    fn ed25519(&self, message: &[u8]) -> Result<Vec<u8>, DigestError> {
        let mut signer = Signer::new_without_digest(&self.key).map_err(|_| DigestError::Library)?;
        signer.sign_oneshot_to_vec(message).map_err(|_| DigestError::Library)
    }
}

impl fmt::Debug for DigestSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestSigner").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn rsa_of(key: &PKey<Private>) -> Option<KeyPair> {
    let der = Zeroizing::new(key.rsa().ok()?.private_key_to_der().ok()?);
    KeyPair::from_der(&der).ok()
}

fn ecdsa_of(key: &PKey<Private>, algorithm: Algorithm) -> Option<EcdsaKeyPair> {
    let curve = match algorithm {
        Algorithm::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
        Algorithm::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        Algorithm::P521 => &ECDSA_P521_SHA512_ASN1_SIGNING,
        Algorithm::Ed25519 | Algorithm::Rsa => return None,
    };
    let der = Zeroizing::new(key.private_key_to_der_pkcs8().ok()?);
    EcdsaKeyPair::from_pkcs8(curve, &der).ok()
}

fn sign_rsa(
    key: &KeyPair,
    encoding: &'static dyn RsaEncoding,
    hash: Hash,
    digest: &[u8],
) -> Result<Vec<u8>, DigestError> {
    let digest = import(hash, digest)?;
    let mut output = vec![0; key.public_modulus_len()];
    key.sign_digest(encoding, &digest, &mut output).map_err(|_| DigestError::Library)?;
    Ok(output)
}

fn import(hash: Hash, bytes: &[u8]) -> Result<Digest, DigestError> {
    let algorithm = match hash {
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
        Hash::Md5Sha1 | Hash::Sha1 | Hash::Sha224 => return Err(DigestError::WrongKind),
    };
    Digest::import_less_safe(bytes, algorithm).map_err(|_| DigestError::WrongLength)
}

/// What stands before a digest in a signature of PKCS #1 (RFC 8017 section 9.2, note 1); nothing for MD5 with SHA-1.
pub fn digest_info(hash: Hash) -> &'static [u8] {
    match hash {
        Hash::Md5Sha1 => b"",
        Hash::Sha1 => b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14",
        Hash::Sha224 => b"\x30\x2d\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x04\x05\x00\x04\x1c",
        Hash::Sha256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
        Hash::Sha384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
        Hash::Sha512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
    }
}

#[cfg(test)]
mod tests {
    use boring::ec::{EcGroup, EcKey};
    use boring::nid::Nid;
    use boring::rsa::Rsa;

    use super::*;
    use crate::remote_key::PublicKey;

    const MESSAGE: &[u8] = b"what is signed";

    fn signer(key: &PKey<Private>) -> (DigestSigner, PublicKey) {
        let signer = DigestSigner::from_pem(&key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        let public = PKey::public_key_from_der(&key.public_key_to_der().unwrap()).unwrap();
        (signer, PublicKey::new(public))
    }

    fn ec(curve: Nid) -> PKey<Private> {
        let group = EcGroup::from_curve_name(curve).unwrap();
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_signature_over_a_digest_verifies_against_the_message() {
        let rsa = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let curves = [Nid::X9_62_PRIME256V1, Nid::SECP384R1, Nid::SECP521R1];
        let keys = curves.map(ec).into_iter().chain([rsa]);
        for key in keys {
            let (signer, public) = signer(&key);
            for hash in Hash::ALL {
                let kinds = match signer.kind() {
                    KeyKind::Rsa => vec![SignatureKind::RsaPkcs1(hash), SignatureKind::RsaPss(hash)],
                    _ => vec![SignatureKind::Ecdsa(hash)],
                };
                for kind in kinds {
                    if matches!(kind, SignatureKind::RsaPss(Hash::Md5Sha1 | Hash::Sha1 | Hash::Sha224)) {
                        assert_eq!(signer.sign(kind, &vec![7; hash.length()]), Err(DigestError::WrongKind));
                        continue;
                    }
                    let digest = kind.digest(MESSAGE).unwrap();
                    let signature = signer.sign(kind, &digest).unwrap();
                    assert!(public.verifies(kind, MESSAGE, &signature), "{kind:?}");
                    assert!(!public.verifies(kind, b"what is not", &signature), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_digest_of_another_length_and_a_kind_of_another_key_are_refused() {
        let (signer, _) = signer(&ec(Nid::X9_62_PRIME256V1));
        let kind = SignatureKind::Ecdsa(Hash::Sha256);
        assert_eq!(signer.sign(kind, &[0; 31]), Err(DigestError::WrongLength));
        assert_eq!(signer.sign(SignatureKind::RsaPss(Hash::Sha256), &[0; 32]), Err(DigestError::WrongKind));
        assert_eq!(signer.sign(SignatureKind::Ed25519, b"message"), Err(DigestError::WrongKind));
    }

    #[test]
    fn a_short_rsa_key_is_refused_and_no_key_is_shown() {
        let short = PKey::from_rsa(Rsa::generate(1024).unwrap()).unwrap();
        let refused = DigestSigner::from_pem(&short.private_key_to_pem_pkcs8().unwrap());
        assert!(matches!(refused, Err(CertificateError::KeyUnsupported)));
        let (signer, _) = signer(&ec(Nid::X9_62_PRIME256V1));
        assert_eq!(format!("{signer:?}"), "DigestSigner { algorithm: P256, .. }");
    }
}
