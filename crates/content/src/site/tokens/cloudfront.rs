//! Signed URLs and cookies of CloudFront: a policy, and a signature of RSA over it.
//!
//! With `Expires` the policy is a canned one for the URL that is asked for; otherwise `Policy` has it.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use penstock_config::{PublicKey, TokenAlgorithm, TokenKeys, limits};
use serde_json::{Map, Value};

use super::asked::{Asked, Format, Grant, Scope};
use super::client_network::ClientNetwork;
use super::text::{seconds, written};
use super::wildcards;
use crate::site::followed::Followed;
use crate::site::signatures::{Signatures, Signed};
use crate::site::token_refusal::TokenRefusal;
use crate::site::verified_secrets::VerifiedSecrets;

/// Tokens of a site.
#[derive(Debug)]
pub(super) struct CloudFront {
    keys: Vec<(String, Followed<TokenKeys>)>,
    signatures: Signatures,
}

impl CloudFront {
    pub(super) fn new(keys: &[PublicKey], verified: &Arc<VerifiedSecrets>, now: Instant) -> Self {
        let followed = |key: &PublicKey| {
            (key.id.clone(), Followed::new(&key.file, key.keys.clone(), TokenKeys::read_rsa, now))
        };
        Self { keys: keys.iter().map(followed).collect(), signatures: Signatures::new(verified) }
    }

    fn verify_signature(&self, token: &Token, message: &[u8], asked: &Asked<'_>) -> Result<(), TokenRefusal> {
        let of_name = |(name, _): &&(String, _)| name.is_empty() || *name == token.key;
        let mut refusal = TokenRefusal::UnknownKey;
        for (_, keys) in self.keys.iter().filter(of_name).take(limits::TOKEN_KEYS_TRIED) {
            let keys = keys.contents(asked.visitor.io, asked.visitor.now);
            let signed = Signed { algorithm: token.algorithm, id: None, message, mark: &token.signature };
            match self.signatures.verify(&keys, signed) {
                Ok(_) => return Ok(()),
                Err(why) => refusal = why,
            }
        }
        Err(refusal)
    }
}

impl Format for CloudFront {
    /// The parts are Policy, Expires, Signature, Key-Pair-Id and Hash-Algorithm.
    fn verify(&self, parts: &[Option<&str>], asked: &Asked<'_>) -> Result<Grant, TokenRefusal> {
        let token = Token::read(parts)?;
        let id = STANDARD.encode(&token.signature);
        match &token.policy {
            Written::Policy(json) => {
                self.verify_signature(&token, json, asked)?;
                let policy = Policy::parse(json).ok_or(TokenRefusal::Malformed)?;
                asked.is_within(policy.begin, policy.end)?;
                policy
                    .client
                    .is_none_or(|client| client.has(asked.address()))
                    .then_some(())
                    .ok_or(TokenRefusal::OtherClient)?;
                if !urls(asked).iter().any(|url| is_of_resource(&policy.resource, url)) {
                    return Err(TokenRefusal::OtherPath);
                }
                Ok(Grant::new(policy.end, id, scope_of(&policy.resource)))
            }
            Written::Expires(end) => {
                let mut refusal = TokenRefusal::OtherPath;
                for url in urls(asked) {
                    match self.verify_signature(&token, canned(&url, *end).as_bytes(), asked) {
                        Ok(()) => {
                            asked.is_within(None, *end)?;
                            return Ok(Grant::new(*end, id, Scope::One));
                        }
                        Err(why) => refusal = why,
                    }
                }
                Err(refusal)
            }
        }
    }
}

/// The URLs that a policy may name for a request: with the port that the client has sent, and without.
fn urls(asked: &Asked<'_>) -> Vec<String> {
    let scheme = if asked.visitor.is_secure { "https" } else { "http" };
    let query = asked.query.map(|query| format!("?{query}")).unwrap_or_default();
    let (authority, host) = (asked.request.authority(), asked.request.host());
    let url = |host: &str| format!("{scheme}://{}{}{query}", host.to_ascii_lowercase(), asked.raw_path);
    let mut urls = vec![url(authority)];
    if host != authority {
        urls.push(url(host));
    }
    urls
}

