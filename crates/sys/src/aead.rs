//! Sealing one TLS record, out of place: plaintext stays where it is, ciphertext appears in the send buffer.

use std::ptr;

use boring::aead::{AeadCtx, Algorithm};
use boring_sys as ffi;
use foreign_types::ForeignType;

use crate::file::{Truncated, Window};
use crate::map;

/// Bytes of authentication tag that every supported cipher adds.
pub const TAG_BYTES: usize = 16;

/// Bytes of the nonce that every supported cipher takes.
pub const NONCE_BYTES: usize = 12;

/// The AEAD ciphers a connection may have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128 in Galois/Counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/Counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    /// Length of the key in bytes.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::Aes128Gcm => Algorithm::aes_128_gcm(),
            Self::Aes256Gcm => Algorithm::aes_256_gcm(),
            Self::ChaCha20Poly1305 => Algorithm::chacha20_poly1305(),
        }
    }
}

/// Where the plaintext of a record comes from.
#[derive(Clone, Copy)]
pub enum Plaintext<'a> {
    /// Bytes in memory, such as a response head.
    Memory(&'a [u8]),
    /// Bytes of a mapped file, which may shrink while they are read.
    Mapped(Window<'a>),
    /// Bytes in memory, such as the header of a frame, then other bytes in memory.
    Framed(&'a [u8], &'a [u8]),
    /// Bytes in memory, such as the header of a frame, then bytes of a mapped file.
    FramedMapped(&'a [u8], Window<'a>),
}

impl Plaintext<'_> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Mapped(window) => window.len(),
            Self::Framed(head, bytes) => head.len() + bytes.len(),
            Self::FramedMapped(head, window) => head.len() + window.len(),
        }
    }

    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a record could not be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The mapped file became shorter while it was read; nothing of the output may be sent.
    Truncated,
    /// The library refused because of a caller's error; nothing of the output may be sent.
    Library,
}

impl From<Truncated> for SealError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// A key ready to seal.
pub struct SealingKey(AeadCtx);

