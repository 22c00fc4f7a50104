//! The own format, and what all formats have in common.

mod cat;
mod formats;

use std::sync::Arc;

use penstock_config::signing::secret_of_file;
use penstock_config::{SigningKey, TokenRules};
use penstock_http::{HeadLimits, Request};

use super::fuzz::{REVOKED_ELSEWHERE, admitted, at, formats, is_inside, token_for};
use super::makers::{self, TokenOrder, encode, sign};
use crate::site::token_refusal::TokenRefusal;

const NOW: u64 = 1_700_000_000;

fn key(id: &str) -> Arc<SigningKey> {
    let secret = secret_of_file(format!("a secret of the key {id}\n").into_bytes()).unwrap();
    Arc::new(SigningKey::new(id, secret))
}

fn rules() -> TokenRules {
    TokenRules::signed_urls(vec![key("old"), key("new")], "token", Some("pass"))
}

fn token(id: &str, path: &str, expires: u64) -> String {
    sign(&key(id), path, at(expires)).unwrap()
}

/// A request for a target of `a.example`, with these lines of fields.
fn with_request<T>(target: &str, fields: &str, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let limits = HeadLimits { head_bytes: 16_384, fields: 16, target_bytes: 8192 };
    use_it(&Request::parse(head.as_bytes(), &limits).unwrap())
}

/// The outcome of a request: path and query that are left, or why it is refused.
fn judged(target: &str, fields: &str) -> Result<(String, Option<String>), TokenRefusal> {
    with_request(target, fields, |request| {
        let (bare, _) = admitted(&rules(), request, NOW)?;
        Ok((bare.path.into_owned(), bare.query.map(|query| query.into_owned())))
    })
}

#[test]
fn a_token_in_query_path_or_cookie_is_taken_away() {
    let token = token("new", "/vod/", NOW + 1);
    let encoded = encode(&token);
    let left = |path: &str, query: Option<&str>| Ok((path.to_owned(), query.map(str::to_owned)));
    assert_eq!(judged(&format!("/vod/a.mp4?token={token}"), ""), left("/vod/a.mp4", None));
    assert_eq!(judged(&format!("/vod/a.mp4?x=1&token={encoded}&y"), ""), left("/vod/a.mp4", Some("x=1&y")));
    assert_eq!(judged(&format!("/token={encoded}/vod/a.mp4?x=1"), ""), left("/vod/a.mp4", Some("x=1")));
    assert_eq!(
        judged("/vod/a.mp4?x", &format!("Cookie: b=1; pass={token}\r\n")),
        left("/vod/a.mp4", Some("x"))
    );
    assert_eq!(judged("/vod/a.mp4", &format!("Cookie: pass=\"{token}\"\r\n")), left("/vod/a.mp4", None));
}

#[test]
fn one_good_token_is_enough() {
    let (stale, good) = (token("old", "/vod/", NOW), token("old", "/vod/", NOW + 9));
    let cookies = format!("Cookie: pass={stale}; pass={good}\r\n");
    assert!(judged(&format!("/vod/a?token={stale}"), &cookies).is_ok());
    assert_eq!(judged(&format!("/vod/a?token={stale}"), ""), Err(TokenRefusal::Expired));
}

