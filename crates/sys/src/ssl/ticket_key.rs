//! Session ticket keys (RFC 5077 §4), and notes about the tickets of a connection.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use boring::hash::hmac_sha256;
use boring::memcmp;
use boring::symm::{self, Cipher};

use crate::lock::Unpoisoned;
use crate::secret::Secret;

/// Bytes of the name of a key, which begins each ticket.
pub const TICKET_NAME_BYTES: usize = 16;

/// Bytes of an AES block and of the initialisation vector after the name.
const IV_BYTES: usize = 16;

/// HMAC-SHA256, which ends each ticket.
const MAC_BYTES: usize = 32;

/// One session ticket key: AES-CBC, then HMAC-SHA256 over everything before it (RFC 5077 §4).
pub struct TicketKey {
    name: [u8; TICKET_NAME_BYTES],
    authentication: Secret,
    encryption: Secret,
}

impl TicketKey {
    /// A key whose tickets begin with `name`. `None` unless `encryption` has the length of an AES-128 or AES-256 key.
    pub fn new(name: [u8; TICKET_NAME_BYTES], authentication: Secret, encryption: Secret) -> Option<Self> {
        matches!(encryption.expose().len(), 16 | 32).then_some(Self { name, authentication, encryption })
    }

    /// The name at the beginning of each of its tickets; not secret.
    pub fn name(&self) -> &[u8; TICKET_NAME_BYTES] {
        &self.name
    }

    /// Bits of its AES key.
    pub fn bits(&self) -> usize {
        8 * self.encryption.expose().len()
    }

    /// Compares two keys in constant time.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |one: &Secret, two: &Secret| {
            one.expose().len() == two.expose().len() && memcmp::eq(one.expose(), two.expose())
        };
        self.name == other.name
            && same(&self.authentication, &other.authentication)
            && same(&self.encryption, &other.encryption)
    }

    /// Opens a ticket; `None` if this key did not seal it.
    pub fn open(&self, ticket: &[u8]) -> Option<Secret> {
        let (authentic, mac) = ticket.split_at_checked(ticket.len().checked_sub(MAC_BYTES)?)?;
        let expected = hmac_sha256(self.authentication.expose(), authentic).ok()?;
        if !memcmp::eq(&expected, mac) {
            return None;
        }
        let (iv, sealed) = authentic.get(TICKET_NAME_BYTES..)?.split_at_checked(IV_BYTES)?;
        symm::decrypt(self.cipher(), self.encryption.expose(), Some(iv), sealed).ok().map(Secret::new)
    }

    pub(super) fn authentication(&self) -> &[u8] {
        self.authentication.expose()
    }

    pub(super) fn encryption(&self) -> &[u8] {
        self.encryption.expose()
    }

    pub(super) fn cipher(&self) -> Cipher {
        if self.encryption.expose().len() == 16 { Cipher::aes_128_cbc() } else { Cipher::aes_256_cbc() }
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("bits", &self.bits()).finish_non_exhaustive()
    }
}

/// Source of ticket keys. Handshakes call it, so it must not block.
pub trait TicketKeys: Send + Sync + 'static {
    /// The key for new tickets.
    fn sealing(&self) -> Arc<TicketKey>;
    /// The key of that name.
    fn find(&self, name: &[u8; TICKET_NAME_BYTES]) -> Option<FoundKey>;
}

/// A key that opens a ticket.
#[derive(Clone, Debug)]
pub struct FoundKey {
    /// The key.
    pub key: Arc<TicketKey>,
    /// Whether a newer one seals by now, so that the client should get a new ticket.
    pub is_old: bool,
}

/// Notes about the tickets of one connection.
#[derive(Debug, Default)]
pub struct TicketNotes {
    issued: AtomicU32,
    lookup: Mutex<Option<TicketKeyLookup>>,
    offered: Mutex<Option<Vec<u8>>>,
}

/// Result of the library's lookup of a ticket key.
#[derive(Clone, Debug)]
pub enum TicketKeyLookup {
    /// No key of that name.
    Unknown,
    /// This one.
    Found(FoundKey),
}

impl TicketNotes {
    /// Tickets made for the client.
    pub fn issued(&self) -> u32 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Keeps the offered ticket, to find out later why it was refused.
    pub fn set_offered(&self, ticket: Option<&[u8]>) {
        *self.offered.lock().unpoisoned() = ticket.map(<[u8]>::to_vec);
    }

    /// Takes that ticket.
    pub fn take_offered(&self) -> Option<Vec<u8>> {
        self.offered.lock().unpoisoned().take()
    }

    /// Takes the result of the lookup; `None` if there was none.
    pub fn take_lookup(&self) -> Option<TicketKeyLookup> {
        self.lookup.lock().unpoisoned().take()
    }

    pub(super) fn add_issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_lookup(&self, lookup: TicketKeyLookup) {
        *self.lookup.lock().unpoisoned() = Some(lookup);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bits: usize) -> TicketKey {
        TicketKey::new([7; 16], Secret::new(vec![1; 16]), Secret::new(vec![2; bits / 8])).unwrap()
    }

    fn sealed(key: &TicketKey, content: &[u8]) -> Vec<u8> {
        let iv = [3; IV_BYTES];
        let sealed = symm::encrypt(key.cipher(), key.encryption.expose(), Some(&iv), content).unwrap();
        let mut ticket = [&key.name[..], &iv, &sealed].concat();
        ticket.extend(hmac_sha256(key.authentication.expose(), &ticket).unwrap());
        ticket
    }

    #[test]
    fn a_key_opens_what_it_sealed() {
        for bits in [128, 256] {
            let key = key(bits);
            assert_eq!(key.bits(), bits);
            assert_eq!(key.open(&sealed(&key, b"session")).unwrap().expose(), b"session");
        }
    }

    #[test]
    fn no_other_bytes_are_opened() {
        let key = key(256);
        let ticket = sealed(&key, b"session");
        for place in 0..ticket.len() {
            let mut flipped = ticket.clone();
            flipped[place] ^= 1;
            assert!(key.open(&flipped).is_none(), "byte {place}");
            assert!(key.open(&ticket[..place]).is_none(), "{place} bytes");
        }
        assert!(key.open(&[ticket, vec![0; 20_000]].concat()).is_none());
    }

    #[test]
    fn keys_of_other_lengths_are_none() {
        for length in [0, 15, 24, 33] {
            let encryption = Secret::new(vec![0; length]);
            assert!(TicketKey::new([0; 16], Secret::new(vec![0; 32]), encryption).is_none(), "{length}");
        }
    }

    #[test]
    fn no_byte_of_a_key_is_shown() {
        assert_eq!(format!("{:?}", key(128)), "TicketKey { bits: 128, .. }");
    }
}