/// Whether a resource is a URL or a pattern for it. A wildcard in one part of the pattern stands for nothing in the next part:
/// none in the host matches a path, and none in the path what a client writes into the query, but for one at the end.
pub(super) fn is_of_resource(resource: &str, url: &str) -> bool {
    let parts = |url: &'_ str| {
        let (scheme, rest) = url.split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/')?);
        Some([scheme, host, path].map(|part| part.as_bytes().to_vec()))
    };
    let Some((wanted, asked)) = parts(resource).zip(parts(url)) else { return resource == "*" };
    let [scheme, host, path] = wanted;
    wildcards::matches(&scheme, &asked[0])
        && wildcards::matches(&host, &asked[1])
        && wildcards::matches_before(&path, &asked[2], Some(b'?'))
}

/// The directory of a resource, if its host has no wildcards.
fn scope_of(resource: &str) -> Scope {
    let path = resource.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    let directory = path.and_then(wildcards::directory_of);
    let decoded = directory.and_then(penstock_http::query::decoded);
    decoded.map_or(Scope::One, |directory| Scope::Below(directory.into_owned()))
}

/// The policy of a URL, as generators write it.
pub(super) fn canned(url: &str, end: u64) -> String {
    format!(
        "{{\"Statement\":[{{\"Resource\":\"{url}\",\"Condition\":{{\"DateLessThan\":{{\"AWS:EpochTime\":{end}}}}}}}]}}"
    )
}

/// A token, its signature not yet looked at.
struct Token {
    policy: Written,
    signature: Vec<u8>,
    key: String,
    algorithm: TokenAlgorithm,
}

enum Written {
    Policy(Vec<u8>),
    Expires(u64),
}

impl Token {
    fn read(parts: &[Option<&str>]) -> Result<Self, TokenRefusal> {
        let &[policy, expires, signature, key, algorithm] = parts else {
            return Err(TokenRefusal::Malformed);
        };
        let bytes = |part: Option<&str>| of_base64(&written(part)?).ok_or(TokenRefusal::Malformed);
        let policy = match (policy, expires) {
            (Some(_), _) => Written::Policy(bytes(policy)?),
            (None, _) => Written::Expires(seconds(&written(expires)?).ok_or(TokenRefusal::Malformed)?),
        };
        let algorithm = match algorithm.map(|part| written(Some(part))).transpose()?.as_deref() {
            None | Some("SHA1") => TokenAlgorithm::Rs1,
            Some("SHA256") => TokenAlgorithm::Rs256,
            Some(_) => return Err(TokenRefusal::Malformed),
        };
        Ok(Self { policy, signature: bytes(signature)?, key: written(key)?.into_owned(), algorithm })
    }
}

/// CloudFront's base64, whose characters can stand in a query.
fn of_base64(text: &str) -> Option<Vec<u8>> {
    let plain = |one| match one {
        '-' => '+',
        '_' => '=',
        '~' => '/',
        other => other,
    };
    STANDARD.decode(text.chars().map(plain).collect::<String>()).ok()
}

/// What a policy says. One with anything else is refused.
struct Policy {
    resource: String,
    begin: Option<u64>,
    end: u64,
    client: Option<ClientNetwork>,
}

impl Policy {
    fn parse(json: &[u8]) -> Option<Self> {
        let policy: Value = serde_json::from_slice(json).ok()?;
        let [statement] = policy.get("Statement")?.as_array()?.as_slice() else { return None };
        only(&policy, &["Statement", "Version"])?;
        let statement_keys = only(statement, &["Resource", "Condition"])?;
        let condition =
            only(statement_keys.get("Condition")?, &["DateLessThan", "DateGreaterThan", "IpAddress"])?;
        let time = |of: &Value| only(of, &["AWS:EpochTime"])?.get("AWS:EpochTime")?.as_u64();
        let begin = match condition.get("DateGreaterThan") {
            Some(begin) => Some(time(begin)?),
            None => None,
        };
        let client = match condition.get("IpAddress") {
            Some(of) => {
                let text = only(of, &["AWS:SourceIp"])?.get("AWS:SourceIp")?.as_str()?;
                Some(ClientNetwork::parse(text)?)
            }
            None => None,
        };
        let resource = statement_keys.get("Resource")?.as_str()?.to_owned();
        Some(Self { resource, begin, end: time(condition.get("DateLessThan")?)?, client })
    }
}

/// Reads a policy that no key has signed.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz_policy(json: &[u8]) {
    if let Some(policy) = Policy::parse(json) {
        scope_of(&policy.resource);
    }
}

/// An object with no other keys than these.
fn only<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v Map<String, Value>> {
    value.as_object().filter(|object| object.keys().all(|key| keys.contains(&key.as_str())))
}
