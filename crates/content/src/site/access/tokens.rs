//! JSON Web Tokens in the field Authorization (RFC 6750), or in a cookie.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_config::{JwtAccess, limits};
use penstock_http::Request;
use penstock_origin::io_threads::IoThreads;

use super::{AccessRefusal, VerifiedPasswords};
use crate::site::cookies::cookies_of;
use crate::site::jwt::{JwtVerifier, subject_of};

/// The tokens of a site.
#[derive(Debug)]
pub(crate) struct Tokens {
    verifier: JwtVerifier,
    cookie: Option<String>,
}

impl Tokens {
    pub(crate) fn new(raw: &JwtAccess, verified: &Arc<VerifiedPasswords>, now: Instant) -> Self {
        let verifier = JwtVerifier::new(&raw.claims, &verified.secrets, now);
        Self { verifier, cookie: raw.cookie.clone() }
    }

    /// Whether a request shows a token that is right: in the field Authorization (RFC 6750 §2.1), or in the cookie. Returns the
    /// subject of the token, if it has one.
    pub(crate) fn admit(
        &self,
        request: &Request<'_>,
        authorization: Option<&[u8]>,
        io: &IoThreads,
        now: (Instant, SystemTime),
    ) -> Result<Option<String>, AccessRefusal> {
        let bearer = authorization.and_then(bearer);
        let cookies = self.cookie.iter().flat_map(|name| cookies_of(request, name));
        let mut shown = bearer.into_iter().chain(cookies).take(limits::TOKENS_PER_REQUEST).peekable();
        if shown.peek().is_none() {
            return Err(AccessRefusal::TokenMissing);
        }
        let mut claims = shown.find_map(|token| self.verifier.claims_of(token, io, now).ok());
        let Some(claims) = &mut claims else { return Err(AccessRefusal::TokenInvalid) };
        Ok(subject_of(claims))
    }
}

/// The token of a field (RFC 6750 §2.1).
pub(super) fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = str::from_utf8(authorization).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_field_stands_behind_its_scheme() {
        assert_eq!(bearer(b"bearer  a.b.c "), Some("a.b.c"));
        assert_eq!((bearer(b"Basic a"), bearer(b"Bearer"), bearer(b"")), (None, None, None));
    }
}