#[test]
fn what_is_wrong_is_told_apart() {
    let good = token("new", "/vod/123/", NOW + 60);
    let refused = |token: &str| judged(&format!("/vod/123/a.mp4?token={}", encode(token)), "").unwrap_err();
    assert_eq!(judged("/vod/123/a.mp4", ""), Err(TokenRefusal::Missing));
    assert_eq!(refused(&token("new", "/vod/123/", NOW)), TokenRefusal::Expired);
    assert_eq!(refused(&token("new", "/vod/124/", NOW + 60)), TokenRefusal::OtherPath);
    assert_eq!(refused(&token("other", "/vod/123/", NOW + 60)), TokenRefusal::UnknownKey);
    assert_eq!(refused(&good.replace("key=new", "key=old")), TokenRefusal::WrongSignature);
    assert_eq!(refused(&good.replace("exp=17", "exp=27")), TokenRefusal::WrongSignature);
    assert_eq!(refused(&good.replace("/vod/123/", "/")), TokenRefusal::WrongSignature);
    for broken in ["", "x", "exp=1", &good[..good.len() - 1], &good.replace("exp=1", "exp=+1")] {
        assert_eq!(refused(broken), TokenRefusal::Malformed, "{broken}");
    }
    assert_eq!(refused(&good.replace("exp=", "exp= ")), TokenRefusal::Malformed);
    assert_eq!(judged("/vod/123/a.mp4?token=%zz", ""), Err(TokenRefusal::Malformed));
}

#[test]
fn a_path_covers_what_lies_below_it_only_if_it_ends_with_a_slash() {
    let asked = |signed: &str, path: &str| {
        judged(&format!("{path}?token={}", encode(&token("new", signed, NOW + 60))), "").map(drop)
    };
    assert_eq!(asked("/", "/a"), Ok(()));
    assert_eq!(asked("/", "/"), Ok(()));
    assert_eq!(asked("/vod/a.mp4", "/vod/a.mp4"), Ok(()));
    assert_eq!(asked("/vod/ä~b.mp4", "/vod/%C3%A4%7eb.mp4"), Ok(()));
    assert_eq!(asked("/vod/", "/vod/"), Ok(()));
    // The origin is asked for what was judged.
    assert_eq!(asked("/vod/1/", "/vod/2/../1/./a"), Ok(()));
    assert_eq!(asked("/vod/1/", "/vod/1//a%09%255"), Ok(()));
    for (signed, path) in [
        ("/vod/a.mp4", "/vod/a.mp4/b"),
        ("/vod/12", "/vod/123"),
        ("/vod/", "/vod"),
        ("/vod/1/", "/vod/1/../2/a"),
        ("/vod/1/", "/vod/1/%2e%2e/2/a"),
        ("/vod/1/", "/vod/1/..;x/2/a"),
        ("/vod/1/", "/vod/1/..%3b/2/a"),
        ("/vod/1/", "/vod/1/..%2f2/a"),
        ("/vod/1/", "/vod/1%2Fa"),
        ("/vod/1/", "/vod/1/..%5C2/a"),
        ("/vod/1/", "/vod/1/..\\2/a"),
        ("/vod/1/", "/vod/1/%252e%252e/2/a"),
        ("/vod/1/", "/vod/1/%252e%252e%252f2/a"),
        ("/vod/1/", "/vod//1/a"),
        ("/vod/1/", "//vod/1/a"),
        ("/vod/1/a", "/vod/1//a"),
        ("/", "/vod/1/%00"),
    ] {
        assert_eq!(asked(signed, path), Err(TokenRefusal::OtherPath), "{signed} {path}");
    }
}

#[test]
fn the_format_is_what_the_documents_say() {
    let secret = secret_of_file(b"0123456789abcdef0123456789abcdef".to_vec()).unwrap();
    let key = SigningKey::new("2026a", secret);
    // By: printf %s 'exp=1767225600~key=2026a~path=/vod/123/' | openssl dgst -sha256 -hmac 0123456789abcdef…
    assert_eq!(
        sign(&key, "/vod/123/", at(1_767_225_600)).unwrap(),
        "exp=1767225600~key=2026a~path=/vod/123/~hmac=c3dfba17c4a9f03d0e3ae2339db441d48898338b0c54aef2b9a33773991e0649"
    );
}

