//! Messages of the keyless protocol, version 1.0.
//!
//! A message is a header (version, length of the body, number of the request) and a body of items: tag, length, value, all
//! in network byte order. Requests and answers are padded to [`PADDED_BYTES`], so that their sizes tell nothing. Items
//! with an unknown tag are skipped; a known one may appear once.

use std::fmt;
use std::net::IpAddr;

use penstock_tls::remote_key::KeyId;
use penstock_tls::{Hash, SignatureKind};

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 8;

/// Length of a padded message in bytes, header included.
pub const PADDED_BYTES: usize = 1024;

/// Limit on a body in bytes: larger than the signature of any key, with a server name.
pub const BODY_BYTES_MAX: usize = 4096;

const VERSION: [u8; 2] = [1, 0];

/// Length of tag and length of an item.
const ITEM_BYTES: usize = 3;

mod tag {
    pub(super) const SERVER_NAME: u8 = 0x02;
    pub(super) const CLIENT_ADDRESS: u8 = 0x03;
    pub(super) const KEY_ID: u8 = 0x04;
    pub(super) const OPCODE: u8 = 0x11;
    pub(super) const PAYLOAD: u8 = 0x12;
    pub(super) const PADDING: u8 = 0x20;
}

/// What a message asks for, or what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub u8);

impl Opcode {
    /// Asks for a [`Self::PONG`] with the same payload.
    pub const PING: Self = Self(0xf1);
    /// Answers a [`Self::PING`].
    pub const PONG: Self = Self(0xf2);
    /// Answers an operation; the payload is the result.
    pub const RESPONSE: Self = Self(0xf0);
    /// Answers an operation that failed; the payload is one byte, an [`ErrorCode`].
    pub const ERROR: Self = Self(0xff);
    /// RSA decryption. Penstock neither sends nor answers it.
    pub const RSA_DECRYPT: Self = Self(0x01);

    /// The opcode that asks for this kind of signature; `None` if the protocol has none.
    pub fn of(kind: SignatureKind) -> Option<Self> {
        KINDS.iter().find(|(_, known)| *known == kind).map(|(number, _)| Self(*number))
    }

    /// The kind of signature that it asks for; `None` if it asks for none.
    pub fn signature(self) -> Option<SignatureKind> {
        KINDS.iter().find(|(number, _)| *number == self.0).map(|(_, kind)| *kind)
    }

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self.signature() {
            Some(SignatureKind::RsaPkcs1(_)) => "rsa_pkcs1",
            Some(SignatureKind::RsaPss(_)) => "rsa_pss",
            Some(SignatureKind::Ecdsa(_)) => "ecdsa",
            Some(SignatureKind::Ed25519) => "ed25519",
            None if self == Self::PING => "ping",
            None if self == Self::RSA_DECRYPT => "rsa_decrypt",
            None => "other",
        }
    }

    /// Whether it belongs to an answer.
    pub fn is_answer(self) -> bool {
        [Self::RESPONSE, Self::ERROR, Self::PONG].contains(&self)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x})", self.0)
    }
}

const KINDS: [(u8, SignatureKind); 16] = [
    (0x02, SignatureKind::RsaPkcs1(Hash::Md5Sha1)),
    (0x03, SignatureKind::RsaPkcs1(Hash::Sha1)),
    (0x04, SignatureKind::RsaPkcs1(Hash::Sha224)),
    (0x05, SignatureKind::RsaPkcs1(Hash::Sha256)),
    (0x06, SignatureKind::RsaPkcs1(Hash::Sha384)),
    (0x07, SignatureKind::RsaPkcs1(Hash::Sha512)),
    (0x35, SignatureKind::RsaPss(Hash::Sha256)),
    (0x36, SignatureKind::RsaPss(Hash::Sha384)),
    (0x37, SignatureKind::RsaPss(Hash::Sha512)),
    (0x12, SignatureKind::Ecdsa(Hash::Md5Sha1)),
    (0x13, SignatureKind::Ecdsa(Hash::Sha1)),
    (0x14, SignatureKind::Ecdsa(Hash::Sha224)),
    (0x15, SignatureKind::Ecdsa(Hash::Sha256)),
    (0x16, SignatureKind::Ecdsa(Hash::Sha384)),
    (0x17, SignatureKind::Ecdsa(Hash::Sha512)),
    (0x18, SignatureKind::Ed25519),
];

