//! JSON Web Tokens (RFC 7519, RFC 7515, RFC 8725).
//!
//! A signature that was right is remembered: the first request of a client pays for its verification. Claims are read each time.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{hmac, signature};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use penstock_config::{JwtAccess, TokenAlgorithm, TokenKey, TokenKeyKind, TokenKeys, limits};
use penstock_http::Request;
use penstock_origin::io_threads::IoThreads;
use serde_json::{Map, Value};

use super::{AccessRefusal, VerifiedPasswords};
use crate::site::followed::Followed;
use crate::site::signed_urls::cookies_of;

/// The tokens of a site.
#[derive(Debug)]
pub(crate) struct Tokens {
    keys: Followed<TokenKeys>,
    claims: Claims,
    cookie: Option<String>,
    verified: Arc<VerifiedPasswords>,
}

/// What the claims of a token have to be.
#[derive(Debug)]
struct Claims {
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

impl Tokens {
    pub(crate) fn new(raw: &JwtAccess, verified: &Arc<VerifiedPasswords>, now: Instant) -> Self {
        Self {
            keys: Followed::new(&raw.file, raw.keys.clone(), TokenKeys::read, now),
            claims: Claims { issuer: raw.issuer.clone(), audience: raw.audience.clone(), leeway: raw.leeway },
            cookie: raw.cookie.clone(),
            verified: Arc::clone(verified),
        }
    }

    /// Whether a request shows a token that is right: in the field Authorization (RFC 6750 §2.1), or in the cookie. Returns the
    /// subject of the token, if it has one.
    pub(crate) fn admit(
        &self,
        request: &Request<'_>,
        authorization: Option<&[u8]>,
        io: &IoThreads,
        (now, wall): (Instant, SystemTime),
    ) -> Result<Option<String>, AccessRefusal> {
        let bearer = authorization.and_then(bearer);
        let cookies = self.cookie.iter().flat_map(|name| cookies_of(request, name));
        let mut shown = bearer.into_iter().chain(cookies).take(limits::TOKENS_PER_REQUEST).peekable();
        if shown.peek().is_none() {
            return Err(AccessRefusal::TokenMissing);
        }
        let keys = self.keys.contents(io, now);
        let mut claims = shown.find_map(|token| self.claims_of(token, &keys, wall));
        let Some(claims) = &mut claims else { return Err(AccessRefusal::TokenInvalid) };
        Ok(match claims.remove("sub") {
            Some(Value::String(subject)) => Some(subject),
            _ => None,
        })
    }

    /// Nothing, if the token is wrong in any way.
    fn claims_of(&self, token: &str, keys: &TokenKeys, wall: SystemTime) -> Option<Map<String, Value>> {
        let token = Token::parse(token)?;
        self.claims.hold(&token.claims, wall).then_some(())?;
        let mut candidates = keys.candidates(token.algorithm, token.id.as_deref());
        candidates.by_ref().take(limits::TOKEN_KEYS_TRIED).find(|key| self.verify(key, &token))?;
        Some(token.claims)
    }

    fn verify(&self, key: &TokenKey, token: &Token<'_>) -> bool {
        if matches!(key.kind, TokenKeyKind::Secret(_)) {
            // No dearer than to remember it.
            return is_signed(&key.kind, token);
        }
        let tag = self.verified.tag((token.signed, &token.signature, bytes_of(&key.kind)));
        if self.verified.knows(tag) {
            return true;
        }
        let is_right = is_signed(&key.kind, token);
        if is_right {
            self.verified.remember(tag);
        }
        is_right
    }
}

impl Claims {
    /// Whether the claims of a token are in order (RFC 7519 §4.1). One without an end is not.
    fn hold(&self, claims: &Map<String, Value>, wall: SystemTime) -> bool {
        let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        let has_begun = match claims.get("nbf") {
            None => true,
            Some(begin) => begin.as_f64().is_some_and(|begin| begin <= now + leeway),
        };
        let goes_on = claims.get("exp").and_then(Value::as_f64).is_some_and(|end| now < end + leeway);
        let is_of_issuer = self
            .issuer
            .as_ref()
            .is_none_or(|issuer| claims.get("iss").and_then(Value::as_str) == Some(issuer.as_str()));
        let is_for_audience = self.audience.as_ref().is_none_or(|audience| match claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience.as_str())),
            _ => false,
        });
        has_begun && goes_on && is_of_issuer && is_for_audience
    }
}

/// The token of a field (RFC 6750 §2.1).
fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = str::from_utf8(authorization).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim_ascii())
}

/// A token in the compact serialization (RFC 7515 §7.1).
struct Token<'t> {
    algorithm: TokenAlgorithm,
    id: Option<String>,
    claims: Map<String, Value>,
    /// What is signed.
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        if text.len() > limits::TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        // Extensions that have to be understood are not (RFC 7515 §4.1.11).
        if header.contains_key("crit") {
            return None;
        }
        let algorithm = TokenAlgorithm::named(header.get("alg")?.as_str()?)?;
        let id = header.get("kid").map(|id| id.as_str().map(str::to_owned));
        let id = match id {
            Some(None) => return None,
            named => named.flatten(),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self { algorithm, id, claims: object(claims)?, signed, signature })
    }
}

fn object(encoded: &str) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// What tells a key from others.
fn bytes_of(kind: &TokenKeyKind) -> &[u8] {
    match kind {
        TokenKeyKind::Secret(bytes)
        | TokenKeyKind::Rsa(bytes, _)
        | TokenKeyKind::P256(bytes)
        | TokenKeyKind::P384(bytes)
        | TokenKeyKind::Ed25519(bytes) => bytes,
    }
}

