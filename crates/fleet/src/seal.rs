//! Seals what goes to the store, so that a reader of the store learns nothing and a writer cannot make anything up.
//!
//! Each record has a key of its own: HKDF-SHA256 (RFC 5869) of the fleet's secret with the purpose and a random salt,
//! which goes before the record. So nonces cannot repeat, however many records a fleet writes.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac, rand};
use penstock_sys::traffic::Secret;
use zeroize::Zeroizing;

/// What a record is for. A record of one purpose cannot be opened as one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session of TLS 1.2.
    Session,
    /// Session ticket keys.
    TicketKeys,
    /// A purge.
    Purge,
    /// What an edge says about itself.
    Edge,
    /// A file of the orders of certificates.
    File,
    /// Revoked ids of tokens.
    RevokedIds,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Session => b"session",
            Self::TicketKeys => b"ticket keys",
            Self::Purge => b"purge",
            Self::Edge => b"edge",
            Self::File => b"file",
            Self::RevokedIds => b"revoked ids",
        }
    }
}

/// The first byte of each record.
const VERSION: u8 = 1;
const SALT_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Bytes that sealing adds.
pub(crate) const OVERHEAD_BYTES: usize = 1 + SALT_BYTES + TAG_BYTES;

/// Bytes of a [`Sealer::pseudonym`], written in hexadecimal.
const PSEUDONYM_BYTES: usize = 16;

/// Seals and opens with the secret of a fleet.
pub(crate) struct Sealer {
    root: hkdf::Prk,
    pseudonyms: hmac::Key,
}

/// The length of what HKDF has to make.
#[derive(Clone, Copy)]
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Sealer {
    /// A sealer with this secret; `None` if the library fails.
    pub(crate) fn new(secret: &Secret) -> Option<Self> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"penstock fleet").extract(secret.expose());
        let key = derive(&root, &[b"names"], 32)?;
        let pseudonyms = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Some(Self { root, pseudonyms })
    }

    /// Seals `plain`; it can be opened with the same purpose and context only. `None` if the library fails.
    pub(crate) fn seal(&self, purpose: Purpose, context: &[&[u8]], plain: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let (key, nonce) = self.key(purpose, &salt)?;
        let mut record = Vec::with_capacity(OVERHEAD_BYTES + plain.len());
        record.push(VERSION);
        record.extend_from_slice(&salt);
        let begin = record.len();
        record.extend_from_slice(plain);
        let tag = key.seal_in_place_separate_tag(nonce, associated(context), &mut record[begin..]);
        record.extend_from_slice(tag.ok()?.as_ref());
        Some(record)
    }

    /// Opens a record; `None` if it was not sealed with this secret, purpose and context.
    pub(crate) fn open(&self, purpose: Purpose, context: &[&[u8]], record: &[u8]) -> Option<Secret> {
        let (version, rest) = record.split_first()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
        if *version != VERSION {
            return None;
        }
        let (key, nonce) = self.key(purpose, salt)?;
        let mut bytes = Zeroizing::new(sealed.to_vec());
        let length = key.open_in_place(nonce, associated(context), &mut bytes).ok()?.len();
        Some(Secret::new(bytes[..length].to_vec()))
    }

    /// A name for something in the store, from which a reader of the store cannot tell what it is.
    pub(crate) fn pseudonym(&self, kind: &str, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.pseudonyms);
        for part in std::iter::once(&kind.as_bytes()).chain(parts) {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        hex(&context.sign().as_ref()[..PSEUDONYM_BYTES])
    }

    fn key(&self, purpose: Purpose, salt: &[u8; SALT_BYTES]) -> Option<(LessSafeKey, Nonce)> {
        let made = derive(&self.root, &[purpose.label(), salt], KEY_BYTES + NONCE_BYTES)?;
        let (key, nonce) = made.split_at(KEY_BYTES);
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some((LessSafeKey::new(key), Nonce::try_assume_unique_for_key(nonce).ok()?))
    }
}

fn derive(root: &hkdf::Prk, purpose: &[&[u8]], length: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; length]);
    root.expand(purpose, Length(length)).ok()?.fill(&mut bytes).ok()?;
    Some(bytes)
}

/// All parts, each after its length.
fn associated(context: &[&[u8]]) -> Aad<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in context {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Aad::from(bytes)
}

/// Lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(secret: &[u8]) -> Sealer {
        Sealer::new(&Secret::new(secret.to_vec())).unwrap()
    }

    #[test]
    fn a_record_opens_with_its_secret_purpose_and_context_only() {
        let fleet = sealer(&[7; 32]);
        let record = fleet.seal(Purpose::Session, &[b"id", b"name"], b"master secret").unwrap();
        assert_eq!(record.len(), b"master secret".len() + OVERHEAD_BYTES);
        assert!(!record.windows(6).any(|bytes| bytes == b"master"));
        let opened = |fleet: &Sealer, purpose, context: &[&[u8]], record: &[u8]| {
            fleet.open(purpose, context, record).map(|plain| plain.expose().to_vec())
        };
        let id_name: &[&[u8]] = &[b"id", b"name"];
        assert_eq!(opened(&fleet, Purpose::Session, id_name, &record), Some(b"master secret".to_vec()));
        assert_eq!(opened(&fleet, Purpose::Purge, id_name, &record), None);
        // The boundary between the parts counts.
        assert_eq!(opened(&fleet, Purpose::Session, &[b"idn", b"ame"], &record), None);
        assert_eq!(opened(&sealer(&[8; 32]), Purpose::Session, id_name, &record), None);
        for place in 0..record.len() {
            let mut changed = record.clone();
            changed[place] ^= 1;
            assert_eq!(opened(&fleet, Purpose::Session, id_name, &changed), None, "byte {place}");
            assert_eq!(opened(&fleet, Purpose::Session, id_name, &record[..place]), None, "{place} bytes");
        }
    }

    #[test]
    fn no_two_records_are_alike_and_pseudonyms_depend_on_every_part() {
        let fleet = sealer(&[7; 32]);
        let seal = || fleet.seal(Purpose::Edge, &[], b"same").unwrap();
        assert_ne!(seal()[1..], seal()[1..]);
        let name = fleet.pseudonym("session", &[b"ab", b"c"]);
        assert_eq!((name.len(), &name), (32, &fleet.pseudonym("session", &[b"ab", b"c"])));
        for other in [
            fleet.pseudonym("session", &[b"a", b"bc"]),
            fleet.pseudonym("strike", &[b"ab", b"c"]),
            sealer(&[8; 32]).pseudonym("session", &[b"ab", b"c"]),
        ] {
            assert_ne!(name, other);
        }
    }
}
