//! Links of nginx's module `secure_link`: an MD5 digest of the end, the path and a secret, in base64url.

use std::time::Instant;

use base64::Engine;
use penstock_config::{LinkExpression, LinkPart, SecretForm, SecureLink};
use penstock_sys::digest::{is_same, md5};

use super::asked::{Asked, Format, Grant, Scope};
use super::keys::SecretKeys;
use super::text::{BASE64URL, seconds, written};
use crate::site::token_refusal::TokenRefusal;

/// Links of a site.
#[derive(Debug)]
pub(super) struct Links {
    keys: SecretKeys,
    expression: LinkExpression,
}

impl Links {
    pub(super) fn new(raw: &SecureLink, now: Instant) -> Self {
        let keys = SecretKeys::new(&raw.keys, SecretForm::Short, now);
        Self { keys, expression: raw.expression.clone() }
    }
}

impl Format for Links {
    /// The parts are the digest and the end. A single part is both with a comma between them, as nginx reads a cookie.
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let first = written(parts.first().copied().flatten())?;
        let second = parts.get(1).copied().flatten().map(|part| written(Some(part))).transpose()?;
        let (digest, end) = match &second {
            Some(end) => (&*first, &**end),
            None => first.split_once(',').ok_or(TokenRefusal::Malformed)?,
        };
        let digest = BASE64URL.decode(digest).map_err(|_| TokenRefusal::Malformed)?;
        let expires = seconds(end).filter(|_| digest.len() == 16).ok_or(TokenRefusal::Malformed)?;
        let address = asked.address().to_string();
        let facts =
            LinkFacts { end, path: &asked.path, address: &address, host: asked.request.host().as_bytes() };
        let mut candidates = self.keys.candidates(None, asked.visitor.io, asked.visitor.now);
        if !candidates.any(|secret| {
            let expected = facts.digest(&self.expression, secret.expose());
            expected.is_some_and(|expected| is_same(&expected, &digest))
        }) {
            return Err(TokenRefusal::WrongSignature);
        }
        // nginx serves the second of the end, too.
        asked.is_within(None, expires.saturating_add(1))?;
        let is_of_directory = !self.expression.parts().contains(&LinkPart::Path);
        let directory = str::from_utf8(directory(&asked.path)).ok().filter(|_| is_of_directory);
        let scope = directory.map_or(Scope::One, |directory| Scope::Below(directory.to_owned()));
        Ok(Grant::new(expires, BASE64URL.encode(digest), scope))
    }
}

/// What stands for the variables of an expression.
pub(super) struct LinkFacts<'l> {
    pub(super) end: &'l str,
    pub(super) path: &'l [u8],
    pub(super) address: &'l str,
    pub(super) host: &'l [u8],
}

impl LinkFacts<'_> {
    /// The digest of a link; `None` only if the library is out of memory.
    pub(super) fn digest(&self, expression: &LinkExpression, secret: &[u8]) -> Option<[u8; 16]> {
        let pieces: Vec<&[u8]> = expression.parts().iter().map(|part| self.value(part, secret)).collect();
        md5(&pieces.concat())
    }

    fn value<'v>(&'v self, part: &'v LinkPart, secret: &'v [u8]) -> &'v [u8] {
        match part {
            LinkPart::Text(text) => text.as_bytes(),
            LinkPart::Expires => self.end.as_bytes(),
            LinkPart::Path => self.path,
            LinkPart::Directory => directory(self.path),
            LinkPart::Client => self.address.as_bytes(),
            LinkPart::Host => self.host,
            LinkPart::Secret => secret,
        }
    }
}

/// A path up to its last slash.
fn directory(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}
