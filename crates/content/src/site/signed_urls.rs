//! Signed URLs: who may ask for what until when, judged before anything is looked up.
//!
//! A token is text that says what it allows, and an HMAC-SHA256 over that text in hexadecimal:
//!
//! ```text
//! exp=1767225600~key=2026a~path=/vod/123/~hmac=5f6c…
//! ```
//!
//! `exp` is in seconds since 1970. A path that ends with `/` stands for everything below it, any other for itself
//! alone; it is compared with the decoded path of the request. The token comes percent-encoded in a query parameter,
//! in front of the path, where relative URLs in playlists inherit it, or in a cookie. It is taken away before the
//! request goes on: it is no part of a cache key, and no origin sees it.

#[cfg(any(test, feature = "fuzz"))]
mod fuzz;

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_config::{SignedUrls, SigningKey, limits};
use penstock_http::Request;
use penstock_http::query;
pub use penstock_http::query::decoded;
use penstock_http::uri::percent_decoded;
use penstock_sys::digest::{hmac_sha256, is_same};

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_signed_urls;

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no token.
    Missing,
    /// It is not written as tokens are.
    Malformed,
    /// It names a key that the site does not have.
    UnknownKey,
    /// It was changed, or signed with another key of that name.
    WrongSignature,
    /// Its time is over.
    Expired,
    /// It is for another path.
    OtherPath,
}

impl Refusal {
    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::WrongSignature => "wrong_signature",
            Self::Expired => "expired",
            Self::OtherPath => "other_path",
        }
    }
}

/// A token for a path until a moment; `None` only if the library is out of memory. Percent-encode it with [`encode`]
/// before it goes into a URL.
pub fn sign(key: &SigningKey, path: &str, expires: SystemTime) -> Option<String> {
    let seconds = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut token = format!("exp={seconds}~key={}~path={path}", key.id);
    let signature = hmac_sha256(key.secret.expose(), token.as_bytes())?;
    token.push_str(SIGNATURE);
    for byte in signature {
        token.push_str(&format!("{byte:02x}"));
    }
    Some(token)
}

/// Percent-encodes a token so that it can stand in a query, in a segment of a path and in a cookie.
pub fn encode(token: &str) -> String {
    let mut encoded = String::with_capacity(token.len() + 16);
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A request's target without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsignedTarget<'r> {
    pub(crate) path: Cow<'r, str>,
    pub(crate) query: Option<Cow<'r, str>>,
}

/// Judges a request and takes its token away.
///
/// # Errors
/// The fault of the first token that was found.
pub(crate) fn admit<'r>(
    rules: &SignedUrls,
    request: &'r Request<'r>,
    now: SystemTime,
) -> Result<UnsignedTarget<'r>, Refusal> {
    let in_query = request.query().and_then(|query| query::take(query, &rules.parameter));
    let in_path = split_path(request.raw_path(), &rules.parameter);
    let unsigned = UnsignedTarget {
        path: Cow::Borrowed(in_path.map_or_else(|| request.raw_path(), |(_, rest)| rest)),
        query: match &in_query {
            Some(taken) => taken.rest.clone().map(Cow::Owned),
            None => request.query().map(Cow::Borrowed),
        },
    };
    request.url_path().map_err(|_| Refusal::OtherPath)?;
    let path = bare_path(&unsigned.path)?;
    let cookies = rules.cookie.iter().flat_map(|name| cookies_of(request, name));
    let in_url = in_query.map(|taken| taken.value).into_iter().chain(in_path.map(|(token, _)| token));
    let mut refusal = Refusal::Missing;
    for written in in_url.chain(cookies).take(limits::TOKENS_PER_REQUEST) {
        match judge(rules, written, &path, now) {
            Ok(()) => return Ok(unsigned),
            Err(why) if refusal == Refusal::Missing => refusal = why,
            Err(_) => {}
        }
    }
    Err(refusal)
}

const SIGNATURE: &str = "~hmac=";

