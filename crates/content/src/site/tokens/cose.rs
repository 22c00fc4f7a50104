//! Messages of COSE (RFC 9052) with one recipient or signer.

use aws_lc_rs::hmac;
use ciborium::Value;
use penstock_config::TokenAlgorithm;

use super::cbor::{encoded, of_label, whole};

/// The tag of a token with claims (RFC 8392 §6).
pub(super) const TAG_CWT: u64 = 61;
/// The tag of COSE_Mac0 (RFC 9052 §2).
pub(super) const TAG_MAC0: u64 = 17;
/// The tag of COSE_Sign1.
pub(super) const TAG_SIGN1: u64 = 18;

/// How a token is authenticated (RFC 9053 §2.1, §3.1).
pub(super) const ALGORITHMS: [(i128, TokenAlgorithm, u64); 2] =
    [(5, TokenAlgorithm::Hs256, TAG_MAC0), (-7, TokenAlgorithm::Es256, TAG_SIGN1)];

/// A token, its signature not yet looked at.
pub(super) struct CoseMessage {
    pub(super) algorithm: TokenAlgorithm,
    pub(super) key: Option<String>,
    /// As it was sent: it is authenticated.
    protected: Vec<u8>,
    unprotected: Value,
    pub(super) payload: Vec<u8>,
    pub(super) mark: Vec<u8>,
}

impl CoseMessage {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut value, mut kind) = (whole(bytes)?, None);
        while let Value::Tag(tag, inner) = value {
            match (tag, kind) {
                (TAG_CWT, None) => {}
                (TAG_MAC0 | TAG_SIGN1, None) => kind = Some(tag),
                _ => return None,
            }
            value = *inner;
        }
        let [protected, unprotected, payload, mark] =
            <[Value; 4]>::try_from(value.into_array().ok()?).ok()?;
        let (protected, payload) = (protected.into_bytes().ok()?, payload.into_bytes().ok()?);
        let first = whole(&protected)?;
        let header = |name| of_label(&first, name).or_else(|| of_label(&unprotected, name));
        // Extensions that have to be understood are not (RFC 9052 §3.1).
        if header(2).is_some() {
            return None;
        }
        let number = i128::from(of_label(&first, 1)?.as_integer()?);
        let (_, algorithm, of_algorithm) = *ALGORITHMS.iter().find(|(known, ..)| *known == number)?;
        if kind.is_some_and(|kind| kind != of_algorithm) {
            return None;
        }
        let key = match header(4) {
            Some(Value::Bytes(id)) => Some(String::from_utf8(id.clone()).ok()?),
            Some(_) => return None,
            None => None,
        };
        Some(Self { algorithm, key, protected, unprotected, payload, mark: mark.into_bytes().ok()? })
    }

    /// The same message with another payload, authenticated with a secret.
    pub(super) fn with_payload(&self, payload: Vec<u8>, secret: &[u8]) -> Vec<u8> {
        let message = signed_message(self.algorithm, &self.protected, &payload);
        let mark = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &message);
        let (protected, payload) = (Value::Bytes(self.protected.clone()), Value::Bytes(payload));
        let mark = Value::Bytes(mark.as_ref().to_vec());
        let message = Value::Array(vec![protected, self.unprotected.clone(), payload, mark]);
        encoded(&Value::Tag(TAG_CWT, Box::new(Value::Tag(TAG_MAC0, Box::new(message)))))
    }

    /// What is authenticated.
    pub(super) fn message(&self) -> Vec<u8> {
        signed_message(self.algorithm, &self.protected, &self.payload)
    }
}

/// What is authenticated (RFC 9052 §4.4, §6.3).
pub(super) fn signed_message(algorithm: TokenAlgorithm, protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let context = if algorithm == TokenAlgorithm::Hs256 { "MAC0" } else { "Signature1" };
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    encoded(&Value::Array(vec![context.into(), bytes(protected), bytes(b""), bytes(payload)]))
}
