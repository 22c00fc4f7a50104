//! The formats of ticket key files.
//!
//! Raw, as nginx and one-nio read them, told by their length:
//!
//! | bytes | name | then | then |
//! |---|---|---|---|
//! | 48 | 16 | AES-128 key, 16 | HMAC key, 16 |
//! | 80 | 16 | HMAC key, 32 | AES-256 key, 32 |
//!
//! Text, as HAProxy reads it: one key per line in Base64 (RFC 4648 §4), oldest first. HAProxy has the AES key before
//! the HMAC key in both lengths. The last of several lines is only introduced: it opens tickets, and seals once
//! another one follows.

use std::fmt;

use penstock_sys::ssl::{TICKET_NAME_BYTES, TicketKey};
use penstock_sys::traffic::Secret;

use crate::random::{NoRandomness, fill};

/// Bytes of a key with AES-128.
const SHORT_BYTES: usize = 48;

/// Bytes of a key with AES-256.
const LONG_BYTES: usize = 80;

/// The contents of a file.
#[derive(Debug)]
pub struct ParsedKeys {
    /// The keys, oldest first.
    pub keys: Vec<TicketKey>,
    /// Whether the last key only opens tickets until another one follows.
    pub last_is_introduced: bool,
    /// The first line that is no key, if others are.
    pub fault: Option<NotAKey>,
}

/// Why a file holds no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAKey {
    /// So many bytes, which are no text either.
    Length(usize),
    /// The line, counted from 1.
    Line(usize),
    /// One byte repeats: the key is not random.
    Repeated,
}

impl fmt::Display for NotAKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(0) => f.write_str("is empty"),
            Self::Length(bytes) => {
                write!(f, "has {bytes} bytes: a key has 48 or 80, or one line of Base64")
            }
            Self::Line(line) => write!(f, "has no key of 48 or 80 bytes in Base64 in line {line}"),
            Self::Repeated => f.write_str("repeats one byte: this key is not random"),
        }
    }
}

/// Reads the content of a key file.
///
/// # Errors
/// When there is no key in it at all.
pub fn parse(content: &Secret) -> Result<ParsedKeys, NotAKey> {
    let bytes = content.expose();
    if matches!(bytes.len(), SHORT_BYTES | LONG_BYTES) {
        let key = key(bytes, SecretOrder::Nginx).ok_or(NotAKey::Repeated)?;
        return Ok(ParsedKeys { keys: vec![key], last_is_introduced: false, fault: None });
    }
    let text = str::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty());
    let text = text.ok_or(NotAKey::Length(bytes.len()))?;
    let mut keys = Vec::new();
    let mut fault = None;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match key_of_line(line.trim(), index + 1) {
            Ok(key) => keys.push(key),
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    match fault {
        Some(fault) if keys.is_empty() => Err(fault),
        fault => Ok(ParsedKeys { last_is_introduced: keys.len() > 1, keys, fault }),
    }
}

/// A fresh key of 80 bytes, as it stands in a file.
///
/// # Errors
/// When the system has no randomness to give.
pub fn generate() -> Result<Secret, NoRandomness> {
    let mut bytes = vec![0; LONG_BYTES];
    fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}

/// Which of the two secrets of a long key comes first.
#[derive(Clone, Copy)]
enum SecretOrder {
    Nginx,
    HaProxy,
}

fn key_of_line(line: &str, number: usize) -> Result<TicketKey, NotAKey> {
    let bytes = boring::base64::decode_block(line).map(Secret::new).map_err(|_| NotAKey::Line(number))?;
    if !matches!(bytes.expose().len(), SHORT_BYTES | LONG_BYTES) {
        return Err(NotAKey::Line(number));
    }
    key(bytes.expose(), SecretOrder::HaProxy).ok_or(NotAKey::Repeated)
}

