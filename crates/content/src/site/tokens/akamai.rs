//! Tokens of Akamai (EdgeAuth 2.0): fields with `~` between them, and an HMAC-SHA256 over them in hexadecimal.
//!
//! ```text
//! ip=192.0.2.7~st=1767225600~exp=1767229200~acl=/vod/123/*!/ads/*~id=session~data=any~hmac=5f6c…
//! ```
//!
//! A token with `acl` opens the paths that one of its patterns matches. One without has the path in what is signed (`url`),
//! which the token does not show. Generators escape values before they sign them, or do not.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{AkamaiTokens, SecretForm, limits};
use penstock_http::query::decoded;
use penstock_sys::digest::{hmac_sha256, is_same};
use penstock_sys::traffic::Secret;

use super::asked::{Asked, Format, Grant, Scope};
use super::keys::SecretKeys;
use super::text::{SIGNATURE, hexadecimal, of_hexadecimal, seconds, written};
use super::wildcards;
use crate::site::token_refusal::TokenRefusal;

/// Tokens of a site.
#[derive(Debug)]
pub(super) struct Akamai {
    keys: SecretKeys,
    salt: SecretKeys,
}

impl Akamai {
    pub(super) fn new(raw: &AkamaiTokens, now: Instant) -> Self {
        let keys = SecretKeys::new(&raw.keys, SecretForm::Hexadecimal, now);
        Self { keys, salt: SecretKeys::new(&raw.salt, SecretForm::Short, now) }
    }

    /// Whether one of the keys has signed a text for this path, if the token has none of its own.
    fn is_signed(&self, text: &str, mark: &[u8], path: Option<&[u8]>, asked: &Asked<'_>) -> bool {
        let (io, now) = (asked.visitor.io, asked.visitor.now);
        let mut message = text.as_bytes().to_vec();
        if let Some(path) = path {
            message.extend([b"~url=", path].concat());
        }
        if let Some(salt) = self.salt.candidates(None, io, now).next() {
            message.extend([b"~salt=", salt.expose()].concat());
        }
        let is_right = |secret: Arc<Secret>| {
            hmac_sha256(secret.expose(), &message).is_some_and(|expected| is_same(&expected, mark))
        };
        self.keys.candidates(None, io, now).any(is_right)
    }
}

impl Format for Akamai {
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let decoded = written(parts.first().copied().flatten())?;
        let as_written = parts.first().copied().flatten().unwrap_or_default();
        // The client has escaped the token, or the generator its values, whose digits the normal form has in upper case.
        let escaped = lower_escapes(as_written);
        let texts: &[&str] = if as_written.contains('%') { &[&decoded, &escaped] } else { &[&decoded] };
        let mut refusal = TokenRefusal::Malformed;
        for text in texts {
            let Some(token) = Token::parse(text) else { continue };
            let is_right = match token.acl {
                Some(_) => self.is_signed(token.signed, &token.mark, None, asked),
                None => {
                    self.is_signed(token.signed, &token.mark, Some(&asked.path), asked)
                        || self.is_signed(token.signed, &token.mark, Some(&escaped_early(&asked.path)), asked)
                }
            };
            if is_right {
                return token.grant(asked);
            }
            refusal = TokenRefusal::WrongSignature;
        }
        Err(refusal)
    }
}

/// A token, its signature not yet looked at.
struct Token<'t> {
    signed: &'t str,
    begin: Option<u64>,
    end: u64,
    client: Option<&'t str>,
    acl: Option<&'t str>,
    id: Option<&'t str>,
    mark: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Reads the fields, in any order, each at most once: a value that brings a field of its own is refused.
    fn parse(text: &'t str) -> Option<Self> {
        let (signed, mark) = text.rsplit_once(SIGNATURE)?;
        let (mut begin, mut end, mut client, mut acl, mut id, mut data) =
            (None, None, None, None, None, None);
        for field in signed.split('~') {
            let (name, value) = field.split_once('=')?;
            let place = match name {
                "st" => &mut begin,
                "exp" => &mut end,
                "ip" => &mut client,
                "acl" => &mut acl,
                "id" => &mut id,
                "data" => &mut data,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let begin = match begin {
            Some(begin) => Some(seconds(begin)?),
            None => None,
        };
        let mark = of_hexadecimal(mark)?;
        Some(Self { signed, begin, end: seconds(end?)?, client, acl, id, mark })
    }

    /// What a token says whose signature is right.
    fn grant(&self, asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let plain = |value| decoded(value).ok_or(TokenRefusal::Malformed);
        asked.is_within(self.begin, self.end)?;
        if let Some(client) = self.client {
            asked.is_from(&plain(client)?)?;
        }
        let id = match self.id {
            Some(id) => plain(id)?.into_owned(),
            None => hexadecimal(&self.mark),
        };
        let Some(acl) = self.acl else {
            return Ok(Grant::new(self.end, id, Scope::One));
        };
        // Generators that escape values escape `!` too.
        let whole = if acl.contains('/') { Cow::Borrowed(acl) } else { plain(acl)? };
        for pattern in whole.split('!').take(limits::TOKEN_PATTERNS) {
            let pattern = if acl.contains('/') { plain(pattern)? } else { Cow::Borrowed(pattern) };
            if wildcards::matches(pattern.as_bytes(), &asked.path) {
                let directory = wildcards::directory_of(&pattern);
                let scope = directory.map_or(Scope::One, |directory| Scope::Below(directory.to_owned()));
                return Ok(Grant::new(self.end, id, scope));
            }
        }
        Err(TokenRefusal::OtherPath)
    }
}

/// A text with the digits of its escapes in lower case, as generators sign it.
fn lower_escapes(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut lower = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).unwrap_or((piece, ""));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

/// A path as generators escape it: like a form, with digits in lower case.
fn escaped_early(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(path.len() + 16);
    for byte in path {
        match byte {
            b' ' => escaped.push(b'+'),
            byte if byte.is_ascii_alphanumeric() || b"_.-~".contains(byte) => escaped.push(*byte),
            byte => escaped.extend(format!("%{byte:02x}").as_bytes()),
        }
    }
    escaped
}