#[test]
fn a_token_with_an_id_and_an_address_is_for_that_client_until_it_is_revoked() {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), "viewer-8\n").unwrap();
    let revoked = penstock_config::RevokedTokens::read(list.path()).unwrap();
    let rules = TokenRules { revoked: Some((list.path().to_owned(), revoked)), ..rules() };
    let asked = |id: Option<&str>, client: Option<[u8; 4]>| {
        let order =
            TokenOrder { id, client: client.map(Into::into), ..TokenOrder::new("/vod/", at(NOW + 9)) };
        let token = encode(&makers::penstock(&key("new"), &order).unwrap());
        with_request(&format!("/vod/a?token={token}"), "", |request| admitted(&rules, request, NOW).map(drop))
    };
    assert_eq!(asked(Some("viewer-7"), Some([192, 0, 2, 7])), Ok(()));
    assert_eq!(asked(Some("viewer-7"), None), Ok(()));
    assert_eq!(asked(None, Some([192, 0, 2, 8])), Err(TokenRefusal::OtherClient));
    assert_eq!(asked(Some("viewer-8"), None), Err(TokenRefusal::Revoked));
    assert_eq!(asked(Some(REVOKED_ELSEWHERE), None), Err(TokenRefusal::Revoked));
    // Fields do not hide in others.
    assert_eq!(
        makers::penstock(&key("new"), &TokenOrder { id: Some("a~ip=1"), ..TokenOrder::new("/", at(1)) }),
        None
    );
}

#[test]
fn no_token_of_any_format_opens_a_path_outside_of_its_directory() {
    let pieces = ["a", "b", "..", ".", "%2e%2e", "..%2f", "%2F", "a%2fb", "..;x", "%252e%252e", "", "*", "ä"];
    let paths = |seed: usize| {
        let pick =
            |place: usize| pieces[seed / pieces.len().pow(u32::try_from(place).unwrap()) % pieces.len()];
        format!("/{}/{}/{}", pick(0), pick(1), pick(2))
    };
    let mut opened = 0;
    for rules in formats() {
        if matches!(rules.format, penstock_config::TokenFormat::CloudFront(_)) {
            continue;
        }
        for scope in ["/a/", "/a/b/", "/", "/b/a/"] {
            let token = encode(&token_for(&rules, scope, NOW + 60).unwrap());
            for seed in 0..pieces.len().pow(3) {
                let target = format!("/token={token}{}", paths(seed));
                with_request(&target, "", |request| {
                    if let Ok((bare, _)) = admitted(&rules, request, NOW) {
                        assert!(is_inside(scope, &bare.path), "{scope} opens {}", bare.path);
                        opened += 1;
                    }
                });
            }
        }
    }
    assert!(opened > 1000, "{opened}");
}

#[test]
fn logs_do_not_show_what_opens_a_path() {
    let all = formats();
    let hidden = |number: usize, text: &str| {
        let verifier = super::TokenVerifier::new(&all[number], &Arc::default(), std::time::Instant::now());
        verifier.hide(text).into_owned()
    };
    for (number, text, expected) in [
        // Own and of Akamai: the log hides what follows `hmac=` itself.
        (0, "/a?token=exp=1~hmac=00", "/a?token=exp=1~hmac=00"),
        (1, "/a?Expires=1&Signature=AA~-&Key-Pair-Id=K", "/a?Expires=1&Signature=hidden&Key-Pair-Id=K"),
        (2, "https://a.example/token=AA,1/a?b", "https://a.example/token=hidden/a?b"),
        (4, "/a?b=1&token=e.y.J", "/a?b=1&token=hidden"),
        (5, "/token=2D3R/a?mytoken=1&token", "/token=hidden/a?mytoken=1&token"),
    ] {
        assert_eq!(hidden(number, text), expected);
    }
}

#[test]
fn arbitrary_tokens_of_all_formats_open_nothing() {
    for number in 0..6 {
        for text in ["TOKEN", "TOKENx", "xTOKEN", "exp=1", "", "%", "AAAA", "a.b.c", "~hmac="] {
            for scope in ["/a/", "/"] {
                let input = format!("{number}\n{scope}\n/a/b?token={text}\npass={text}");
                super::fuzz_token_formats(input.as_bytes());
            }
        }
    }
}
