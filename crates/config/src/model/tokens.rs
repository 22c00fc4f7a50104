//! Tokens that requests of a site carry.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::revoked::RevokedTokens;
use crate::signing::SigningKey;
use crate::token_keys::TokenKeys;

/// Tokens that requests need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// How they are written, and the keys that they are verified with.
    pub format: TokenFormat,
    /// The parameter of the query that has the token, or its first part; it may also stand in front of the path:
    /// `/token=…/vod/film.mp4`. CloudFront has names of its own.
    pub parameter: String,
    /// The cookie with the token; `None` if cookies are not looked at.
    pub cookie: Option<String>,
    /// The field of the request with the token, in lower case.
    pub field: Option<String>,
    /// Whether a token that comes in the query or in the field is given back as the cookie.
    pub sets_cookie: bool,
    /// The answer to a token that has expired.
    pub expired: ExpiredAnswer,
    /// How far the clocks of issuer and server may differ.
    pub leeway: Duration,
    /// The file of the tokens that count no longer, with what it had when the configuration was read.
    pub revoked: Option<(PathBuf, RevokedTokens)>,
}

impl TokenRules {
    /// Tokens of this program's own format, as `signed_urls` has them.
    pub fn signed_urls(keys: Vec<Arc<SigningKey>>, parameter: &str, cookie: Option<&str>) -> Self {
        Self {
            format: TokenFormat::Penstock(keys),
            parameter: parameter.to_owned(),
            cookie: cookie.map(str::to_owned),
            field: None,
            sets_cookie: false,
            expired: ExpiredAnswer::Forbidden,
            leeway: Duration::ZERO,
            revoked: None,
        }
    }
}

/// The answer to a token that has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredAnswer {
    /// 403, as to any wrong token.
    #[default]
    Forbidden,
    /// 410.
    Gone,
}

/// How tokens are written, and the keys that they are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFormat {
    /// HMAC-SHA256 over an expiry and a path, as `penstock sign` writes it.
    Penstock(Vec<Arc<SigningKey>>),
    /// As the module `secure_link` of nginx has it.
    SecureLink(SecureLink),
    /// Akamai's EdgeAuth 2.0.
    Akamai(AkamaiTokens),
    /// Signed URLs and cookies of CloudFront: public keys by key pair id.
    CloudFront(Vec<PublicKey>),
    /// JSON Web Tokens (RFC 7519).
    Jwt(JwtTokens),
    /// Common Access Tokens (CTA-5007).
    Cat(ClaimRules),
}

impl TokenFormat {
    /// Whether a token can say whom it was made for.
    pub fn has_subject(&self) -> bool {
        matches!(self, Self::Jwt(_) | Self::Cat(_))
    }
}

/// Links of nginx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureLink {
    /// The secrets, each of which may have made the link.
    pub keys: Vec<Arc<SigningKey>>,
    /// The parameter with the end of the link.
    pub expires: String,
    /// What the digest is of.
    pub expression: LinkExpression,
}

/// What the digest of a link is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkExpression(Vec<LinkPart>);

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPart {
    /// These characters.
    Text(String),
    /// The end of the link, `$secure_link_expires`.
    Expires,
    /// The decoded path, `$uri`.
    Path,
    /// The decoded path up to its last slash, `$directory`.
    Directory,
    /// The address of the client, `$remote_addr`.
    Client,
    /// The host that is asked, `$host`.
    Host,
    /// The secret, `$secret`.
    Secret,
}

impl LinkExpression {
    /// The names of the variables.
    pub const VARIABLES: [(&'static str, LinkPart); 6] = [
        ("secure_link_expires", LinkPart::Expires),
        ("uri", LinkPart::Path),
        ("directory", LinkPart::Directory),
        ("remote_addr", LinkPart::Client),
        ("host", LinkPart::Host),
        ("secret", LinkPart::Secret),
    ];

    /// Reads an expression as nginx writes it.
    ///
    /// # Errors
    /// The name of a variable that is none, or what the expression lacks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = text.split('$');
        let mut parts = vec![LinkPart::Text(pieces.next().unwrap_or_default().to_owned())];
        for piece in pieces {
            let end = piece.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
            let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
            let known = Self::VARIABLES.iter().find(|(known, _)| *known == name);
            let (_, part) = known.ok_or_else(|| format!("has no variable ${}", name.escape_debug()))?;
            parts.extend([part.clone(), LinkPart::Text(rest.to_owned())]);
        }
        parts.retain(|part| *part != LinkPart::Text(String::new()));
        let lacks = |part: &LinkPart| !parts.contains(part);
        if lacks(&LinkPart::Secret) {
            return Err("lacks $secret, so any client can make links".to_owned());
        }
        if lacks(&LinkPart::Expires) {
            return Err("lacks $secure_link_expires, so a client can change the end of its link".to_owned());
        }
        if lacks(&LinkPart::Path) && lacks(&LinkPart::Directory) {
            return Err("lacks $uri and $directory, so one link opens every path".to_owned());
        }
        Ok(Self(parts))
    }

    /// Its parts.
    pub fn parts(&self) -> &[LinkPart] {
        &self.0
    }
}

/// Tokens of Akamai.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AkamaiTokens {
    /// The secrets, each of which may have made the token.
    pub keys: Vec<Arc<SigningKey>>,
    /// Further text that is signed.
    pub salt: Option<Arc<SigningKey>>,
}

/// A public key of RSA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// The name by which tokens refer to it; empty for a key that stands for any name.
    pub id: String,
    /// Its file.
    pub file: PathBuf,
    /// What the file had when the configuration was read.
    pub keys: TokenKeys,
}

/// JSON Web Tokens in URLs and cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtTokens {
    /// Keys, and what claims have to be.
    pub claims: ClaimRules,
    /// The claim with the path that the token is for, or a list of them.
    pub path_claim: Option<String>,
    /// The claim with the address of the client.
    pub client_claim: Option<String>,
}

/// The keys of tokens with claims, and what these have to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// The file of the keys.
    pub file: PathBuf,
    /// What it had when the configuration was read.
    pub keys: TokenKeys,
    /// The claim `iss`; `None` is any.
    pub issuer: Option<String>,
    /// The claim `aud`, or one of its list; `None` is any.
    pub audience: Option<String>,
    /// How far clocks may differ.
    pub leeway: Duration,
}
