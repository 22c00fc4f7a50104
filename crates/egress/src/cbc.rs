//! Records of CBC suites, for clients of TLS 1.0, 1.1 and early 1.2.

use std::cell::RefCell;

use penstock_sys::aead::Plaintext;
use penstock_sys::cbc::{ADDITIONAL_BYTES, BLOCK_BYTES, CbcKeys, CbcSealingKey, CbcVersion, MAC_BYTES};
use penstock_sys::file::Window;

use crate::batch::Batch;
use crate::framing::{ContentType, HEADER_BYTES};
use crate::pace::RECORD_BYTES;
use crate::send_error::SendError;

/// The most that one record adds.
const RECORD_OVERHEAD_BYTES: usize = HEADER_BYTES + BLOCK_BYTES + MAC_BYTES + BLOCK_BYTES;

/// The most bytes that sealing adds to a plaintext, which may become two records.
pub(crate) const OVERHEAD_BYTES: usize = 2 * RECORD_OVERHEAD_BYTES;

thread_local! {
    // MAC and cipher read the plaintext one after the other: a change in between would make a record that the client
    // takes for forged. So a mapped file is copied first.
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Seals records in order.
pub(crate) struct CbcSealer {
    key: CbcSealingKey,
    version: CbcVersion,
    sequence: u64,
    /// Sealing failed: no client can read records behind a gap.
    broken: bool,
}

impl CbcSealer {
    /// `None` if the library refuses the keys.
    pub(crate) fn new(keys: &CbcKeys) -> Option<Self> {
        let key = CbcSealingKey::new(keys)?;
        Some(Self { key, version: keys.version, sequence: keys.sequence, broken: false })
    }

    pub(crate) fn seal(
        &mut self,
        content: ContentType,
        plaintext: Plaintext<'_>,
        batch: &mut Batch,
    ) -> Result<(), SendError> {
        if self.broken {
            return Err(SendError::KeysWornOut);
        }
        let sealed = match plaintext {
            Plaintext::Memory(bytes) => self.seal_bytes(content, bytes, batch),
            Plaintext::Mapped(window) => self.seal_copy(content, &[], window, batch),
            Plaintext::FramedMapped(head, window) => self.seal_copy(content, head, window, batch),
            Plaintext::Framed(head, bytes) => self.seal_bytes(content, &[head, bytes].concat(), batch),
        };
        self.broken = sealed.is_err();
        sealed
    }

    /// Seals bytes in memory and a copy of bytes of a file.
    fn seal_copy(
        &mut self,
        content: ContentType,
        head: &[u8],
        window: Window<'_>,
        batch: &mut Batch,
    ) -> Result<(), SendError> {
        COPY.with_borrow_mut(|copy| {
            copy.clear();
            copy.extend_from_slice(head);
            copy.resize((head.len() + window.len()).min(RECORD_BYTES), 0);
            window.copy_to(&mut copy[head.len()..]).map_err(|_| SendError::Truncated)?;
            self.seal_bytes(content, copy, batch)
        })
    }

    /// In TLS 1.0 an observer knows the initialisation vector of the next record in advance, and an attacker that chooses
    /// the next bytes of a response could test guesses with it (CVE-2011-3389). A record of one byte before the rest
    /// prevents this, since its MAC cannot be predicted.
    fn seal_bytes(&mut self, content: ContentType, bytes: &[u8], batch: &mut Batch) -> Result<(), SendError> {
        let splits = self.version == CbcVersion::Tls10 && content == ContentType::ApplicationData;
        match bytes.split_at_checked(1).filter(|(_, rest)| splits && !rest.is_empty()) {
            Some((first, rest)) => {
                self.seal_one(content, first, batch)?;
                self.seal_one(content, rest, batch)
            }
            None => self.seal_one(content, bytes, batch),
        }
    }

    fn seal_one(&mut self, content: ContentType, bytes: &[u8], batch: &mut Batch) -> Result<(), SendError> {
        let [major, minor] = self.version.number();
        let mut additional = [0; ADDITIONAL_BYTES];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8..].copy_from_slice(&[content as u8, major, minor]);
        let space = batch.space(bytes.len() + RECORD_OVERHEAD_BYTES).ok_or(SendError::Internal)?;
        let (header, body) = space.split_at_mut(HEADER_BYTES);
        let sealed = self.key.seal(&additional, bytes, body).ok_or(SendError::Internal)?;
        let [high, low] = u16::try_from(sealed).map_err(|_| SendError::Internal)?.to_be_bytes();
        header.copy_from_slice(&[content as u8, major, minor, high, low]);
        self.sequence += 1;
        batch.commit(HEADER_BYTES + sealed);
        Ok(())
    }
}