impl SealingKey {
    /// Expands `key`, or `None` if its length does not suit `cipher`.
    pub fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        AeadCtx::new(&cipher.algorithm(), key, TAG_BYTES).ok().map(Self)
    }

    /// Seals `plaintext` followed by `trailer` into `out` and returns the bytes written, which are
    /// always `plaintext.len() + trailer.len() + TAG_BYTES`.
    ///
    /// `trailer` exists for TLS 1.3, whose content type is sealed behind the content. The caller never uses
    /// a nonce twice with one key.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        plaintext: Plaintext<'_>,
        trailer: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let length = plaintext.len();
        let (body, rest) = out.split_at_mut_checked(length).ok_or(SealError::Library)?;
        if rest.len() < trailer.len() + TAG_BYTES {
            return Err(SealError::Library);
        }
        let sealed = match plaintext {
            Plaintext::Memory(bytes) => self.scatter(nonce, additional, bytes.as_ptr(), body, trailer, rest),
            Plaintext::Mapped(window) => map::guarded(window, || {
                self.scatter(nonce, additional, window.as_ptr(), body, trailer, rest)
            })?,
            Plaintext::Framed(head, bytes) => {
                self.gather(nonce, additional, (head, bytes.as_ptr()), body, trailer, rest)
            }
            Plaintext::FramedMapped(head, window) => map::guarded(window, || {
                self.gather(nonce, additional, (head, window.as_ptr()), body, trailer, rest)
            })?,
        };
        sealed.map(|tail| length + tail).ok_or(SealError::Library)
    }

    /// Reads exactly `body.len()` bytes from `input`.
    fn scatter(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        input: *const u8,
        body: &mut [u8],
        trailer: &[u8],
        rest: &mut [u8],
    ) -> Option<usize> {
        let trailer_at = if trailer.is_empty() { ptr::null() } else { trailer.as_ptr() };
        let mut tail = 0;
        // SAFETY: `input` is valid for `body.len()` reads (both callers take it from a slice or a guarded
        // mapping of that length), the other pointers come from slices passed with their own lengths, and
        // none of the outputs aliases an input.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                body.as_mut_ptr(),
                rest.as_mut_ptr(),
                &raw mut tail,
                rest.len(),
                nonce.as_ptr(),
                nonce.len(),
                input,
                body.len(),
                trailer_at,
                trailer.len(),
                additional.as_ptr(),
                additional.len(),
            )
        };
        (done == 1).then_some(tail)
    }

    /// Reads `head`, then from `input` as many bytes as fill `body` behind it.
    fn gather(
        &self,
        nonce: &[u8; NONCE_BYTES],
        additional: &[u8],
        (head, input): (&[u8], *const u8),
        body: &mut [u8],
        trailer: &[u8],
        rest: &mut [u8],
    ) -> Option<usize> {
        let (head_out, body) = body.split_at_mut_checked(head.len())?;
        let (trailer_out, tag) = rest.split_at_mut_checked(trailer.len())?;
        let pieces = [
            ffi::CRYPTO_IOVEC { out: head_out.as_mut_ptr(), in_: head.as_ptr(), len: head.len() },
            ffi::CRYPTO_IOVEC { out: body.as_mut_ptr(), in_: input, len: body.len() },
            ffi::CRYPTO_IOVEC { out: trailer_out.as_mut_ptr(), in_: trailer.as_ptr(), len: trailer.len() },
        ];
        let additional = ffi::CRYPTO_IVEC { in_: additional.as_ptr(), len: additional.len() };
        let mut tag_bytes = 0;
        // SAFETY: `input` is valid for `body.len()` reads (both callers take it from a slice or a guarded
        // mapping of that length), the other pointers come from slices passed with their own lengths, and
        // none of the outputs aliases an input or another output.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_sealv(
                self.0.as_ptr(),
                pieces.as_ptr(),
                pieces.len(),
                tag.as_mut_ptr(),
                &raw mut tag_bytes,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                &raw const additional,
                1,
            )
        };
        (done == 1).then_some(trailer.len() + tag_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealing_out_of_place_agrees_with_the_library_sealing_in_place() {
        for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let key: Vec<u8> = (0u8..32).take(cipher.key_bytes()).collect();
            let sealing = SealingKey::new(cipher, &key).unwrap();
            let text = b"the quick brown fox".repeat(100);
            let mut out = vec![0u8; text.len() + 1 + TAG_BYTES];
            let n = sealing.seal(&[7; 12], b"head", Plaintext::Memory(&text), &[23], &mut out).unwrap();
            assert_eq!(n, out.len());

            let mut expected = text.clone();
            expected.push(23);
            let mut tag = vec![0u8; TAG_BYTES];
            AeadCtx::new(&cipher.algorithm(), &key, TAG_BYTES)
                .unwrap()
                .seal_in_place_mut(&[7; 12], &mut expected, &mut tag, b"head")
                .unwrap();
            expected.extend_from_slice(&tag);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn sealing_a_head_and_a_body_agrees_with_sealing_them_as_one() {
        for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let key: Vec<u8> = (0u8..32).take(cipher.key_bytes()).collect();
            let sealing = SealingKey::new(cipher, &key).unwrap();
            let text: Vec<u8> = (0u8..=255).cycle().take(16 * 1024).collect();
            for (head, length) in [(0, 0), (0, 1), (9, 0), (9, 1), (9, 7), (9, 4096), (15, 1), (9, 16_375)] {
                for trailer in [&[23_u8][..], &[]] {
                    let whole = &text[..head + length];
                    let seal = |plaintext| {
                        let mut out = vec![0u8; whole.len() + trailer.len() + TAG_BYTES];
                        let n = sealing.seal(&[7; 12], b"head", plaintext, trailer, &mut out).unwrap();
                        assert_eq!(n, out.len());
                        out
                    };
                    let (front, back) = whole.split_at(head);
                    assert_eq!(seal(Plaintext::Framed(front, back)), seal(Plaintext::Memory(whole)));
                }
            }
        }
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused() {
        assert!(SealingKey::new(Cipher::Aes128Gcm, &[0; 32]).is_none());
    }

    #[test]
    fn an_output_too_short_for_the_tag_is_refused() {
        let key = SealingKey::new(Cipher::Aes128Gcm, &[0; 16]).unwrap();
        let mut out = [0; 20];
        let result = key.seal(&[0; 12], &[], Plaintext::Memory(b"hello"), &[], &mut out);
        assert_eq!(result, Err(SealError::Library));
    }
}
