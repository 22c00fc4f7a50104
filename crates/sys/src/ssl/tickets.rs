//! Callbacks that seal and open session tickets.

use std::sync::Arc;
use std::time::Duration;

use boring::hash::MessageDigest;
use boring::hmac::HmacCtxRef;
use boring::ssl::{SslContextBuilder, SslRef, TicketKeyCallbackResult};
use boring::symm::CipherCtxRef;
use boring_sys as ffi;

use super::notes::{Notes, notes};
use super::ticket_key::{FoundKey, TICKET_NAME_BYTES, TicketKey, TicketKeyLookup, TicketKeys};

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

/// Makes the context seal and open session tickets with these keys, in the layout of RFC 5077 §4.
pub fn set_ticket_keys(builder: &mut SslContextBuilder, keys: Arc<dyn TicketKeys>) {
    let callback = move |ssl: &SslRef,
                         name: &mut [u8; TICKET_NAME_BYTES],
                         iv: &mut TicketIv,
                         cipher: &mut CipherCtxRef,
                         hmac: &mut HmacCtxRef,
                         encrypt: bool| {
        let notes = notes(ssl).map(Notes::tickets);
        if encrypt {
            // A resuming client has used one ticket and gets one, like with OpenSSL.
            let enough = ssl.session_reused() && notes.is_some_and(|notes| notes.issued() > 0);
            if enough {
                return TicketKeyCallbackResult::Noop;
            }
            let result = seal_ticket(&keys.sealing(), name, iv, cipher, hmac);
            if let Some(notes) = notes.filter(|_| result == TicketKeyCallbackResult::Success) {
                notes.add_issued();
            }
            return result;
        }
        let found = keys.find(name);
        let result = open_ticket(found.as_ref(), iv, cipher, hmac);
        if let Some(notes) = notes {
            notes.set_lookup(found.map_or(TicketKeyLookup::Unknown, TicketKeyLookup::Found));
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
    *name = *key.name();
    let keyed = boring::rand::rand_bytes(iv)
        .and_then(|()| cipher.init_encrypt(&key.cipher(), key.encryption(), iv))
        .and_then(|()| hmac.init(key.authentication(), &MessageDigest::sha256()));
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
        .init_decrypt(&key.cipher(), key.encryption(), iv)
        .and_then(|()| hmac.init(key.authentication(), &MessageDigest::sha256()));
    match (keyed, is_old) {
        (Ok(()), false) => TicketKeyCallbackResult::Success,
        (Ok(()), true) => TicketKeyCallbackResult::DecryptSuccessRenew,
        (Err(_), _) => TicketKeyCallbackResult::Error,
    }
}