/// Why an operation failed, as one byte of an [`Opcode::ERROR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorCode {
    /// The library failed, or the digest has the wrong length.
    Cryptography = 1,
    /// There is no such key, or this client may not use it.
    KeyNotFound = 2,
    /// The message is of another version.
    VersionMismatch = 4,
    /// The operation is not offered.
    BadOpcode = 5,
    /// The opcode belongs to an answer.
    UnexpectedOpcode = 6,
    /// The message is malformed.
    Malformed = 7,
    /// The server is overloaded, or has failed otherwise.
    Internal = 8,
}

impl ErrorCode {
    /// The word in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cryptography => "cryptography",
            Self::KeyNotFound => "key_not_found",
            Self::VersionMismatch => "version_mismatch",
            Self::BadOpcode => "bad_opcode",
            Self::UnexpectedOpcode => "unexpected_opcode",
            Self::Malformed => "malformed",
            Self::Internal => "internal",
        }
    }
}

/// A message. Its fields borrow from what was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// The number that connects an answer with its request.
    pub id: u32,
    /// What is asked or answered.
    pub opcode: Opcode,
    /// A digest, a signature, or one byte of an error.
    pub payload: &'m [u8],
    /// The key.
    pub key: Option<KeyId>,
    /// The server name that a client of the edge sent.
    pub server_name: Option<&'m str>,
    /// The address of that client.
    pub client: Option<IpAddr>,
}

impl<'m> Message<'m> {
    /// A message with opcode and payload only.
    pub fn new(id: u32, opcode: Opcode, payload: &'m [u8]) -> Self {
        Self { id, opcode, payload, key: None, server_name: None, client: None }
    }
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the request.
    pub id: u32,
    /// Length of the body in bytes; at most [`BODY_BYTES_MAX`].
    pub body_bytes: usize,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Another version. The connection cannot be used any more.
    Version,
    /// The body is longer than [`BODY_BYTES_MAX`]. The connection cannot be used any more.
    TooLong,
    /// An item ends behind the body, appears twice, or has the wrong length; or there is no opcode.
    Malformed,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the message is not of version 1.0",
            Self::TooLong => "the message is too long",
            Self::Malformed => "the message is malformed",
        })
    }
}

impl std::error::Error for ProtocolError {}

/// Decodes a header.
///
/// # Errors
/// [`ProtocolError::Version`] or [`ProtocolError::TooLong`].
pub fn decode_header(bytes: [u8; HEADER_BYTES]) -> Result<Header, ProtocolError> {
    let [major, minor, high, low, id @ ..] = bytes;
    if [major, minor] != VERSION {
        return Err(ProtocolError::Version);
    }
    let body_bytes = usize::from(u16::from_be_bytes([high, low]));
    if body_bytes > BODY_BYTES_MAX {
        return Err(ProtocolError::TooLong);
    }
    Ok(Header { id: u32::from_be_bytes(id), body_bytes })
}

