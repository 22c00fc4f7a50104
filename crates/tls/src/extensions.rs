//! Outcome of the optional extensions of a handshake: ECH, staples, certificate compression.

use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ssl::{ClientHello, ExtensionType, SslRef};
use penstock_metrics::{CertificateCompression, EncryptedHello, Extensions, StapleStatus};
use penstock_sys::ssl;

use crate::compression::Compression;
use crate::ocsp;

/// Bits of the connection's notes.
const ECH_OFFERED: u8 = 1;
const STAPLE_ASKED: u8 = 2;
const STAPLED: u8 = 4;

/// The requests of the client, as bits for [`answer`].
pub(crate) fn asked(hello: &ClientHello<'_>) -> u8 {
    let bit = |extension, bit| if hello.get_extension(extension).is_some() { bit } else { 0 };
    bit(ExtensionType::ENCRYPTED_CLIENT_HELLO, ECH_OFFERED) | bit(ExtensionType::STATUS_REQUEST, STAPLE_ASKED)
}

/// Serves the requests on a connection that has its certificate, and records the outcome.
pub(crate) fn answer(ssl: &mut SslRef, asked: u8) -> Result<(), ErrorStack> {
    let stapled = asked & STAPLE_ASKED != 0 && ocsp::staple(ssl, SystemTime::now())?;
    if let Some(notes) = ssl::notes(ssl) {
        notes.set_marks(if stapled { asked | STAPLED } else { asked });
    }
    Ok(())
}

/// The outcome after a handshake.
pub(crate) fn outcome(ssl: &SslRef) -> Extensions {
    let notes = ssl::notes(ssl);
    let marks = notes.map_or(0, ssl::Notes::marks);
    let encrypted_hello = match marks & ECH_OFFERED {
        _ if ssl.ech_accepted() => EncryptedHello::Accepted,
        0 => EncryptedHello::NotOffered,
        _ => EncryptedHello::Rejected,
    };
    let staple = match (marks & STAPLE_ASKED, marks & STAPLED) {
        (0, _) => StapleStatus::NotAsked,
        _ if ssl.session_reused() => StapleStatus::NotAsked,
        (_, 0) => StapleStatus::Missing,
        (_, _) => StapleStatus::Sent,
    };
    let compression = notes.and_then(|notes| Compression::of_number(notes.compression()));
    let compression = compression.map_or(CertificateCompression::None, Compression::counted);
    Extensions { encrypted_hello, staple, compression }
}
