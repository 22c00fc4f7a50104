//! Session ticket keys that the library asks for, one ticket at a time.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use boring::hash::{MessageDigest, hmac_sha256};
use boring::hmac::HmacCtxRef;
use boring::memcmp;
use boring::ssl::{SslContextBuilder, SslRef, TicketKeyCallbackResult};
use boring::symm::{self, Cipher, CipherCtxRef};
use boring_sys as ffi;

use crate::traffic::Secret;

/// Bytes of the name of a key, which begins each ticket.
pub const TICKET_NAME_BYTES: usize = 16;

/// An AES block, and so the initialisation vector behind the name.
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
    /// A key with the name that stands in its tickets. `None` unless `encryption` has the length of a key of
    /// AES-128 or AES-256.
    pub fn new(name: [u8; TICKET_NAME_BYTES], authentication: Secret, encryption: Secret) -> Option<Self> {
        matches!(encryption.expose().len(), 16 | 32).then_some(Self { name, authentication, encryption })
    }

    /// What stands at the beginning of each of its tickets; no secret.
    pub fn name(&self) -> &[u8; TICKET_NAME_BYTES] {
        &self.name
    }

    /// Bits of its AES key.
    pub fn bits(&self) -> usize {
        8 * self.encryption.expose().len()
    }

    /// Whether both seal alike. The time it takes tells nothing but their lengths.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |one: &Secret, two: &Secret| {
            one.expose().len() == two.expose().len() && memcmp::eq(one.expose(), two.expose())
        };
        self.name == other.name
            && same(&self.authentication, &other.authentication)
            && same(&self.encryption, &other.encryption)
    }

    /// What a ticket of this key holds; `None` if this key did not make it.
    pub fn open(&self, ticket: &[u8]) -> Option<Secret> {
        let (authentic, mac) = ticket.split_at_checked(ticket.len().checked_sub(MAC_BYTES)?)?;
        let expected = hmac_sha256(self.authentication.expose(), authentic).ok()?;
        if !memcmp::eq(&expected, mac) {
            return None;
        }
        let (iv, sealed) = authentic.get(TICKET_NAME_BYTES..)?.split_at_checked(IV_BYTES)?;
        symm::decrypt(self.cipher(), self.encryption.expose(), Some(iv), sealed).ok().map(Secret::new)
    }

    fn cipher(&self) -> Cipher {
        if self.encryption.expose().len() == 16 { Cipher::aes_128_cbc() } else { Cipher::aes_256_cbc() }
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("bits", &self.bits()).finish_non_exhaustive()
    }
}

/// Where ticket keys come from. Asked by handshakes, so it must not wait for anything.
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

/// What became of the tickets of one connection, as far as the library tells.
#[derive(Debug, Default)]
pub struct TicketNotes {
    issued: AtomicU32,
    lookup: Mutex<Option<Lookup>>,
    offered: Mutex<Option<Vec<u8>>>,
}

/// What the library was told when it asked for the key of a ticket.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// There is none of that name.
    Unknown,
    /// This one.
    Found(FoundKey),
}

impl TicketNotes {
    /// Tickets made for the client.
    pub fn issued(&self) -> u32 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Keeps the ticket that the client offers, for whoever wants to know why it was not accepted.
    pub fn set_offered(&self, ticket: Option<&[u8]>) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = ticket.map(<[u8]>::to_vec);
    }

    /// Takes that ticket.
    pub fn take_offered(&self) -> Option<Vec<u8>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the answer to the library's question; `None` if it did not ask.
    pub fn take_lookup(&self) -> Option<Lookup> {
        self.lookup.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set_lookup(&self, lookup: Lookup) {
        *self.lookup.lock().unwrap_or_else(PoisonError::into_inner) = Some(lookup);
    }
}

/// How long sessions may be resumed. A resumption in TLS 1.2 does not extend it; one in TLS 1.3 does, to at most seven
/// days after the full handshake.
pub fn set_session_lifetime(builder: &mut SslContextBuilder, lifetime: Duration) {
    // Zero would mean the library's default.
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
    // SAFETY: the context outlives the call, which stores a number.
    unsafe { ffi::SSL_CTX_set_timeout(builder.as_ptr(), seconds) };
    // SAFETY: as above.
    unsafe { ffi::SSL_CTX_set_session_psk_dhe_timeout(builder.as_ptr(), seconds) };
}

type TicketIv = [u8; ffi::EVP_MAX_IV_LENGTH as usize];

/// Has the context seal and open session tickets with these keys (RFC 5077 §4 layout).
pub fn set_ticket_keys(builder: &mut SslContextBuilder, keys: Arc<dyn TicketKeys>) {
    let callback = move |ssl: &SslRef,
                         name: &mut [u8; TICKET_NAME_BYTES],
                         iv: &mut TicketIv,
                         cipher: &mut CipherCtxRef,
                         hmac: &mut HmacCtxRef,
                         encrypt: bool| {
        let notes = super::notes(ssl).map(super::Notes::tickets);
        if encrypt {
            // A client that resumes has used one ticket up and gets one back; two only pile up (OpenSSL does the same).
            let enough = ssl.session_reused() && notes.is_some_and(|notes| notes.issued() > 0);
            if enough {
                return TicketKeyCallbackResult::Noop;
            }
            let result = seal_ticket(&keys.sealing(), name, iv, cipher, hmac);
            if let Some(notes) = notes.filter(|_| result == TicketKeyCallbackResult::Success) {
                notes.issued.fetch_add(1, Ordering::Relaxed);
            }
            return result;
        }
        let found = keys.find(name);
        let result = open_ticket(found.as_ref(), iv, cipher, hmac);
        if let Some(notes) = notes {
            notes.set_lookup(found.map_or(Lookup::Unknown, Lookup::Found));
        }
        result
    };
    // SAFETY: `callback` sets key name, IV, cipher and HMAC before it reports success, as the contract asks.
    unsafe { builder.set_ticket_key_callback(callback) };
}

fn seal_ticket(
    key: &TicketKey,
    name: &mut [u8; TICKET_NAME_BYTES],
    iv: &mut TicketIv,
    cipher: &mut CipherCtxRef,
    hmac: &mut HmacCtxRef,
) -> TicketKeyCallbackResult {
    *name = key.name;
    let keyed = boring::rand::rand_bytes(iv)
        .and_then(|()| cipher.init_encrypt(&key.cipher(), key.encryption.expose(), iv))
        .and_then(|()| hmac.init(key.authentication.expose(), &MessageDigest::sha256()));
    match keyed {
        Ok(()) => TicketKeyCallbackResult::Success,
        Err(_) => TicketKeyCallbackResult::Error,
    }
}

fn open_ticket(
    found: Option<&FoundKey>,
    iv: &TicketIv,
    cipher: &mut CipherCtxRef,
    hmac: &mut HmacCtxRef,
) -> TicketKeyCallbackResult {
    let Some(FoundKey { key, is_old }) = found else { return TicketKeyCallbackResult::Noop };
    let keyed = cipher
        .init_decrypt(&key.cipher(), key.encryption.expose(), iv)
        .and_then(|()| hmac.init(key.authentication.expose(), &MessageDigest::sha256()));
    match (keyed, is_old) {
        (Ok(()), false) => TicketKeyCallbackResult::Success,
        (Ok(()), true) => TicketKeyCallbackResult::DecryptSuccessRenew,
        (Err(_), _) => TicketKeyCallbackResult::Error,
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