/// Decodes the body of a message.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub fn decode_body(id: u32, body: &[u8]) -> Result<Message<'_>, ProtocolError> {
    let malformed = ProtocolError::Malformed;
    let (mut opcode, mut payload, mut key, mut server_name, mut client) = (None, None, None, None, None);
    let mut rest = body;
    while !rest.is_empty() {
        let (&[tag, high, low], behind) = rest.split_first_chunk::<ITEM_BYTES>().ok_or(malformed)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, behind) = behind.split_at_checked(length).ok_or(malformed)?;
        rest = behind;
        let repeated = match tag {
            tag::OPCODE => opcode.replace(<[u8; 1]>::try_from(value).map_err(|_| malformed)?).is_some(),
            tag::PAYLOAD => payload.replace(value).is_some(),
            tag::KEY_ID => key.replace(KeyId(value.try_into().map_err(|_| malformed)?)).is_some(),
            tag::SERVER_NAME => server_name.replace(str::from_utf8(value).map_err(|_| malformed)?).is_some(),
            tag::CLIENT_ADDRESS => client.replace(address(value).ok_or(malformed)?).is_some(),
            _ => false,
        };
        if repeated {
            return Err(malformed);
        }
    }
    let [opcode] = opcode.ok_or(malformed)?;
    Ok(Message { id, opcode: Opcode(opcode), payload: payload.unwrap_or_default(), key, server_name, client })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(value) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

/// Encodes a message, padded to [`PADDED_BYTES`] if it is shorter.
///
/// # Errors
/// [`ProtocolError::TooLong`] if the body would be longer than [`BODY_BYTES_MAX`].
pub fn encode(message: &Message<'_>) -> Result<Vec<u8>, ProtocolError> {
    let mut bytes = Vec::with_capacity(PADDED_BYTES);
    bytes.extend_from_slice(&VERSION);
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&message.id.to_be_bytes());
    put(&mut bytes, tag::OPCODE, &[message.opcode.0])?;
    if let Some(KeyId(id)) = &message.key {
        put(&mut bytes, tag::KEY_ID, id)?;
    }
    if let Some(name) = message.server_name {
        put(&mut bytes, tag::SERVER_NAME, name.as_bytes())?;
    }
    match message.client {
        Some(IpAddr::V4(address)) => put(&mut bytes, tag::CLIENT_ADDRESS, &address.octets())?,
        Some(IpAddr::V6(address)) => put(&mut bytes, tag::CLIENT_ADDRESS, &address.octets())?,
        None => {}
    }
    put(&mut bytes, tag::PAYLOAD, message.payload)?;
    if let Some(space) = PADDED_BYTES.checked_sub(bytes.len() + ITEM_BYTES) {
        put(&mut bytes, tag::PADDING, &[0; PADDED_BYTES][..space])?;
    }
    let length = u16::try_from(bytes.len() - HEADER_BYTES).map_err(|_| ProtocolError::TooLong)?;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

fn put(bytes: &mut Vec<u8>, tag: u8, value: &[u8]) -> Result<(), ProtocolError> {
    if bytes.len() - HEADER_BYTES + ITEM_BYTES + value.len() > BODY_BYTES_MAX {
        return Err(ProtocolError::TooLong);
    }
    let length = u16::try_from(value.len()).map_err(|_| ProtocolError::TooLong)?;
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(value);
    Ok(())
}

/// The body of the fuzz target `keyless`: arbitrary bytes as a message. What is decoded is the same after encoding.
///
/// # Panics
/// When it is not.
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub fn fuzz_keyless(input: &[u8]) {
    let Some((header, body)) = input.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = decode_header(*header) else { return };
    assert!(header.body_bytes <= BODY_BYTES_MAX);
    let body = &body[..body.len().min(header.body_bytes)];
    let Ok(message) = decode_body(header.id, body) else { return };
    assert_eq!(message.opcode.signature().and_then(Opcode::of).unwrap_or(message.opcode), message.opcode);
    // An item that was skipped leaves space for the payload that an absent one becomes.
    let Ok(bytes) = encode(&message) else { return };
    assert!(bytes.len() >= PADDED_BYTES - ITEM_BYTES);
    let (again, body) = bytes.split_first_chunk::<HEADER_BYTES>().expect("it has a header");
    let again = decode_header(*again).expect("it is of this version");
    assert_eq!(again.body_bytes, body.len());
    assert_eq!(decode_body(again.id, body), Ok(message));
}

#[cfg(test)]
mod tests;
