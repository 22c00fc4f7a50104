//! Session ticket keys that the library asks for, one ticket at a time.

use boring::hmac::HmacCtxRef;
use boring::ssl::{SslContextBuilder, SslRef, TicketKeyCallbackResult};
use boring::symm::{Cipher, CipherCtxRef};
use boring_sys as ffi;

use crate::traffic::Secret;

/// The keys of one session ticket key, in the layout of the 80-byte files that nginx and HAProxy share.
#[derive(Clone, Debug)]
pub struct TicketKey {
    /// Names the key inside the ticket.
    pub name: [u8; 16],
    /// HMAC-SHA256 key, 32 bytes.
    pub authentication: Secret,
    /// AES-256-CBC key, 32 bytes.
    pub encryption: Secret,
}

/// Where ticket keys come from.
pub trait TicketKeys: Send + Sync + 'static {
    /// The key for new tickets.
    fn current(&self) -> TicketKey;
    /// The key of that name, and whether the ticket should be renewed because the key is an old one.
    fn find(&self, name: &[u8; 16]) -> Option<(TicketKey, bool)>;
}

type TicketIv = [u8; ffi::EVP_MAX_IV_LENGTH as usize];

/// Has the context seal and open session tickets with these keys (RFC 5077 §4 layout).
pub fn set_ticket_keys(builder: &mut SslContextBuilder, keys: std::sync::Arc<dyn TicketKeys>) {
    let callback = move |_: &SslRef,
                         name: &mut [u8; 16],
                         iv: &mut TicketIv,
                         cipher: &mut CipherCtxRef,
                         hmac: &mut HmacCtxRef,
                         encrypt: bool| {
        if encrypt {
            seal_ticket(&keys.current(), name, iv, cipher, hmac)
        } else {
            open_ticket(keys.find(name), iv, cipher, hmac)
        }
    };
    // SAFETY: `callback` sets key name, IV, cipher and HMAC before it reports success, as the contract asks.
    unsafe { builder.set_ticket_key_callback(callback) };
}

fn seal_ticket(
    key: &TicketKey,
    name: &mut [u8; 16],
    iv: &mut TicketIv,
    cipher: &mut CipherCtxRef,
    hmac: &mut HmacCtxRef,
) -> TicketKeyCallbackResult {
    *name = key.name;
    let keyed = boring::rand::rand_bytes(iv)
        .and_then(|()| cipher.init_encrypt(&Cipher::aes_256_cbc(), key.encryption.expose(), iv))
        .and_then(|()| hmac.init(key.authentication.expose(), &boring::hash::MessageDigest::sha256()));
    match keyed {
        Ok(()) => TicketKeyCallbackResult::Success,
        Err(_) => TicketKeyCallbackResult::Error,
    }
}

fn open_ticket(
    found: Option<(TicketKey, bool)>,
    iv: &TicketIv,
    cipher: &mut CipherCtxRef,
    hmac: &mut HmacCtxRef,
) -> TicketKeyCallbackResult {
    let Some((key, renew)) = found else { return TicketKeyCallbackResult::Noop };
    let keyed = cipher
        .init_decrypt(&Cipher::aes_256_cbc(), key.encryption.expose(), iv)
        .and_then(|()| hmac.init(key.authentication.expose(), &boring::hash::MessageDigest::sha256()));
    match (keyed, renew) {
        (Ok(()), false) => TicketKeyCallbackResult::Success,
        (Ok(()), true) => TicketKeyCallbackResult::DecryptSuccessRenew,
        (Err(_), _) => TicketKeyCallbackResult::Error,
    }
}
