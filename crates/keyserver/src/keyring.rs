//! The private keys of a keyserver, by their identifiers.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_keys::TokenKey;
use penstock_tls::digest_signer::DigestSigner;
use penstock_tls::remote_key::KeyId;

/// A private key.
#[derive(Debug)]
pub(crate) struct Key {
    /// The name by which clients are allowed to use it.
    pub(crate) name: String,
    pub(crate) id: KeyId,
    pub(crate) signer: Signer,
}

/// Where a private key is.
#[derive(Debug)]
pub(crate) enum Signer {
    Memory(DigestSigner),
    Token(Arc<TokenKey>),
}

/// One generation of keys.
#[derive(Debug, Default)]
pub(crate) struct Keyring(HashMap<KeyId, Arc<Key>>);

impl Keyring {
    /// Of keys with one identifier the first counts: they are the same key.
    pub(crate) fn new(keys: impl Iterator<Item = Arc<Key>>) -> Self {
        let mut ring = HashMap::new();
        for key in keys {
            ring.entry(key.id).or_insert(key);
        }
        Self(ring)
    }

    pub(crate) fn get(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.0.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
