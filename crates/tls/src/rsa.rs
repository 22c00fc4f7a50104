//! RSA signatures by AWS-LC, which has code for processors with AVX-512 IFMA: there it signs in half of BoringSSL's time.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{self, RsaEncoding};
use boring::pkey::{Id, PKey, Private};
use boring::ssl::SslSignatureAlgorithm;
use zeroize::Zeroizing;

/// An RSA key that signs fast.
pub(crate) struct RsaSigner {
    key: KeyPair,
    random: SystemRandom,
}

impl RsaSigner {
    /// `None` if the key is not RSA, or of a size that AWS-LC does not sign with (it takes 2048 to 8192 bits).
    pub(crate) fn of(key: &PKey<Private>) -> Option<Self> {
        if key.id() != Id::RSA {
            return None;
        }
        let der = Zeroizing::new(key.rsa().ok()?.private_key_to_der().ok()?);
        Some(Self { key: KeyPair::from_der(&der).ok()?, random: SystemRandom::new() })
    }

    /// The length of the signature; `None` if it could not be made, or the scheme is one of the old ones with SHA-1.
    pub(crate) fn sign(
        &self,
        algorithm: SslSignatureAlgorithm,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        let output = output.get_mut(..self.key.public_modulus_len())?;
        self.key.sign(encoding_of(algorithm)?, &self.random, input, output).ok()?;
        Some(output.len())
    }
}

fn encoding_of(algorithm: SslSignatureAlgorithm) -> Option<&'static dyn RsaEncoding> {
    use SslSignatureAlgorithm as Scheme;
    Some(match algorithm {
        Scheme::RSA_PSS_RSAE_SHA256 => &signature::RSA_PSS_SHA256,
        Scheme::RSA_PSS_RSAE_SHA384 => &signature::RSA_PSS_SHA384,
        Scheme::RSA_PSS_RSAE_SHA512 => &signature::RSA_PSS_SHA512,
        Scheme::RSA_PKCS1_SHA256 => &signature::RSA_PKCS1_SHA256,
        Scheme::RSA_PKCS1_SHA384 => &signature::RSA_PKCS1_SHA384,
        Scheme::RSA_PKCS1_SHA512 => &signature::RSA_PKCS1_SHA512,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use boring::hash::MessageDigest;
    use boring::rsa::{Padding, Rsa};
    use boring::sign::{RsaPssSaltlen, Verifier};

    use super::*;

    fn key(bits: u32) -> PKey<Private> {
        PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
    }

    #[test]
    fn the_library_accepts_every_signature() {
        use SslSignatureAlgorithm as Scheme;
        let key = key(2048);
        let signer = RsaSigner::of(&key).unwrap();
        let schemes = [
            (Scheme::RSA_PSS_RSAE_SHA256, MessageDigest::sha256(), true),
            (Scheme::RSA_PSS_RSAE_SHA384, MessageDigest::sha384(), true),
            (Scheme::RSA_PSS_RSAE_SHA512, MessageDigest::sha512(), true),
            (Scheme::RSA_PKCS1_SHA256, MessageDigest::sha256(), false),
            (Scheme::RSA_PKCS1_SHA384, MessageDigest::sha384(), false),
            (Scheme::RSA_PKCS1_SHA512, MessageDigest::sha512(), false),
        ];
        for (scheme, digest, is_pss) in schemes {
            let mut output = [0; 512];
            let length = signer.sign(scheme, b"what is signed", &mut output).unwrap();
            let mut verifier = Verifier::new(digest, &key).unwrap();
            if is_pss {
                verifier.set_rsa_padding(Padding::PKCS1_PSS).unwrap();
                verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).unwrap();
            }
            assert!(verifier.verify_oneshot(&output[..length], b"what is signed").unwrap(), "{scheme:?}");
        }
    }

    #[test]
    fn unsupported_signatures_are_left_to_the_library() {
        let signer = RsaSigner::of(&key(2048)).unwrap();
        assert_eq!(signer.sign(SslSignatureAlgorithm::RSA_PKCS1_SHA1, b"old", &mut [0; 512]), None);
        assert_eq!(signer.sign(SslSignatureAlgorithm::RSA_PKCS1_SHA256, b"no space", &mut [0; 100]), None);
        assert!(RsaSigner::of(&key(1024)).is_none());
    }
}
