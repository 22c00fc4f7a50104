//! TLS records: header, nonce and additional data around one call of the cipher.
//!
//! RFC 8446 §5.2 for TLS 1.3; RFC 5246 §6.2.3.3 with RFC 5288 §3 and RFC 7905 §2 for TLS 1.2. The records of CBC suites
//! stand in [`cbc`].

use penstock_metrics::{Work, doing};
use penstock_sys::aead::{Cipher, NONCE_BYTES, Plaintext, SealError, SealingKey, TAG_BYTES};
use penstock_sys::traffic::{ProtocolVersion, SendKeys, TrafficKeys};

use crate::batch::Batch;
use crate::cbc::{self, CbcSealer};
use crate::framing::{ContentType, HEADER_BYTES};
use crate::send_error::SendError;

const EXPLICIT_NONCE_BYTES: usize = 8;

/// The most bytes a record adds to its plaintext.
pub(crate) const OVERHEAD_BYTES: usize = cbc::OVERHEAD_BYTES;
const _: () = assert!(OVERHEAD_BYTES >= HEADER_BYTES + EXPLICIT_NONCE_BYTES + 1 + TAG_BYTES);

/// Seals records in order with one generation of keys.
pub(crate) enum Sealer {
    Aead(AeadSealer),
    Cbc(CbcSealer),
}

impl Sealer {
    /// `None` if the keys do not suit their cipher.
    pub(crate) fn new(keys: SendKeys, records_per_key: u64) -> Option<Self> {
        match keys {
            SendKeys::Aead(keys) => AeadSealer::new(keys, records_per_key).map(Self::Aead),
            SendKeys::Cbc(keys) => CbcSealer::new(&keys).map(Self::Cbc),
        }
    }

    /// The same connection after a KeyUpdate; `None` before TLS 1.3.
    pub(crate) fn next_generation(&self, records_per_key: u64) -> Option<Self> {
        match self {
            Self::Aead(sealer) => sealer.next_generation(records_per_key).map(Self::Aead),
            Self::Cbc(_) => None,
        }
    }

    /// The keys with the sequence number of the next record; `None` if only this program can use them.
    pub(crate) fn keys(&self) -> Option<&TrafficKeys> {
        match self {
            Self::Aead(sealer) => Some(&sealer.keys),
            Self::Cbc(_) => None,
        }
    }

    /// Whether only a last record (a KeyUpdate or an alert) may still be sealed.
    pub(crate) fn is_worn_out(&self) -> bool {
        match self {
            Self::Aead(sealer) => sealer.is_worn_out(),
            Self::Cbc(_) => false,
        }
    }

    /// Adds `plaintext` to `batch` as one record, or as two where that is safer, or leaves it as it was. After a
    /// failure there are no more records, not even an alert.
    pub(crate) fn seal(
        &mut self,
        content: ContentType,
        plaintext: Plaintext<'_>,
        batch: &mut Batch,
    ) -> Result<(), SendError> {
        doing(Work::Sealing, || match self {
            Self::Aead(sealer) => sealer.seal(content, plaintext, batch),
            Self::Cbc(sealer) => sealer.seal(content, plaintext, batch),
        })
    }
}

/// Seals records of an AEAD suite.
pub(crate) struct AeadSealer {
    key: SealingKey,
    keys: TrafficKeys,
    iv: [u8; NONCE_BYTES],
    /// The sequence number at which these keys must not be used any more.
    last_sequence: u64,
}

