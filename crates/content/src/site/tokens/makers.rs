//! Makes tokens, as the backend of a site does: for `penstock sign`, and for tests.

mod claims;
mod cloudfront;

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use penstock_config::{LinkExpression, SigningKey};
pub use penstock_http::query::decoded;
use penstock_sys::digest::hmac_sha256;

use super::secure_link::LinkFacts;
pub use super::text::encode;
use super::text::{BASE64URL, SIGNATURE, hexadecimal};
pub use claims::{ClaimSigner, cat, jwt};
pub use cloudfront::cloudfront;

/// What a token is to say.
#[derive(Clone, Copy, Debug)]
pub struct TokenOrder<'o> {
    /// The decoded path that it opens: everything below it if it ends with a slash.
    pub path: &'o str,
    /// When it ends.
    pub expires: SystemTime,
    /// Its name on a list of revoked tokens.
    pub id: Option<&'o str>,
    /// The address of the client that alone may use it.
    pub client: Option<IpAddr>,
}

impl<'o> TokenOrder<'o> {
    /// A token for any client.
    pub fn new(path: &'o str, expires: SystemTime) -> Self {
        Self { path, expires, id: None, client: None }
    }

    fn seconds(&self) -> u64 {
        self.expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// The path, if everything below it is opened.
    fn directory(&self) -> Option<&'o str> {
        self.path.ends_with('/').then_some(self.path)
    }
}

/// A token of this program's own format for a path until a moment; `None` only if the library is out of memory.
/// Percent-encode it with [`encode`] before it goes into a URL.
pub fn sign(key: &SigningKey, path: &str, expires: SystemTime) -> Option<String> {
    penstock(key, &TokenOrder::new(path, expires))
}

/// The same with an id and an address. `None` if the id has a `~`.
pub fn penstock(key: &SigningKey, order: &TokenOrder<'_>) -> Option<String> {
    let mut token = format!("exp={}~key={}", order.seconds(), key.id);
    if let Some(id) = order.id {
        token.push_str(&format!("~id={}", plain(id)?));
    }
    if let Some(client) = order.client {
        token.push_str(&format!("~ip={client}"));
    }
    token.push_str(&format!("~path={}", order.path));
    signed(token, key.secret.expose(), "")
}

/// A token of Akamai with an ACL. `None` if the id has a `~`, or the path a wildcard.
pub fn akamai(secret: &[u8], salt: Option<&[u8]>, order: &TokenOrder<'_>) -> Option<String> {
    if order.path.contains(['*', '?']) {
        return None;
    }
    let path = order.path.replace('%', "%25").replace('!', "%21").replace('~', "%7e");
    let below = if order.directory().is_some() { "*" } else { "" };
    let client = order.client.map(|client| format!("ip={client}~")).unwrap_or_default();
    let mut token = format!("{client}exp={}~acl={path}{below}", order.seconds());
    if let Some(id) = order.id {
        token.push_str(&format!("~id={}", plain(id)?));
    }
    let salt = salt.map(|salt| format!("~salt={}", String::from_utf8_lossy(salt))).unwrap_or_default();
    signed(token, secret, &salt)
}

/// Digest and end of a link of nginx. With `host` and `client` as the expression needs them.
pub fn secure_link(
    expression: &LinkExpression,
    secret: &[u8],
    host: &str,
    order: &TokenOrder<'_>,
) -> Option<(String, u64)> {
    let seconds = order.seconds();
    let (end, address) =
        (seconds.to_string(), order.client.map(|client| client.to_string()).unwrap_or_default());
    let path = order.path.as_bytes();
    let facts = LinkFacts { end: &end, path, address: &address, host: host.as_bytes() };
    Some((BASE64URL.encode(facts.digest(expression, secret)?), seconds))
}

fn plain(id: &str) -> Option<&str> {
    (!id.contains('~')).then_some(id)
}

fn signed(mut token: String, secret: &[u8], more: &str) -> Option<String> {
    let mark = hmac_sha256(secret, format!("{token}{more}").as_bytes())?;
    token.push_str(SIGNATURE);
    token.push_str(&hexadecimal(&mark));
    Some(token)
}

/// The bytes of the first block of a PEM file with one of these names (RFC 7468).
fn pem_block<'n>(pem: &str, names: &[&'n str]) -> Option<(&'n str, Vec<u8>)> {
    names.iter().find_map(|name| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {name}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
        let body: String = body.chars().filter(|one| !one.is_ascii_whitespace()).collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
        Some((*name, bytes))
    })
}