fn judge(rules: &SignedUrls, written: &str, path: &[u8], now: SystemTime) -> Result<(), Refusal> {
    let text = decoded(written).ok_or(Refusal::Malformed)?;
    let token = Token::parse(&text).ok_or(Refusal::Malformed)?;
    let key = rules.keys.iter().find(|key| key.id == token.key).ok_or(Refusal::UnknownKey)?;
    let expected = hmac_sha256(key.secret.expose(), token.signed.as_bytes());
    if !expected.is_some_and(|expected| is_same(&expected, &token.signature)) {
        return Err(Refusal::WrongSignature);
    }
    if now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() >= token.expires {
        return Err(Refusal::Expired);
    }
    let allowed = token.path.as_bytes();
    let covers = if allowed.ends_with(b"/") { path.starts_with(allowed) } else { path == allowed };
    if covers { Ok(()) } else { Err(Refusal::OtherPath) }
}

/// A token as it was written, its signature not yet looked at.
struct Token<'t> {
    /// The signed text.
    signed: &'t str,
    expires: u64,
    key: &'t str,
    path: &'t str,
    signature: [u8; 32],
}

impl<'t> Token<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once(SIGNATURE)?;
        let (expires, rest) = signed.strip_prefix("exp=")?.split_once("~key=")?;
        let (key, path) = rest.split_once("~path=")?;
        let digits = !expires.is_empty() && expires.bytes().all(|byte| byte.is_ascii_digit());
        let expires = expires.parse().ok().filter(|_| digits)?;
        let signature = of_hexadecimal(signature)?;
        path.starts_with('/').then_some(Self { signed, expires, key, path, signature })
    }
}

fn of_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The token in front of a path, and the path behind it.
pub(crate) fn split_path<'r>(path: &'r str, parameter: &str) -> Option<(&'r str, &'r str)> {
    let rest = path.strip_prefix('/')?.strip_prefix(parameter)?.strip_prefix('=')?;
    match rest.find('/') {
        Some(slash) => Some((&rest[..slash], &rest[slash..])),
        None => Some((rest, "/")),
    }
}

/// The decoded path that tokens are compared with. It is refused if it could name something else for an origin that decodes or
/// resolves more than it should: an encoded slash, or a segment that climbs behind any decoding.
fn bare_path(path: &str) -> Result<Vec<u8>, Refusal> {
    let decoded = percent_decoded(path.as_bytes()).ok_or(Refusal::OtherPath)?;
    let is_other = path.contains("%2F") || climbs(path);
    if is_other { Err(Refusal::OtherPath) } else { Ok(decoded.into_owned()) }
}

/// Whether a path has a dot segment behind one or two decodings. Its normal form has none that is plain.
pub(crate) fn climbs(path: &str) -> bool {
    // Some origins take `..;x` for `..`, and some a backslash for a slash.
    let is_climb = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    };
    let has_climb = |path: &[u8]| path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_climb);
    let Some(decoded) = percent_decoded(path.as_bytes()) else { return false };
    has_climb(&decoded) || percent_decoded(&decoded).is_some_and(|path| has_climb(&path))
}

/// The values of a cookie: a browser may send one for each path it was set for (RFC 6265 §5.4).
pub(crate) fn cookies_of<'r>(request: &Request<'r>, name: &str) -> impl Iterator<Item = &'r str> {
    let lines = request.values("cookie").filter_map(|line| str::from_utf8(line).ok());
    lines.flat_map(|line| line.split(';')).filter_map(move |cookie| {
        let (found, value) = cookie.trim().split_once('=')?;
        let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        (found == name).then_some(quoted.unwrap_or(value))
    })
}

/// The value of Cookie without one of them: the token is not for the origin.
pub(crate) fn without_cookie(value: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(value);
    let is_other = |cookie: &&str| cookie.split_once('=').map_or(*cookie, |(found, _)| found) != name;
    text.split(';').map(str::trim).filter(is_other).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
