//! JSON Web Tokens in a query, a path or a cookie.

use std::sync::Arc;
use std::time::Instant;

use penstock_config::{JwtTokens, limits};
use serde_json::Value;

use super::asked::{Asked, Format, Grant, Scope};
use super::text::written;
use crate::site::jwt::{JwtVerifier, subject_of};
use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;

/// Tokens of a site.
#[derive(Debug)]
pub(super) struct JsonTokens {
    verifier: JwtVerifier,
    path_claim: Option<String>,
    client_claim: Option<String>,
}

impl JsonTokens {
    pub(super) fn new(raw: &JwtTokens, verified: &Arc<VerifiedSecrets>, now: Instant) -> Self {
        Self {
            verifier: JwtVerifier::new(&raw.claims, verified, now),
            path_claim: raw.path_claim.clone(),
            client_claim: raw.client_claim.clone(),
        }
    }
}

impl Format for JsonTokens {
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let token = written(parts.first().copied().flatten())?;
        let visitor = asked.visitor;
        let mut claims = self.verifier.claims_of(&token, visitor.io, (visitor.now, visitor.wall))?;
        if let Some(name) = &self.client_claim {
            asked.is_from(claims.get(name).and_then(Value::as_str).ok_or(TokenRefusal::Claim)?)?;
        }
        let scope = match &self.path_claim {
            None => Scope::Below("/".to_owned()),
            Some(name) => {
                let allowed = match claims.get(name) {
                    Some(Value::Array(all)) => all.as_slice(),
                    Some(one) => std::slice::from_ref(one),
                    None => return Err(TokenRefusal::Claim),
                };
                let paths = allowed.iter().take(limits::TOKEN_PATTERNS).filter_map(Value::as_str);
                let mut scopes = paths.filter_map(|path| asked.is_covered_by(path));
                scopes.next().ok_or(TokenRefusal::OtherPath)?
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time beyond the range is its end"
        )]
        let end = claims.get("exp").and_then(Value::as_f64).unwrap_or_default() as u64;
        let id = claims.get("jti").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Grant { subject: subject_of(&mut claims), ..Grant::new(end, id, scope) })
    }
}
