//! Bodies of fuzz targets: requests with a token that is right for some path, and tokens of all formats.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine;
use ciborium::Value;
use penstock_config::signing::secret_of_file;
use penstock_config::{
    AkamaiTokens, ClaimRules, LinkExpression, PublicKey, SecureLink, SigningKey, TokenAlgorithm, TokenFormat,
    TokenKeys, TokenRules,
};
use penstock_http::query::decoded;
use penstock_http::{HeadLimits, Request, query};
use penstock_origin::io_threads::{IoLimits, IoThreads};

use super::cbor::encoded;
use super::cose::signed_message;
use super::makers::{self, ClaimSigner, TokenOrder, encode, sign};
use super::text::BASE64URL;
use super::{TokenVerifier, Visitor};
use crate::site::bare_path::UnsignedTarget;
use crate::site::token_refusal::TokenRefusal;

const NOW: u64 = 1_700_000_000;

/// The id of tokens that count no longer, whatever the rules say.
pub(super) const REVOKED_ELSEWHERE: &str = "revoked elsewhere";

pub(super) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(super) type GivenFields = Vec<(String, String)>;

/// The outcome of a request from 192.0.2.7 over HTTPS at `seconds`: its target without tokens, and fields of the response.
pub(super) fn admitted(
    rules: &TokenRules,
    request: &Request<'_>,
    seconds: u64,
) -> Result<(UnsignedTarget<'static>, GivenFields), TokenRefusal> {
    thread_local! {
        static IO: IoThreads =
            IoThreads::start(IoLimits { threads: 1, queued: 1, queued_later: 1 }).expect("a thread starts");
    }
    let verifier = TokenVerifier::new(rules, &Arc::default(), Instant::now());
    IO.with(|io| {
        let address = [192, 0, 2, 7].into();
        let country = || Some(*b"DE");
        let (now, wall) = (Instant::now(), at(seconds));
        let is_revoked = |id: &str| id == REVOKED_ELSEWHERE;
        let visitor =
            Visitor { address, is_secure: true, country: &country, is_revoked: &is_revoked, io, now, wall };
        let admitted = verifier.admit(request, &visitor)?;
        let path = admitted.target.path.into_owned().into();
        let query = admitted.target.query.map(|query| query.into_owned().into());
        Ok((UnsignedTarget { path, query }, admitted.given))
    })
}

fn rules(secret: &str) -> (Arc<SigningKey>, TokenRules) {
    let secret = secret_of_file(secret.as_bytes().to_vec()).expect("it is long enough");
    let key = Arc::new(SigningKey::new("new", secret));
    (Arc::clone(&key), TokenRules::signed_urls(vec![key], "token", Some("pass")))
}

/// A request whose lines are these; `None` if it is none.
fn with_request<T>(target: &str, cookie: &str, use_it: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nCookie: {cookie}\r\n\r\n");
    let limits = HeadLimits { head_bytes: 16 * 1024, fields: 16, target_bytes: 8 * 1024 };
    Some(use_it(&Request::parse(head.as_bytes(), &limits).ok()?))
}

/// The body of the fuzz target `signed_url`: a path that a token is made for, a target and a cookie, one in each line.
/// In the last two the word `TOKEN` stands for that token. It opens what lies below the path and nothing else, and
/// only in time.
///
/// # Panics
/// When it opens more.
pub fn fuzz_signed_urls(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (scope, target, cookie) = (line(), line(), line());
    let (key, rules_now) = rules("a secret that is long enough to be one\n");
    let Some(token) = sign(&key, scope, at(NOW + 1)) else { return };
    let (target, cookie) = (target.replace("TOKEN", &encode(&token)), cookie.replace("TOKEN", &token));
    with_request(&target, &cookie, |request| {
        let Ok((bare, _)) = admitted(&rules_now, request, NOW) else { return };
        assert!(is_inside(scope, &bare.path), "{scope} opens {}", bare.path);
        let left = bare.query.as_deref().unwrap_or_default();
        assert!(query::take(left, "token").is_none(), "the token goes on in {left}");
        assert!(decoded(left).is_none_or(|left| left.len() <= target.len()));
        assert!(admitted(&rules_now, request, NOW + 1).is_err(), "it is over");
        let other = rules("another secret, which is as long as that\n").1;
        assert!(admitted(&other, request, NOW).is_err());
    });
}

