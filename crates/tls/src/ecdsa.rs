//! ECDSA signatures by AWS-LC, in four fifths of BoringSSL's time with P-256 and less with the larger curves.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm,
};
use boring::nid::Nid;
use boring::pkey::{Id, PKey, Private};
use boring::ssl::SslSignatureAlgorithm;
use zeroize::Zeroizing;

/// A key on one of the NIST curves that signs fast.
pub(crate) struct EcdsaSigner {
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// The only scheme it signs with: that whose hash is as long as its curve.
    scheme: SslSignatureAlgorithm,
}

impl EcdsaSigner {
    /// `None` if the key is not one for ECDSA.
    pub(crate) fn of(key: &PKey<Private>) -> Option<Self> {
        use SslSignatureAlgorithm as Scheme;
        if key.id() != Id::EC {
            return None;
        }
        let (scheme, algorithm): (_, &'static EcdsaSigningAlgorithm) =
            match key.ec_key().ok()?.group().curve_name()? {
                Nid::X9_62_PRIME256V1 => (Scheme::ECDSA_SECP256R1_SHA256, &ECDSA_P256_SHA256_ASN1_SIGNING),
                Nid::SECP384R1 => (Scheme::ECDSA_SECP384R1_SHA384, &ECDSA_P384_SHA384_ASN1_SIGNING),
                Nid::SECP521R1 => (Scheme::ECDSA_SECP521R1_SHA512, &ECDSA_P521_SHA512_ASN1_SIGNING),
                _ => return None,
            };
        let der = Zeroizing::new(key.private_key_to_der_pkcs8().ok()?);
        let key = EcdsaKeyPair::from_pkcs8(algorithm, &der).ok()?;
        Some(Self { key, random: SystemRandom::new(), scheme })
    }

    /// The length of the signature; `None` if it could not be made, or the scheme names another hash, as TLS 1.2 allows.
    pub(crate) fn sign(
        &self,
        scheme: SslSignatureAlgorithm,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        if scheme != self.scheme {
            return None;
        }
        let signature = self.key.sign(&self.random, input).ok()?;
        output.get_mut(..signature.as_ref().len())?.copy_from_slice(signature.as_ref());
        Some(signature.as_ref().len())
    }
}

#[cfg(test)]
mod tests {
    use boring::ec::{EcGroup, EcKey};
    use boring::hash::MessageDigest;
    use boring::sign::Verifier;

    use super::*;

    fn key(curve: Nid) -> PKey<Private> {
        let group = EcGroup::from_curve_name(curve).unwrap();
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
    }

    #[test]
    fn the_library_accepts_every_signature() {
        use SslSignatureAlgorithm as Scheme;
        for (curve, scheme, digest) in [
            (Nid::X9_62_PRIME256V1, Scheme::ECDSA_SECP256R1_SHA256, MessageDigest::sha256()),
            (Nid::SECP384R1, Scheme::ECDSA_SECP384R1_SHA384, MessageDigest::sha384()),
            (Nid::SECP521R1, Scheme::ECDSA_SECP521R1_SHA512, MessageDigest::sha512()),
        ] {
            let key = key(curve);
            let signer = EcdsaSigner::of(&key).unwrap();
            for _ in 0..20 {
                let mut output = [0; 150];
                let length = signer.sign(scheme, b"what is signed", &mut output).unwrap();
                let mut verifier = Verifier::new(digest, &key).unwrap();
                assert!(verifier.verify_oneshot(&output[..length], b"what is signed").unwrap(), "{curve:?}");
            }
        }
    }

    #[test]
    fn unsupported_signatures_are_left_to_the_library() {
        let signer = EcdsaSigner::of(&key(Nid::X9_62_PRIME256V1)).unwrap();
        let sign = |scheme, space: &mut [u8]| signer.sign(scheme, b"other", space);
        assert_eq!(sign(SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384, &mut [0; 150]), None);
        assert_eq!(sign(SslSignatureAlgorithm::ECDSA_SHA1, &mut [0; 150]), None);
        assert_eq!(sign(SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256, &mut [0; 8]), None);
        assert!(EcdsaSigner::of(&key(Nid::SECP224R1)).is_none());
    }
}
