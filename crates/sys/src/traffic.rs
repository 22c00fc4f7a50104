//! The keys that protect what a server sends, and how they follow from the handshake.
//!
//! RFC 8446 §7.1-§7.3 for TLS 1.3, RFC 5246 §6.3 with RFC 5288 and RFC 7905 for TLS 1.2.

use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;

use crate::aead::{Cipher, NONCE_BYTES};
use crate::cbc::CbcKeys;
pub use crate::secret::Secret;

/// Which record format a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolVersion {
    /// TLS 1.2 (RFC 5246), AEAD ciphers only.
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The sending state that a finished handshake leaves.
#[derive(Clone, Debug)]
pub enum SendKeys {
    /// Keys of an AEAD suite.
    Aead(TrafficKeys),
    /// Keys of a CBC suite, for clients from before about 2013.
    Cbc(CbcKeys),
}

impl From<TrafficKeys> for SendKeys {
    fn from(keys: TrafficKeys) -> Self {
        Self::Aead(keys)
    }
}

impl From<CbcKeys> for SendKeys {
    fn from(keys: CbcKeys) -> Self {
        Self::Cbc(keys)
    }
}

/// All it takes to seal the next record towards the client.
#[derive(Clone, Debug)]
pub struct TrafficKeys {
    /// The record format.
    pub version: ProtocolVersion,
    /// The cipher.
    pub cipher: Cipher,
    /// The key of `cipher`.
    pub key: Secret,
    /// TLS 1.3 and ChaCha20: the 12-byte static IV. TLS 1.2 with GCM: the 4-byte salt.
    pub iv: Secret,
    /// The sequence number of the next record.
    pub sequence: u64,
    /// TLS 1.3 only: the traffic secret, from which the next generation follows.
    secret: Option<Secret>,
}

impl TrafficKeys {
    /// Keys of a TLS 1.3 traffic secret; `None` if the secret does not suit the cipher.
    pub fn tls13(cipher: Cipher, secret: Secret, sequence: u64) -> Option<Self> {
        let key = expand_label(cipher, &secret, "key", cipher.key_bytes())?;
        let iv = expand_label(cipher, &secret, "iv", NONCE_BYTES)?;
        Some(Self { version: ProtocolVersion::Tls13, cipher, key, iv, sequence, secret: Some(secret) })
    }

    /// The server's half of a TLS 1.2 key block; `None` if the block has another length than the cipher asks.
    pub fn tls12(cipher: Cipher, key_block: &Secret, sequence: u64) -> Option<Self> {
        let key_bytes = cipher.key_bytes();
        let iv_bytes = match cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => 4,
            Cipher::ChaCha20Poly1305 => NONCE_BYTES,
        };
        let block = key_block.expose();
        if block.len() != 2 * (key_bytes + iv_bytes) {
            return None;
        }
        // client key, server key, client IV, server IV: AEAD ciphers have no MAC keys.
        let key = Secret::new(block[key_bytes..2 * key_bytes].to_vec());
        let iv = Secret::new(block[2 * key_bytes + iv_bytes..].to_vec());
        Some(Self { version: ProtocolVersion::Tls12, cipher, key, iv, sequence, secret: None })
    }

    /// The keys after a KeyUpdate (RFC 8446 §7.2); `None` in TLS 1.2, which has none.
    pub fn next_generation(&self) -> Option<Self> {
        let secret = self.secret.as_ref()?;
        let next = expand_label(self.cipher, secret, "traffic upd", secret.expose().len())?;
        Self::tls13(self.cipher, next, 0)
    }
}

/// HKDF-Expand-Label of RFC 8446 §7.1 with an empty context.
fn expand_label(cipher: Cipher, secret: &Secret, label: &str, length: usize) -> Option<Secret> {
    let digest = match cipher {
        Cipher::Aes256Gcm => MessageDigest::sha384(),
        Cipher::Aes128Gcm | Cipher::ChaCha20Poly1305 => MessageDigest::sha256(),
    };
    let mut info = Vec::with_capacity(4 + 6 + label.len());
    info.extend_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
    info.push(u8::try_from(6 + label.len()).ok()?);
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label.as_bytes());
    info.push(0);
    let mut out = vec![0; length];
    HkdfSuite::new(digest).expand(secret.expose(), &info, &mut out).ok()?;
    Some(Secret::new(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn server_keys_match_the_trace_of_rfc_8448() {
        // RFC 8448 §3, "derive write traffic keys for application data" of the server.
        let secret = bytes("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
        let keys = TrafficKeys::tls13(Cipher::Aes128Gcm, Secret::new(secret), 1).unwrap();
        assert_eq!(keys.key.expose(), bytes("9f02283b6c9c07efc26bb9f2ac92e356"));
        assert_eq!(keys.iv.expose(), bytes("cf782b88dd83549aadf1e984"));
        assert_eq!(keys.sequence, 1);
    }

    #[test]
    fn a_new_generation_starts_at_record_zero_with_other_keys() {
        let first = TrafficKeys::tls13(Cipher::Aes256Gcm, Secret::new(vec![3; 48]), 9).unwrap();
        let second = first.next_generation().unwrap();
        assert_eq!(second.sequence, 0);
        assert_ne!(first.key, second.key);
        assert_ne!(first.iv, second.iv);
    }

    #[test]
    fn the_servers_half_of_a_tls12_key_block_is_taken() {
        let block: Vec<u8> = (0..40).collect();
        let keys = TrafficKeys::tls12(Cipher::Aes128Gcm, &Secret::new(block), 1).unwrap();
        assert_eq!(keys.key.expose(), (16..32).collect::<Vec<u8>>());
        assert_eq!(keys.iv.expose(), [36, 37, 38, 39]);
        assert!(keys.next_generation().is_none());
    }

    #[test]
    fn a_key_block_of_another_length_is_refused() {
        assert!(TrafficKeys::tls12(Cipher::Aes128Gcm, &Secret::new(vec![0; 39]), 0).is_none());
    }

    #[test]
    fn a_secret_never_prints_its_bytes() {
        assert_eq!(format!("{:?}", Secret::new(vec![1, 2, 3])), "Secret(..)");
    }
}
