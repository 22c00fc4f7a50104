//! Sealing records with AES-CBC and HMAC-SHA-1, for clients without AEAD ciphers.
//!
//! RFC 2246 §6.2.3.2 for TLS 1.0, RFC 4346 §6.2.3.2 and RFC 5246 §6.2.3.2 for the versions that begin each record with
//! its own initialisation vector. The library implements all of it, padding included; records are only sealed.

use std::fmt;
use std::ptr;

use boring_sys as ffi;

use crate::secret::Secret;

/// Bytes of a block, of an initialisation vector, and the most that padding adds.
pub const BLOCK_BYTES: usize = 16;

/// Bytes of the key of HMAC-SHA-1 and of its result.
pub const MAC_BYTES: usize = 20;

/// The bytes that are authenticated before a record's length: sequence number, content type, version.
pub const ADDITIONAL_BYTES: usize = 11;

/// The cipher of records, always with HMAC-SHA-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CbcCipher {
    /// AES-128 in CBC mode.
    Aes128,
    /// AES-256 in CBC mode.
    Aes256,
}

impl CbcCipher {
    fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }
}

/// The versions of TLS that have such suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CbcVersion {
    /// TLS 1.0: the last block of a record is the vector of the next.
    Tls10,
    /// TLS 1.1: each record begins with an initialisation vector of its own.
    Tls11,
    /// TLS 1.2: as TLS 1.1.
    Tls12,
}

impl CbcVersion {
    /// The version in the header of a record.
    pub fn number(self) -> [u8; 2] {
        match self {
            Self::Tls10 => [3, 1],
            Self::Tls11 => [3, 2],
            Self::Tls12 => [3, 3],
        }
    }

    /// Bytes of the vector that each record begins with.
    pub fn explicit_iv_bytes(self) -> usize {
        if self == Self::Tls10 { 0 } else { BLOCK_BYTES }
    }
}

/// State for sealing the next record to the client.
#[derive(Clone, Debug)]
pub struct CbcKeys {
    /// The record format.
    pub version: CbcVersion,
    /// The cipher.
    pub cipher: CbcCipher,
    /// The sequence number of the next record.
    pub sequence: u64,
    /// MAC key, key of the cipher, and in TLS 1.0 the last block that was sent.
    material: Secret,
}

impl CbcKeys {
    /// The server's part of a key block (RFC 5246 §6.3), after `sequence` records. `last_block` ended the last one of
    /// them; only TLS 1.0 needs it. `None` if lengths do not suit the cipher.
    pub fn new(
        version: CbcVersion,
        cipher: CbcCipher,
        key_block: &Secret,
        last_block: &[u8],
        sequence: u64,
    ) -> Option<Self> {
        let (block, key) = (key_block.expose(), cipher.key_bytes());
        let implicit = BLOCK_BYTES - version.explicit_iv_bytes();
        if block.len() != 2 * (MAC_BYTES + key + implicit) {
            return None;
        }
        // MAC keys of client and server, then cipher keys, then vectors that are no longer used.
        let server_key = 2 * MAC_BYTES + key;
        let mut material = Vec::with_capacity(MAC_BYTES + key + implicit);
        material.extend_from_slice(&block[MAC_BYTES..2 * MAC_BYTES]);
        material.extend_from_slice(&block[server_key..server_key + key]);
        if version == CbcVersion::Tls10 {
            material.extend_from_slice(last_block.get(..BLOCK_BYTES)?);
        }
        Some(Self { version, cipher, sequence, material: Secret::new(material) })
    }
}

/// A key ready to seal one record after the other.
pub struct CbcSealingKey {
    /// Boxed, because the library keeps state in it that must not move.
    context: Box<ffi::EVP_AEAD_CTX>,
    version: CbcVersion,
}

impl fmt::Debug for CbcSealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CbcSealingKey").field("version", &self.version).finish_non_exhaustive()
    }
}

impl CbcSealingKey {
    /// `None` if the library is out of memory.
    pub fn new(keys: &CbcKeys) -> Option<Self> {
        let algorithm = match (keys.cipher, keys.version) {
            (CbcCipher::Aes128, CbcVersion::Tls10) => ffi::EVP_aead_aes_128_cbc_sha1_tls_implicit_iv,
            (CbcCipher::Aes256, CbcVersion::Tls10) => ffi::EVP_aead_aes_256_cbc_sha1_tls_implicit_iv,
            (CbcCipher::Aes128, _) => ffi::EVP_aead_aes_128_cbc_sha1_tls,
            (CbcCipher::Aes256, _) => ffi::EVP_aead_aes_256_cbc_sha1_tls,
        };
        // SAFETY: each of these functions returns a constant of the library.
        let algorithm = unsafe { algorithm() };
        let mut context: Box<std::mem::MaybeUninit<ffi::EVP_AEAD_CTX>> = Box::new_uninit();
        // SAFETY: the pointer is valid for writes of a whole context, which the call fills with zeros.
        unsafe { ffi::EVP_AEAD_CTX_zero(context.as_mut_ptr()) };
        // SAFETY: the call above has written every byte, and all of them may be zero.
        let context = unsafe { context.assume_init() };
        let mut key = Self { context, version: keys.version };
        let material = keys.material.expose();
        // SAFETY: context and algorithm are valid, and the key is `material.len()` readable bytes.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_init_with_direction(
                &raw mut *key.context,
                algorithm,
                material.as_ptr(),
                material.len(),
                TAG_BYTES_AS_USUAL,
                ffi::evp_aead_direction_t::evp_aead_seal,
            )
        };
        (done == 1).then_some(key)
    }

    /// Writes the vector, the sealed plaintext, its MAC and padding into `out` and returns their length. `None` if they
    /// do not fit; the connection then cannot continue.
    pub fn seal(
        &mut self,
        additional: &[u8; ADDITIONAL_BYTES],
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let (iv, sealed) = out.split_at_mut_checked(self.version.explicit_iv_bytes())?;
        boring::rand::rand_bytes(iv).ok()?;
        let (body, tail) = sealed.split_at_mut_checked(plaintext.len())?;
        let mut tail_bytes = 0;
        // SAFETY: the context was made for sealing and is not shared; every pointer comes from a slice that is passed
        // with its own length, `body` is as long as the plaintext, and no output overlaps an input.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_seal_scatter(
                &raw const *self.context,
                body.as_mut_ptr(),
                tail.as_mut_ptr(),
                &raw mut tail_bytes,
                tail.len(),
                iv.as_ptr(),
                iv.len(),
                plaintext.as_ptr(),
                plaintext.len(),
                ptr::null(),
                0,
                additional.as_ptr(),
                additional.len(),
            )
        };
        (done == 1).then_some(iv.len() + body.len() + tail_bytes)
    }
}

