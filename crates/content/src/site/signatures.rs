//! Signatures of tokens, of all kinds of keys.
//!
//! A signature that was right is remembered: the first request of a client pays for its verification.

use std::sync::Arc;

use aws_lc_rs::{hmac, signature};
use penstock_config::{TokenAlgorithm, TokenKey, TokenKeyKind, TokenKeys, limits};

use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;

/// Verifies signatures.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Arc<VerifiedSecrets>);

/// What is signed, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'s> {
    pub(crate) algorithm: TokenAlgorithm,
    /// The name of the key.
    pub(crate) id: Option<&'s str>,
    pub(crate) message: &'s [u8],
    pub(crate) mark: &'s [u8],
}

impl Signatures {
    pub(crate) fn new(verified: &Arc<VerifiedSecrets>) -> Self {
        Self(Arc::clone(verified))
    }

    /// Verifies a signature with the keys that may have made it. Returns the one that has.
    ///
    /// # Errors
    /// [`TokenRefusal::UnknownKey`], [`TokenRefusal::WrongSignature`].
    pub(crate) fn verify<'k>(
        &self,
        keys: &'k TokenKeys,
        signed: Signed<'k>,
    ) -> Result<&'k TokenKey, TokenRefusal> {
        let mut candidates =
            keys.candidates(signed.algorithm, signed.id).take(limits::TOKEN_KEYS_TRIED).peekable();
        if candidates.peek().is_none() {
            return Err(TokenRefusal::UnknownKey);
        }
        candidates.find(|key| self.is_right(key, signed)).ok_or(TokenRefusal::WrongSignature)
    }

    fn is_right(&self, key: &TokenKey, signed: Signed<'_>) -> bool {
        let Signed { algorithm, message, mark, .. } = signed;
        if matches!(key.kind, TokenKeyKind::Secret(_)) {
            // No dearer than to remember it.
            return is_signed(&key.kind, algorithm, message, mark);
        }
        let tag = self.0.tag((message, mark, bytes_of(&key.kind), algorithm as u8));
        if self.0.knows(tag) {
            return true;
        }
        let is_right = is_signed(&key.kind, algorithm, message, mark);
        if is_right {
            self.0.remember(tag);
        }
        is_right
    }
}

/// What tells a key from others.
fn bytes_of(kind: &TokenKeyKind) -> &[u8] {
    match kind {
        TokenKeyKind::Secret(bytes)
        | TokenKeyKind::Rsa(bytes, _)
        | TokenKeyKind::P256(bytes)
        | TokenKeyKind::P384(bytes)
        | TokenKeyKind::Ed25519(bytes) => bytes,
    }
}

/// Whether a key has made the signature. The algorithm is one that [fits](TokenKey::fits) the key.
pub(crate) fn is_signed(kind: &TokenKeyKind, algorithm: TokenAlgorithm, message: &[u8], mark: &[u8]) -> bool {
    use TokenAlgorithm as A;
    let public = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
        signature::UnparsedPublicKey::new(algorithm, key).verify(message, mark).is_ok()
    };
    match (kind, algorithm) {
        (TokenKeyKind::Secret(secret), algorithm) => {
            let hash = match algorithm {
                A::Hs256 => hmac::HMAC_SHA256,
                A::Hs384 => hmac::HMAC_SHA384,
                A::Hs512 => hmac::HMAC_SHA512,
                _ => return false,
            };
            // Compared in constant time.
            hmac::verify(&hmac::Key::new(hash, secret), message, mark).is_ok()
        }
        (TokenKeyKind::Rsa(n, e), algorithm) => {
            let parameters = match algorithm {
                A::Rs1 => &signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
                A::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                A::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                A::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                A::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                A::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                A::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                _ => return false,
            };
            signature::RsaPublicKeyComponents { n, e }.verify(parameters, message, mark).is_ok()
        }
        (TokenKeyKind::P256(point), A::Es256) => public(&signature::ECDSA_P256_SHA256_FIXED, point),
        (TokenKeyKind::P384(point), A::Es384) => public(&signature::ECDSA_P384_SHA384_FIXED, point),
        (TokenKeyKind::Ed25519(key), A::EdDsa) => public(&signature::ED25519, key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_its_key_and_its_message() {
        let secret = [7; 32];
        let mark = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), b"message");
        let is_right = |secret: &[u8], message: &[u8], mark: &[u8]| {
            is_signed(&TokenKeyKind::Secret(secret.to_vec()), TokenAlgorithm::Hs256, message, mark)
        };
        assert!(is_right(&secret, b"message", mark.as_ref()));
        assert!(!is_right(&[8; 32], b"message", mark.as_ref()));
        assert!(!is_right(&secret, b"Message", mark.as_ref()));
        assert!(!is_right(&secret, b"message", b""));
    }
}