impl AeadSealer {
    fn new(keys: TrafficKeys, records_per_key: u64) -> Option<Self> {
        let key = SealingKey::new(keys.cipher, keys.key.expose())?;
        let mut iv = [0; NONCE_BYTES];
        iv.get_mut(..keys.iv.expose().len())?.copy_from_slice(keys.iv.expose());
        // ChaCha20-Poly1305 has no limit below the sequence number's own (RFC 8446 §5.5).
        let last_sequence = match keys.cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => keys.sequence.saturating_add(records_per_key),
            Cipher::ChaCha20Poly1305 => u64::MAX,
        };
        Some(Self { key, keys, iv, last_sequence })
    }

    fn next_generation(&self, records_per_key: u64) -> Option<Self> {
        Self::new(self.keys.next_generation()?, records_per_key)
    }

    fn is_worn_out(&self) -> bool {
        self.keys.sequence.saturating_add(1) >= self.last_sequence
    }

    fn seal(
        &mut self,
        content: ContentType,
        plaintext: Plaintext<'_>,
        batch: &mut Batch,
    ) -> Result<(), SendError> {
        if self.keys.sequence >= self.last_sequence {
            return Err(SendError::KeysWornOut);
        }
        // Other streams go on behind a file that was truncated while it was sealed into a frame. Nothing of that output is
        // sent, so the record that takes its place may have its nonce.
        let others_go_on = matches!(plaintext, Plaintext::FramedMapped(..));
        let sealed = match self.keys.version {
            ProtocolVersion::Tls13 => self.seal_tls13(content, plaintext, batch),
            ProtocolVersion::Tls12 => self.seal_tls12(content, plaintext, batch),
        };
        let sealed = sealed.map_err(|error| {
            if error == SealError::Library || !others_go_on {
                // A nonce must never be used twice, and no client can read records behind a gap: these keys end here.
                self.last_sequence = self.keys.sequence;
            }
            match error {
                SealError::Truncated => SendError::Truncated,
                SealError::Library => SendError::Internal,
            }
        })?;
        self.keys.sequence += 1;
        batch.commit(sealed);
        Ok(())
    }

    fn seal_tls13(
        &self,
        content: ContentType,
        plaintext: Plaintext<'_>,
        batch: &mut Batch,
    ) -> Result<usize, SealError> {
        let sealed_bytes = plaintext.len() + 1 + TAG_BYTES;
        // On the outside every TLS 1.3 record is application data of TLS 1.2.
        let header = header(ContentType::ApplicationData, sealed_bytes)?;
        let space = batch.space(HEADER_BYTES + sealed_bytes).ok_or(SealError::Library)?;
        let (outer, body) = space.split_at_mut(HEADER_BYTES);
        outer.copy_from_slice(&header);
        let sealed = self.key.seal(&self.nonce_from_iv(), &header, plaintext, &[content as u8], body)?;
        Ok(HEADER_BYTES + sealed)
    }

    fn seal_tls12(
        &self,
        content: ContentType,
        plaintext: Plaintext<'_>,
        batch: &mut Batch,
    ) -> Result<usize, SealError> {
        let sequence = self.keys.sequence.to_be_bytes();
        let (nonce, explicit): (_, &[u8]) = match self.keys.cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
                let mut nonce = self.iv;
                nonce[4..].copy_from_slice(&sequence);
                (nonce, &sequence)
            }
            Cipher::ChaCha20Poly1305 => (self.nonce_from_iv(), &[]),
        };
        let mut additional = [0; EXPLICIT_NONCE_BYTES + HEADER_BYTES];
        additional[..8].copy_from_slice(&sequence);
        additional[8..].copy_from_slice(&header(content, plaintext.len())?);
        let payload_bytes = explicit.len() + plaintext.len() + TAG_BYTES;
        let space = batch.space(HEADER_BYTES + payload_bytes).ok_or(SealError::Library)?;
        let (outer, payload) = space.split_at_mut(HEADER_BYTES);
        outer.copy_from_slice(&header(content, payload_bytes)?);
        let (front, body) = payload.split_at_mut(explicit.len());
        front.copy_from_slice(explicit);
        let sealed = self.key.seal(&nonce, &additional, plaintext, &[], body)?;
        Ok(HEADER_BYTES + explicit.len() + sealed)
    }

    fn nonce_from_iv(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.keys.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        nonce
    }
}

fn header(content: ContentType, length: usize) -> Result<[u8; HEADER_BYTES], SealError> {
    let [high, low] = u16::try_from(length).map_err(|_| SealError::Library)?.to_be_bytes();
    Ok([content as u8, 3, 3, high, low])
}
