//! JSON Web Tokens (RFC 7519, RFC 7515, RFC 8725). Claims are read each time; see [`Signatures`] for what is remembered.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use penstock_config::{ClaimRules, TokenAlgorithm, TokenKeys, limits};
use penstock_origin::io_threads::IoThreads;
use serde_json::{Map, Value};

use crate::site::followed::Followed;
use crate::site::signatures::{Signatures, Signed};
use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;

/// Verifies JSON Web Tokens, wherever they come from.
#[derive(Debug)]
pub(crate) struct JwtVerifier {
    keys: Followed<TokenKeys>,
    claims: Claims,
    signatures: Signatures,
}

/// What the claims of a token have to be.
#[derive(Debug)]
struct Claims {
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

impl JwtVerifier {
    pub(crate) fn new(raw: &ClaimRules, verified: &Arc<VerifiedSecrets>, now: Instant) -> Self {
        let claims =
            Claims { issuer: raw.issuer.clone(), audience: raw.audience.clone(), leeway: raw.leeway };
        let keys = Followed::new(&raw.file, raw.keys.clone(), TokenKeys::read, now);
        Self { keys, claims, signatures: Signatures::new(verified) }
    }

    /// The claims of a token.
    ///
    /// # Errors
    /// Why it is wrong.
    pub(crate) fn claims_of(
        &self,
        token: &str,
        io: &IoThreads,
        (now, wall): (Instant, SystemTime),
    ) -> Result<Map<String, Value>, TokenRefusal> {
        let token = Token::parse(token).ok_or(TokenRefusal::Malformed)?;
        self.claims.hold(&token.claims, wall)?;
        let signed = Signed {
            algorithm: token.algorithm,
            id: token.id.as_deref(),
            message: token.signed.as_bytes(),
            mark: &token.signature,
        };
        self.signatures.verify(&self.keys.contents(io, now), signed)?;
        Ok(token.claims)
    }
}

impl Claims {
    /// Whether the claims of a token are in order (RFC 7519 §4.1). One without an end is not.
    fn hold(&self, claims: &Map<String, Value>, wall: SystemTime) -> Result<(), TokenRefusal> {
        let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        if let Some(begin) = claims.get("nbf") {
            let begin = begin.as_f64().ok_or(TokenRefusal::Claim)?;
            (begin <= now + leeway).then_some(()).ok_or(TokenRefusal::NotYet)?;
        }
        let end = claims.get("exp").and_then(Value::as_f64).ok_or(TokenRefusal::Claim)?;
        (now < end + leeway).then_some(()).ok_or(TokenRefusal::Expired)?;
        let is_of_issuer = self
            .issuer
            .as_ref()
            .is_none_or(|issuer| claims.get("iss").and_then(Value::as_str) == Some(issuer.as_str()));
        let is_for_audience = self.audience.as_ref().is_none_or(|audience| match claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience.as_str())),
            _ => false,
        });
        (is_of_issuer && is_for_audience).then_some(()).ok_or(TokenRefusal::Claim)
    }
}

/// Takes the subject out of claims (RFC 7519 §4.1.2).
pub(crate) fn subject_of(claims: &mut Map<String, Value>) -> Option<String> {
    match claims.remove("sub") {
        Some(Value::String(subject)) => Some(subject),
        _ => None,
    }
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
            let (message, mark) = (token.signed.as_bytes(), &token.signature);
            crate::site::signatures::is_signed(&key.kind, token.algorithm, message, mark);
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
            assert!(rules.hold(&claims(fine.clone()), wall).is_ok(), "{fine}");
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
            assert!(rules.hold(&claims(wrong.clone()), wall).is_err(), "{wrong}");
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
    }
}