/// Whether a key has made the signature. The algorithm is one that [fits](TokenKey::fits) the key.
fn is_signed(kind: &TokenKeyKind, token: &Token<'_>) -> bool {
    use TokenAlgorithm as A;
    let (message, mark) = (token.signed.as_bytes(), &token.signature[..]);
    let public = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
        signature::UnparsedPublicKey::new(algorithm, key).verify(message, mark).is_ok()
    };
    match (kind, token.algorithm) {
        (TokenKeyKind::Secret(secret), algorithm) => {
            let hash = match algorithm {
                A::Hs256 => hmac::HMAC_SHA256,
                A::Hs384 => hmac::HMAC_SHA384,
                A::Hs512 => hmac::HMAC_SHA512,
                _ => return false,
            };
            // Compared in constant time.
            hmac::verify(&hmac::Key::new(hash, secret), message, mark).is_ok()
        }
        (TokenKeyKind::Rsa(n, e), algorithm) => {
            let parameters = match algorithm {
                A::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                A::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                A::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                A::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                A::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                A::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                _ => return false,
            };
            signature::RsaPublicKeyComponents { n, e }.verify(parameters, message, mark).is_ok()
        }
        (TokenKeyKind::P256(point), A::Es256) => public(&signature::ECDSA_P256_SHA256_FIXED, point),
        (TokenKeyKind::P384(point), A::Es384) => public(&signature::ECDSA_P384_SHA384_FIXED, point),
        (TokenKeyKind::Ed25519(key), A::EdDsa) => public(&signature::ED25519, key),
        _ => false,
    }
}

/// The body of a fuzz target: an arbitrary token, and an arbitrary file of keys.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub fn fuzz_tokens(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (token, file) = text.split_once('\n').unwrap_or((text, ""));
    let keys = TokenKeys::parse(file).unwrap_or_default();
    if let Some(token) = Token::parse(token) {
        for key in keys.candidates(token.algorithm, token.id.as_deref()).take(limits::TOKEN_KEYS_TRIED) {
            assert!(key.fits(token.algorithm));
            is_signed(&key.kind, &token);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    #[test]
    fn claims_hold_within_their_times_and_for_whom_they_are() {
        let rules = Claims {
            issuer: Some("https://id.example".to_owned()),
            audience: Some("video".to_owned()),
            leeway: Duration::from_secs(30),
        };
        let wall = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let claims = |more: Value| {
            let mut all = json!({"exp": 1_000_100, "iss": "https://id.example", "aud": "video"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all.as_object().unwrap().clone()
        };
        for fine in [
            json!({}),
            json!({"aud": ["audio", "video"]}),
            json!({"nbf": 1_000_030}),
            json!({"exp": 999_970.5, "nbf": 1.0}),
        ] {
            assert!(rules.hold(&claims(fine.clone()), wall), "{fine}");
        }
        for wrong in [
            json!({"exp": 999_970}),
            json!({"exp": "1000100"}),
            json!({"exp": null}),
            json!({"nbf": 1_000_031}),
            json!({"nbf": "0"}),
            json!({"iss": "https://id.example/"}),
            json!({"iss": null}),
            json!({"aud": "Video"}),
            json!({"aud": ["audio"]}),
            json!({"aud": {"video": 1}}),
        ] {
            assert!(!rules.hold(&claims(wrong.clone()), wall), "{wrong}");
        }
    }

    #[test]
    fn a_token_has_three_parts_a_known_algorithm_and_nothing_that_has_to_be_understood() {
        let claims = encoded(&json!({"exp": 1}));
        let token = |header: Value| format!("{}.{claims}.AAAA", encoded(&header));
        let parsed = |text: &str| Token::parse(text).map(|token| (token.algorithm, token.id));
        let fine = token(json!({"alg": "ES256", "kid": "a", "typ": "JWT"}));
        assert_eq!(parsed(&fine), Some((TokenAlgorithm::Es256, Some("a".to_owned()))));
        for wrong in [
            token(json!({"alg": "none"})),
            token(json!({"alg": "ES256", "crit": ["exp"]})),
            token(json!({"alg": "ES256", "kid": 1})),
            token(json!({"kid": "a"})),
            token(json!(["ES256"])),
            fine.replace("AAAA", "A*AA"),
            format!("{fine}.AAAA"),
            fine.rsplit_once('.').unwrap().0.to_owned(),
            format!("{}{fine}", "A".repeat(limits::TOKEN_BYTES)),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(parsed(&wrong), None, "{wrong}");
        }
        assert_eq!(bearer(b"bearer  a.b.c "), Some("a.b.c"));
        assert_eq!((bearer(b"Basic a"), bearer(b"Bearer"), bearer(b"")), (None, None, None));
    }

    #[test]
    fn a_signature_is_that_of_its_key_and_its_message() {
        let secret = [7; 32];
        let text = format!("{}.{}", encoded(&json!({"alg": "HS256"})), encoded(&json!({"exp": 1})));
        let mark = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text.as_bytes());
        let signed = format!("{text}.{}", URL_SAFE_NO_PAD.encode(mark.as_ref()));
        let is_right = |secret: &[u8], text: &str| {
            is_signed(&TokenKeyKind::Secret(secret.to_vec()), &Token::parse(text).unwrap())
        };
        assert!(is_right(&secret, &signed));
        assert!(!is_right(&[8; 32], &signed));
        let other = signed.replace(&encoded(&json!({"exp": 1})), &encoded(&json!({"exp": 2})));
        assert!(!is_right(&secret, &other));
        assert!(!is_right(&secret, &format!("{text}.")));
    }
}
