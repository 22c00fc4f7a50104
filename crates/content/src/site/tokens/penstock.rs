//! This program's own tokens: text that says what it allows, and an HMAC-SHA256 over that text in hexadecimal.
//!
//! ```text
//! exp=1767225600~key=2026a~path=/vod/123/~hmac=5f6c…
//! exp=1767225600~key=2026a~id=viewer-7~ip=192.0.2.7~path=/vod/123/~hmac=5f6c…
//! ```
//!
//! `exp` is in seconds since 1970. A path that ends with `/` stands for everything below it, any other for itself
//! alone; it is compared with the decoded path of the request.

use std::sync::Arc;
use std::time::Instant;

use penstock_config::{SecretForm, SigningKey};
use penstock_sys::digest::{hmac_sha256, is_same};

use super::asked::{Asked, Format, Grant};
use super::keys::SecretKeys;
use super::text::{SIGNATURE, hexadecimal, of_hexadecimal, seconds, written};
use crate::site::token_refusal::TokenRefusal;

/// Tokens of this format.
#[derive(Debug)]
pub(super) struct Penstock(SecretKeys);

impl Penstock {
    pub(super) fn new(keys: &[Arc<SigningKey>], now: Instant) -> Self {
        Self(SecretKeys::new(keys, SecretForm::Text, now))
    }
}

impl Format for Penstock {
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let text = written(parts.first().copied().flatten())?;
        let token = Token::parse(&text).ok_or(TokenRefusal::Malformed)?;
        let (io, now) = (asked.visitor.io, asked.visitor.now);
        let mut candidates = self.0.candidates(Some(token.key), io, now).peekable();
        if candidates.peek().is_none() {
            return Err(TokenRefusal::UnknownKey);
        }
        let is_right = |secret: Arc<penstock_sys::traffic::Secret>| {
            let expected = hmac_sha256(secret.expose(), token.signed.as_bytes());
            expected.is_some_and(|expected| is_same(&expected, &token.signature))
        };
        if !candidates.any(is_right) {
            return Err(TokenRefusal::WrongSignature);
        }
        asked.is_within(None, token.expires)?;
        token.client.map_or(Ok(()), |client| asked.is_from(client))?;
        let scope = asked.is_covered_by(token.path).ok_or(TokenRefusal::OtherPath)?;
        let id = token.id.map_or_else(|| hexadecimal(&token.signature), str::to_owned);
        Ok(Grant::new(token.expires, id, scope))
    }
}

/// A token as it was written, its signature not yet looked at.
struct Token<'t> {
    /// The signed text.
    signed: &'t str,
    expires: u64,
    key: &'t str,
    id: Option<&'t str>,
    client: Option<&'t str>,
    path: &'t str,
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once(SIGNATURE)?;
        let (expires, rest) = signed.strip_prefix("exp=")?.split_once("~key=")?;
        let (head, path) = rest.split_once("~path=")?;
        let (head, client) = split_last(head, "~ip=");
        let (key, id) = split_last(head, "~id=");
        let expires = seconds(expires)?;
        let signature = of_hexadecimal(signature).filter(|bytes| bytes.len() == 32)?;
        path.starts_with('/').then_some(Self { signed, expires, key, id, client, path, signature })
    }
}

fn split_last<'t>(text: &'t str, mark: &str) -> (&'t str, Option<&'t str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}