fn key(bytes: &[u8], order: SecretOrder) -> Option<TicketKey> {
    let (name, secrets) = bytes.split_first_chunk::<TICKET_NAME_BYTES>()?;
    let (first, second) = secrets.split_at(secrets.len() / 2);
    let is_repeated = |bytes: &[u8]| bytes.iter().all(|byte| *byte == bytes[0]);
    if is_repeated(first) || is_repeated(second) {
        return None;
    }
    let (authentication, encryption) = match order {
        SecretOrder::Nginx if bytes.len() == LONG_BYTES => (first, second),
        SecretOrder::Nginx | SecretOrder::HaProxy => (second, first),
    };
    TicketKey::new(*name, Secret::new(authentication.to_vec()), Secret::new(encryption.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that count up, so that each part of a key can be told.
    fn counting(length: u8) -> Vec<u8> {
        (0..length).collect()
    }

    fn read(bytes: impl Into<Vec<u8>>) -> Result<ParsedKeys, NotAKey> {
        parse(&Secret::new(bytes.into()))
    }

    fn expected(
        bytes: &[u8],
        authentication: std::ops::Range<usize>,
        encryption: std::ops::Range<usize>,
    ) -> TicketKey {
        let secret = |range: std::ops::Range<usize>| Secret::new(bytes[range].to_vec());
        TicketKey::new(*bytes.first_chunk().unwrap(), secret(authentication), secret(encryption)).unwrap()
    }

    #[test]
    fn raw_keys_have_the_order_of_nginx() {
        // ngx_ssl_session_ticket_keys: 48 bytes are name, AES, HMAC; 80 bytes are name, HMAC, AES.
        for (length, authentication, encryption) in [(48, 32..48, 16..32), (80, 16..48, 48..80)] {
            let bytes = counting(length);
            let found = read(bytes.clone()).unwrap();
            assert!(!found.last_is_introduced && found.fault.is_none());
            assert!(found.keys[0].is_same(&expected(&bytes, authentication, encryption)), "{length}");
        }
    }

    #[test]
    fn lines_of_base64_have_the_order_of_haproxy() {
        // struct tls_sess_key_128 and tls_sess_key_256: name, AES, HMAC.
        for (length, authentication, encryption) in [(48, 32..48, 16..32), (80, 48..80, 16..48)] {
            let bytes = counting(length);
            let line = boring::base64::encode_block(&bytes);
            let expected = expected(&bytes, authentication, encryption);
            for text in [line.clone(), format!("{line}\n"), format!("\n  {line}\r\n\n")] {
                let found = read(text).unwrap();
                assert_eq!(found.keys.len(), 1);
                assert!(!found.last_is_introduced);
                assert!(found.keys[0].is_same(&expected), "{length}");
            }
        }
    }

    #[test]
    fn of_several_lines_the_last_is_only_introduced() {
        let lines: Vec<String> = (1..4)
            .map(|name| {
                let mut bytes = counting(80);
                bytes[0] = name;
                boring::base64::encode_block(&bytes)
            })
            .collect();
        let found = read(lines.join("\n")).unwrap();
        assert_eq!(found.keys.iter().map(|key| key.name()[0]).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(found.last_is_introduced);
    }

    #[test]
    fn a_broken_line_is_named_and_the_others_are_used() {
        let good = boring::base64::encode_block(&counting(48));
        let found = read(format!("{good}\nnonsense\n")).unwrap();
        assert_eq!((found.keys.len(), found.fault), (1, Some(NotAKey::Line(2))));
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        for (bytes, fault, words) in [
            (Vec::new(), NotAKey::Length(0), "is empty"),
            (b" \n\n".to_vec(), NotAKey::Length(3), "has 3 bytes"),
            (b"\x0b\n\x0c".to_vec(), NotAKey::Length(3), "has 3 bytes"),
            (vec![0xff; 47], NotAKey::Length(47), "has 47 bytes"),
            (vec![0; 80], NotAKey::Repeated, "repeats one byte"),
            ([counting(16), vec![5; 16], counting(16)].concat(), NotAKey::Repeated, "repeats one byte"),
            (b"-----BEGIN PRIVATE KEY-----\n".to_vec(), NotAKey::Line(1), "in line 1"),
            (boring::base64::encode_block(&counting(64)).into_bytes(), NotAKey::Line(1), "in line 1"),
        ] {
            let error = read(bytes).unwrap_err();
            assert_eq!(error, fault);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_fresh_key_is_read_again_and_is_never_the_same() {
        let key = || parse(&generate().unwrap()).unwrap().keys.remove(0);
        let (first, second) = (key(), key());
        assert_eq!(first.bits(), 256);
        assert!(first.is_same(&first) && !first.is_same(&second));
        assert_ne!(first.name(), second.name());
    }
}