/// The formats with one key each, and the parameter of their tokens.
pub(super) fn formats() -> Vec<TokenRules> {
    let (key, own) = rules("a secret that is long enough to be one\n");
    let expression = LinkExpression::parse("$secure_link_expires$directory $secret").expect("it is one");
    let keys = vec![key];
    let secure_link = SecureLink { keys: keys.clone(), expires: "expires".to_owned(), expression };
    let claims = ClaimRules {
        file: "".into(),
        keys: TokenKeys::parse(JWKS).expect("it is one"),
        issuer: None,
        audience: None,
        leeway: Duration::ZERO,
    };
    let jwt = penstock_config::JwtTokens {
        claims: claims.clone(),
        path_claim: Some("path".to_owned()),
        client_claim: None,
    };
    let keys_of_rsa = TokenKeys::parse(include_str!("tests/cloudfront.pem")).expect("it is one");
    let public = PublicKey { id: String::new(), file: "".into(), keys: keys_of_rsa };
    let formats = [
        TokenFormat::CloudFront(vec![public]),
        TokenFormat::SecureLink(secure_link),
        TokenFormat::Akamai(AkamaiTokens { keys, salt: None }),
        TokenFormat::Jwt(jwt),
        TokenFormat::Cat(claims),
    ];
    let others = formats.into_iter().map(|format| TokenRules { format, ..own.clone() });
    [own.clone()].into_iter().chain(others).collect()
}

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

const JWKS: &str = r#"{"keys":[{"kty":"oct","kid":"k","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;

/// A Common Access Token with these headers and claims, by the key of [`formats`].
pub(super) fn cat_token(protected: &[u8], payload: &[u8], tags: &[u64]) -> String {
    let message = signed_message(TokenAlgorithm::Hs256, protected, payload);
    let mark = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), &message);
    let [protected, payload, mark] =
        [protected, payload, mark.as_ref()].map(|part| Value::Bytes(part.to_vec()));
    let message = Value::Array(vec![protected, Value::Map(Vec::new()), payload, mark]);
    let tagged = tags.iter().fold(message, |value, tag| Value::Tag(*tag, Box::new(value)));
    BASE64URL.encode(encoded(&tagged))
}

/// A token of a format for everything below a path; `None` for CloudFront, whose private key is not here.
pub(super) fn token_for(rules: &TokenRules, scope: &str, end: u64) -> Option<String> {
    let order = TokenOrder::new(scope, at(end));
    let secret = |keys: &[Arc<SigningKey>]| Arc::clone(&keys[0].secret);
    let signer = || ClaimSigner::parse(JWKS, None);
    match &rules.format {
        TokenFormat::Penstock(keys) => makers::penstock(&keys[0], &order),
        TokenFormat::SecureLink(link) => {
            let made = makers::secure_link(&link.expression, secret(&link.keys).expose(), "", &order)?;
            Some(format!("{},{}", made.0, made.1))
        }
        TokenFormat::Akamai(raw) => makers::akamai(secret(&raw.keys).expose(), None, &order),
        TokenFormat::Jwt(_) => makers::jwt(&signer()?, &order, &[]),
        TokenFormat::Cat(_) => makers::cat(&signer()?, &order, &[]),
        TokenFormat::CloudFront(_) => None,
    }
}

/// The body of the fuzz target `token_formats`: the number of a format, a directory that a token is made for, a target, and a
/// cookie, one in each line. In the last two the word `TOKEN` stands for the token. What is written beside it makes tokens that
/// are wrong in any way. The rest is what a Common Access Token or a policy of CloudFront says.
///
/// # Panics
/// When the token opens a path that does not lie below its directory, or opens it after its end.
pub fn fuzz_token_formats(input: &[u8]) {
    let mut lines = input.splitn(5, |byte| *byte == b'\n');
    let mut line = || str::from_utf8(lines.next().unwrap_or_default()).unwrap_or_default();
    let (number, scope, target, cookie) = (line(), line(), line(), line());
    let rest = lines.next().unwrap_or_default();
    super::cloudfront::fuzz_policy(rest);
    let all = formats();
    let claims = cat_token(&[0xa1, 1, 5], rest, &[]);
    with_request(&format!("/a/b.ts?token={claims}"), "", |request| {
        // Whatever the issuer says, it is read without a panic.
        let _outcome = admitted(&all[all.len() - 1], request, NOW);
    });
    let rules = &all[number.parse().unwrap_or(0) % all.len()];
    if !scope.starts_with('/') || !scope.ends_with('/') {
        return;
    }
    let token = encode(&token_for(rules, scope, NOW + 60).unwrap_or_default());
    let (target, cookie) = (target.replace("TOKEN", &token), cookie.replace("TOKEN", &token));
    with_request(&target, &cookie, |request| {
        let Ok((bare, _)) = admitted(rules, request, NOW) else { return };
        assert!(is_inside(scope, &bare.path), "{scope} opens {}: {rules:?}", bare.path);
        assert!(query::take(bare.query.as_deref().unwrap_or_default(), "token").is_none());
        assert!(admitted(rules, request, NOW + 61).is_err(), "it is over");
    });
}

/// Whether a token for `scope` may open a path.
pub(super) fn is_inside(scope: &str, raw_path: &str) -> bool {
    let path = decoded_bytes(raw_path);
    let climbs = path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."));
    let inside = match scope.ends_with('/') {
        true => path.starts_with(scope.as_bytes()),
        false => path == scope.as_bytes(),
    };
    inside && !climbs
}

/// Decoded apart from how requests are, on purpose.
fn decoded_bytes(raw: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = raw;
    while let Some(letter) = rest.chars().next() {
        let digits = rest.get(1..3).filter(|_| letter == '%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    bytes
}
