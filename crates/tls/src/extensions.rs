//! What a client asked for in its extensions beyond the plain exchange, and what it got.

use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ssl::{ClientHello, ExtensionType, SslRef};
use penstock_sys::ssl;

use crate::compression::Compression;
use crate::ocsp;

/// What became of the extensions of one handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extensions {
    /// Whether the ClientHello came encrypted.
    pub encrypted_hello: EncryptedHello,
    /// Whether an OCSP response went with the certificate.
    pub staple: Staple,
    /// How the certificate was compressed; `None` if it was not, or if none was sent.
    pub compression: Option<Compression>,
}

/// Whether the ClientHello came encrypted (ECH, RFC 9849).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptedHello {
    /// It was opened with one of our keys.
    Accepted,
    /// There was something that none of our keys opens: an old key, or noise that clients send so that servers stay
    /// used to it (GREASE). The two cannot be told apart, by design.
    Rejected,
    /// It was a plain one.
    NotOffered,
}

/// Whether an OCSP response went with the certificate (RFC 6066 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staple {
    /// The client asked and got it.
    Sent,
    /// The client asked and there was none to send.
    Missing,
    /// The client did not ask, or resumed a session, which takes no certificate.
    NotAsked,
}

/// Bits of the connection's notes.
const ECH_OFFERED: u8 = 1;
const STAPLE_ASKED: u8 = 2;
const STAPLED: u8 = 4;

/// What the client asks for, as bits for [`answer`].
pub(crate) fn asked(hello: &ClientHello<'_>) -> u8 {
    let bit = |extension, bit| if hello.get_extension(extension).is_some() { bit } else { 0 };
    bit(ExtensionType::ENCRYPTED_CLIENT_HELLO, ECH_OFFERED) | bit(ExtensionType::STATUS_REQUEST, STAPLE_ASKED)
}

/// Gives a connection that has its certificate what was asked for, and keeps the outcome until the handshake is
/// over.
pub(crate) fn answer(ssl: &mut SslRef, asked: u8) -> Result<(), ErrorStack> {
    let stapled = asked & STAPLE_ASKED != 0 && ocsp::staple(ssl, SystemTime::now())?;
    if let Some(notes) = ssl::notes(ssl) {
        notes.set_marks(if stapled { asked | STAPLED } else { asked });
    }
    Ok(())
}

/// What became of it in a finished handshake.
pub(crate) fn outcome(ssl: &SslRef) -> Extensions {
    let notes = ssl::notes(ssl);
    let marks = notes.map_or(0, ssl::Notes::marks);
    let encrypted_hello = match marks & ECH_OFFERED {
        _ if ssl.ech_accepted() => EncryptedHello::Accepted,
        0 => EncryptedHello::NotOffered,
        _ => EncryptedHello::Rejected,
    };
    let staple = match (marks & STAPLE_ASKED, marks & STAPLED) {
        (0, _) => Staple::NotAsked,
        _ if ssl.session_reused() => Staple::NotAsked,
        (_, 0) => Staple::Missing,
        (_, _) => Staple::Sent,
    };
    let compression = notes.and_then(|notes| Compression::of_number(notes.compression()));
    Extensions { encrypted_hello, staple, compression }
}
