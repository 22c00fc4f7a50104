//! A private key in memory.

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Padding;
use boring::sign::{RsaPssSaltlen, Signer};
use boring::ssl::SslSignatureAlgorithm;

use crate::ecdsa::EcdsaSigner;
use crate::rsa::RsaSigner;

/// A private key in memory.
pub(crate) struct LocalKey {
    key: PKey<Private>,
    /// Faster implementations for the same key, by its kind.
    rsa: Option<RsaSigner>,
    ecdsa: Option<EcdsaSigner>,
}

impl LocalKey {
    pub(crate) fn new(key: PKey<Private>) -> Self {
        let (rsa, ecdsa) = (RsaSigner::of(&key), EcdsaSigner::of(&key));
        Self { key, rsa, ecdsa }
    }

    pub(crate) fn sign(
        &self,
        algorithm: SslSignatureAlgorithm,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, ErrorStack> {
        let fast = match (&self.ecdsa, &self.rsa) {
            (Some(ecdsa), _) => ecdsa.sign(algorithm, input, output),
            (None, Some(rsa)) => rsa.sign(algorithm, input, output),
            (None, None) => None,
        };
        fast.map_or_else(|| sign(&self.key, algorithm, input, output), Ok)
    }

    /// Decrypts without checking the padding, which the library does.
    pub(crate) fn decrypt(&self, input: &[u8], output: &mut [u8]) -> Result<usize, ErrorStack> {
        self.key.rsa()?.private_decrypt(input, output, Padding::NONE)
    }
}

/// Signs with a scheme of RFC 8446 §4.2.3. The library has checked that it suits the key.
fn sign(
    key: &PKey<Private>,
    algorithm: SslSignatureAlgorithm,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, ErrorStack> {
    let mut signer = match digest_of(algorithm) {
        Some(digest) => Signer::new(digest, key)?,
        None => Signer::new_without_digest(key)?,
    };
    if is_pss(algorithm) {
        signer.set_rsa_padding(Padding::PKCS1_PSS)?;
        signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
    }
    signer.sign_oneshot(output, input)
}

fn digest_of(algorithm: SslSignatureAlgorithm) -> Option<MessageDigest> {
    use SslSignatureAlgorithm as Scheme;
    match algorithm {
        Scheme::RSA_PKCS1_MD5_SHA1 => MessageDigest::from_nid(Nid::MD5_SHA1),
        Scheme::RSA_PKCS1_SHA1 | Scheme::ECDSA_SHA1 => Some(MessageDigest::sha1()),
        Scheme::RSA_PKCS1_SHA256 | Scheme::ECDSA_SECP256R1_SHA256 | Scheme::RSA_PSS_RSAE_SHA256 => {
            Some(MessageDigest::sha256())
        }
        Scheme::RSA_PKCS1_SHA384 | Scheme::ECDSA_SECP384R1_SHA384 | Scheme::RSA_PSS_RSAE_SHA384 => {
            Some(MessageDigest::sha384())
        }
        Scheme::RSA_PKCS1_SHA512 | Scheme::ECDSA_SECP521R1_SHA512 | Scheme::RSA_PSS_RSAE_SHA512 => {
            Some(MessageDigest::sha512())
        }
        // Ed25519 includes its hash.
        _ => None,
    }
}

fn is_pss(algorithm: SslSignatureAlgorithm) -> bool {
    use SslSignatureAlgorithm as Scheme;
    matches!(
        algorithm,
        Scheme::RSA_PSS_RSAE_SHA256 | Scheme::RSA_PSS_RSAE_SHA384 | Scheme::RSA_PSS_RSAE_SHA512
    )
}