/// The library's constant for the default length of the tag.
const TAG_BYTES_AS_USUAL: usize = 0;

impl Drop for CbcSealingKey {
    fn drop(&mut self) {
        // SAFETY: the context is initialised or zero, and it is not used afterwards.
        unsafe { ffi::EVP_AEAD_CTX_cleanup(&raw mut *self.context) };
    }
}

#[cfg(test)]
mod tests {
    use boring::symm::{Cipher, Crypter, Mode};

    use super::*;

    const ADDITIONAL: [u8; ADDITIONAL_BYTES] = [0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 1];

    fn keys(version: CbcVersion, cipher: CbcCipher) -> (CbcKeys, Vec<u8>) {
        let implicit = BLOCK_BYTES - version.explicit_iv_bytes();
        let length = 2 * (MAC_BYTES + cipher.key_bytes() + implicit);
        let block: Vec<u8> = (0u8..).take(length).collect();
        let at = 2 * MAC_BYTES + cipher.key_bytes();
        let server_key = block[at..at + cipher.key_bytes()].to_vec();
        (CbcKeys::new(version, cipher, &Secret::new(block), &[9; BLOCK_BYTES], 1).unwrap(), server_key)
    }

    /// Decrypts without checking MAC and padding.
    fn decrypt(cipher: CbcCipher, key: &[u8], iv: &[u8], sealed: &[u8]) -> Vec<u8> {
        let algorithm = match cipher {
            CbcCipher::Aes128 => Cipher::aes_128_cbc(),
            CbcCipher::Aes256 => Cipher::aes_256_cbc(),
        };
        let mut crypter = Crypter::new(algorithm, Mode::Decrypt, key, Some(iv)).unwrap();
        crypter.pad(false);
        let mut plain = vec![0; sealed.len() + BLOCK_BYTES];
        let count = crypter.update(sealed, &mut plain).unwrap();
        plain.truncate(count);
        plain
    }

    #[test]
    fn records_decrypt_to_what_was_sealed_with_a_mac_and_whole_blocks() {
        for cipher in [CbcCipher::Aes128, CbcCipher::Aes256] {
            for version in [CbcVersion::Tls11, CbcVersion::Tls12] {
                let (keys, server_key) = keys(version, cipher);
                let mut sealing = CbcSealingKey::new(&keys).unwrap();
                for text in [&b""[..], b"x", &[7; 1000]] {
                    let mut out = [0; 1100];
                    let count = sealing.seal(&ADDITIONAL, text, &mut out).unwrap();
                    let plain = decrypt(cipher, &server_key, &out[..16], &out[16..count]);
                    assert_eq!(&plain[..text.len()], text);
                    let padding = usize::from(*plain.last().unwrap()) + 1;
                    assert_eq!(plain.len(), text.len() + MAC_BYTES + padding);
                }
            }
        }
    }

    #[test]
    fn in_tls_1_0_a_record_goes_on_from_the_last_block() {
        let (keys, server_key) = keys(CbcVersion::Tls10, CbcCipher::Aes128);
        let mut sealing = CbcSealingKey::new(&keys).unwrap();
        let mut last = vec![9; BLOCK_BYTES];
        for text in [&b"first"[..], b"second", b""] {
            let mut out = [0; 100];
            let count = sealing.seal(&ADDITIONAL, text, &mut out).unwrap();
            let plain = decrypt(CbcCipher::Aes128, &server_key, &last, &out[..count]);
            assert_eq!(&plain[..text.len()], text);
            last = out[count - BLOCK_BYTES..count].to_vec();
        }
    }

    #[test]
    fn vectors_are_never_the_same() {
        let (keys, _) = keys(CbcVersion::Tls12, CbcCipher::Aes128);
        let mut sealing = CbcSealingKey::new(&keys).unwrap();
        let mut seal = || {
            let mut out = [0; 100];
            sealing.seal(&ADDITIONAL, b"same", &mut out).unwrap();
            out
        };
        assert_ne!(seal()[..16], seal()[..16]);
    }

    #[test]
    fn keys_and_buffers_of_the_wrong_size_are_refused() {
        let (keys, _) = keys(CbcVersion::Tls12, CbcCipher::Aes128);
        let mut sealing = CbcSealingKey::new(&keys).unwrap();
        assert_eq!(sealing.seal(&ADDITIONAL, &[0; 64], &mut [0; 64]), None);
        assert_eq!(sealing.seal(&ADDITIONAL, &[0; 64], &mut [0; 90]), None);
        let short = Secret::new(vec![0; 70]);
        assert!(CbcKeys::new(CbcVersion::Tls11, CbcCipher::Aes128, &short, &[], 0).is_none());
    }
}
