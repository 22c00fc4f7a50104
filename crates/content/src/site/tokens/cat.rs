//! Common Access Tokens (CTA-5007): claims in CBOR (RFC 8392), authenticated by COSE (RFC 9052) with one recipient or signer.
//!
//! A token with a claim that is not understood here is refused, as the standard says.

mod claims;
mod renewal;
mod uri;

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use penstock_config::{ClaimRules, TokenKeys};

use super::asked::{Asked, Format, Grant};
use super::cose::CoseMessage;
use super::text::{BASE64URL, written};
use crate::site::followed::Followed;
use crate::site::signatures::{Signatures, Signed};
use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;
use claims::{ClaimSet, Wanted};

/// Tokens of a site.
#[derive(Debug)]
pub(super) struct CommonAccess {
    keys: Followed<TokenKeys>,
    wanted: Wanted,
    signatures: Signatures,
}

impl CommonAccess {
    pub(super) fn new(raw: &ClaimRules, verified: &Arc<VerifiedSecrets>, now: Instant) -> Self {
        let keys = Followed::new(&raw.file, raw.keys.clone(), TokenKeys::read, now);
        let wanted = Wanted { issuer: raw.issuer.clone(), audience: raw.audience.clone() };
        Self { keys, wanted, signatures: Signatures::new(verified) }
    }
}

impl Format for CommonAccess {
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let text = written(parts.first().copied().flatten())?;
        let bytes = BASE64URL.decode(&*text).map_err(|_| TokenRefusal::Malformed)?;
        let token = CoseMessage::parse(&bytes).ok_or(TokenRefusal::Malformed)?;
        let message = token.message();
        let id = token.key.as_deref();
        let signed = Signed { algorithm: token.algorithm, id, message: &message, mark: &token.mark };
        let keys = self.keys.contents(asked.visitor.io, asked.visitor.now);
        let key = self.signatures.verify(&keys, signed)?;
        let claims = ClaimSet::parse(&token.payload).ok_or(TokenRefusal::Malformed)?;
        let grant = claims.grant(&self.wanted, asked)?;
        Ok(Grant { renewed: renewal::renewed(&token, &claims, key, asked), ..grant })
    }
}
