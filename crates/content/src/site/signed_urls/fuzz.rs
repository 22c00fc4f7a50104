//! The body of a fuzz target: requests with a token that is right for some path.

use std::sync::Arc;
use std::time::Duration;

use penstock_config::signing::secret_of_file;
use penstock_http::{HeadLimits, query};

use super::{Request, SignedUrls, SigningKey, SystemTime, UNIX_EPOCH, admit, decoded, encode, sign};

const NOW: u64 = 1_700_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn rules(secret: &str) -> SignedUrls {
    let secret = secret_of_file(secret.as_bytes().to_vec()).expect("it is long enough");
    let key = Arc::new(SigningKey { id: "new".to_owned(), secret });
    SignedUrls { keys: vec![key], parameter: "token".to_owned(), cookie: Some("pass".to_owned()) }
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
    let rules_now = rules("a secret that is long enough to be one\n");
    let Some(token) = sign(&rules_now.keys[0], scope, at(NOW + 1)) else { return };
    let (target, cookie) = (target.replace("TOKEN", &encode(&token)), cookie.replace("TOKEN", &token));
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
    let limits = HeadLimits { head_bytes: 16 * 1024, fields: 16, target_bytes: 8 * 1024 };
    let Ok(request) = Request::parse(head.as_bytes(), &limits) else { return };
    let Ok(bare) = admit(&rules_now, &request, at(NOW)) else { return };
    let path = decoded_bytes(&bare.path);
    let inside = match scope.ends_with('/') {
        true => path.starts_with(scope.as_bytes()),
        false => path == scope.as_bytes(),
    };
    assert!(inside, "{scope} opens {}", bare.path);
    assert!(
        !path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b"..")),
        "{}",
        bare.path
    );
    let left = bare.query.as_deref().unwrap_or_default();
    assert!(query::take(left, "token").is_none(), "the token goes on in {left}");
    assert!(decoded(left).is_none_or(|left| left.len() <= target.len()));
    assert!(admit(&rules_now, &request, at(NOW + 1)).is_err(), "it is over");
    assert!(admit(&rules("another secret, which is as long as that\n"), &request, at(NOW)).is_err());
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
