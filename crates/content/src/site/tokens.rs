//! Tokens: who may ask for what until when, judged before anything is looked up.
//!
//! A [`TokenVerifier`] takes the tokens of a request from their places: the query, in front of the path, cookies, a field. A
//! format says what they are worth ([`Format`]). One good token is enough. Tokens are taken away before the request goes on:
//! they are no part of a cache key, and no origin sees them.

mod akamai;
mod asked;
mod cat;
mod cat_labels;
mod cbor;
mod client_network;
mod cloudfront;
mod cose;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod given_fields;
mod json;
mod keys;
pub mod makers;
mod penstock;
mod places;
mod secure_link;
#[cfg(test)]
mod tests;
mod text;
mod wildcards;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use penstock_config::{ExpiredAnswer, RevokedTokens, TokenFormat, TokenRules, limits};
use penstock_http::{Request, Status};

use crate::site::bare_path::{UnsignedTarget, bare_path};
use crate::site::followed::Followed;
use crate::site::token_fields::TokenFields;
use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;
pub(crate) use asked::Visitor;
use asked::{Asked, Format};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{fuzz_signed_urls, fuzz_token_formats};
use places::Places;

/// Verifies the tokens of the requests of a site.
#[derive(Debug)]
pub(crate) struct TokenVerifier {
    format: Box<dyn Format>,
    places: Places,
    expired: ExpiredAnswer,
    leeway: u64,
    revoked: Option<Followed<RevokedTokens>>,
}

/// A request that may go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted<'r> {
    /// Its target without tokens.
    pub(crate) target: UnsignedTarget<'r>,
    /// Whom the token was made for, if it says that.
    pub(crate) subject: Option<String>,
    /// Fields of the response: cookies, so that further requests need no token in their targets, and renewed tokens.
    pub(crate) given: Vec<(String, String)>,
}

impl TokenVerifier {
    pub(crate) fn new(rules: &TokenRules, verified: &Arc<VerifiedSecrets>, now: Instant) -> Self {
        let format: Box<dyn Format> = match &rules.format {
            TokenFormat::Penstock(keys) => Box::new(penstock::Penstock::new(keys, now)),
            TokenFormat::SecureLink(raw) => Box::new(secure_link::Links::new(raw, now)),
            TokenFormat::Akamai(raw) => Box::new(akamai::Akamai::new(raw, now)),
            TokenFormat::CloudFront(keys) => Box::new(cloudfront::CloudFront::new(keys, verified, now)),
            TokenFormat::Jwt(raw) => Box::new(json::JsonTokens::new(raw, verified, now)),
            TokenFormat::Cat(raw) => Box::new(cat::CommonAccess::new(raw, verified, now)),
        };
        let revoked = rules.revoked.as_ref();
        Self {
            format,
            places: Places::new(rules),
            expired: rules.expired,
            leeway: rules.leeway.as_secs(),
            revoked: revoked.map(|(file, list)| Followed::new(file, list.clone(), RevokedTokens::read, now)),
        }
    }

    /// The parameter of a token in front of a path; `None` if tokens of the format cannot stand there.
    pub(crate) fn path_parameter(&self) -> Option<&str> {
        self.places.in_path.as_deref()
    }

    /// Where tokens are beside the target.
    pub(crate) fn fields(&self) -> &TokenFields {
        &self.places.fields
    }

    /// A target or a URL as logs show it: without what opens it.
    pub(crate) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.places.hide(text)
    }

    /// The status for a request whose token is refused.
    pub(crate) fn status(&self, refusal: TokenRefusal) -> Status {
        match (refusal, self.expired) {
            (TokenRefusal::Expired, ExpiredAnswer::Gone) => Status::Gone,
            _ => Status::Forbidden,
        }
    }

    /// Judges a request and takes its tokens away.
    ///
    /// # Errors
    /// The fault of the first token that was found.
    pub(crate) fn admit<'r>(
        &self,
        request: &'r Request<'r>,
        visitor: &Visitor<'_>,
    ) -> Result<Admitted<'r>, TokenRefusal> {
        request.url_path().map_err(|_| TokenRefusal::OtherPath)?;
        let (target, shown) = self.places.take(request);
        let asked = Asked {
            request,
            path: bare_path(&target.path).ok_or(TokenRefusal::OtherPath)?,
            raw_path: &target.path,
            query: target.query.as_deref(),
            leeway: self.leeway,
            visitor,
        };
        let mut refusal = TokenRefusal::Missing;
        for token in shown.iter().take(limits::TOKENS_PER_REQUEST) {
            let grant = self.format.verify(&token.parts, &asked).and_then(|grant| {
                let list = self.revoked.as_ref().map(|list| list.contents(visitor.io, visitor.now));
                let is_revoked =
                    list.is_some_and(|list| list.contains(&grant.id)) || (visitor.is_revoked)(&grant.id);
                if is_revoked { Err(TokenRefusal::Revoked) } else { Ok(grant) }
            });
            match grant {
                Ok(grant) => {
                    let given = self.places.given_fields(token, &grant, &asked);
                    drop(asked);
                    return Ok(Admitted { target, subject: grant.subject, given });
                }
                Err(why) if refusal == TokenRefusal::Missing => refusal = why,
                Err(_) => {}
            }
        }
        Err(refusal)
    }
}
