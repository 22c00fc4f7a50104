use std::sync::Arc;
use std::time::Duration;

use penstock_config::signing::secret_of_file;
use penstock_http::HeadLimits;

use super::*;

const NOW: u64 = 1_700_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn key(id: &str) -> Arc<SigningKey> {
    let secret = secret_of_file(format!("a secret of the key {id}\n").into_bytes()).unwrap();
    Arc::new(SigningKey { id: id.to_owned(), secret })
}

fn rules() -> SignedUrls {
    SignedUrls {
        keys: vec![key("old"), key("new")],
        parameter: "token".to_owned(),
        cookie: Some("pass".to_owned()),
    }
}

fn token(id: &str, path: &str, expires: u64) -> String {
    sign(&key(id), path, at(expires)).unwrap()
}

/// The outcome of a request: path and query that are left, or why it is refused.
fn judged(target: &str, fields: &str) -> Result<(String, Option<String>), Refusal> {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let limits = HeadLimits { head_bytes: 4096, fields: 16, target_bytes: 2048 };
    let request = Request::parse(head.as_bytes(), &limits).unwrap();
    let bare = admit(&rules(), &request, at(NOW))?;
    Ok((bare.path.into_owned(), bare.query.map(Cow::into_owned)))
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
    assert_eq!(judged(&format!("/vod/a?token={stale}"), ""), Err(Refusal::Expired));
}

#[test]
fn what_is_wrong_is_told_apart() {
    let good = token("new", "/vod/123/", NOW + 60);
    let refused = |token: &str| judged(&format!("/vod/123/a.mp4?token={}", encode(token)), "").unwrap_err();
    assert_eq!(judged("/vod/123/a.mp4", ""), Err(Refusal::Missing));
    assert_eq!(refused(&token("new", "/vod/123/", NOW)), Refusal::Expired);
    assert_eq!(refused(&token("new", "/vod/124/", NOW + 60)), Refusal::OtherPath);
    assert_eq!(refused(&token("other", "/vod/123/", NOW + 60)), Refusal::UnknownKey);
    assert_eq!(refused(&good.replace("key=new", "key=old")), Refusal::WrongSignature);
    assert_eq!(refused(&good.replace("exp=17", "exp=27")), Refusal::WrongSignature);
    assert_eq!(refused(&good.replace("/vod/123/", "/")), Refusal::WrongSignature);
    for broken in ["", "x", "exp=1", &good[..good.len() - 1], &good.replace("exp=1", "exp=+1")] {
        assert_eq!(refused(broken), Refusal::Malformed, "{broken}");
    }
    assert_eq!(refused(&good.replace("exp=", "exp= ")), Refusal::Malformed);
    assert_eq!(judged("/vod/123/a.mp4?token=%zz", ""), Err(Refusal::Malformed));
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
        assert_eq!(asked(signed, path), Err(Refusal::OtherPath), "{signed} {path}");
    }
}

#[test]
fn the_format_is_what_the_documents_say() {
    let secret = secret_of_file(b"0123456789abcdef0123456789abcdef".to_vec()).unwrap();
    let key = SigningKey { id: "2026a".to_owned(), secret };
    // By: printf %s 'exp=1767225600~key=2026a~path=/vod/123/' | openssl dgst -sha256 -hmac 0123456789abcdef…
    assert_eq!(
        sign(&key, "/vod/123/", at(1_767_225_600)).unwrap(),
        "exp=1767225600~key=2026a~path=/vod/123/~hmac=c3dfba17c4a9f03d0e3ae2339db441d48898338b0c54aef2b9a33773991e0649"
    );
}

#[test]
fn the_token_is_taken_out_of_the_cookies() {
    for (sent, left) in [("pass=1", ""), ("a=1; pass=2;b=3", "a=1; b=3"), ("passport=1", "passport=1")] {
        assert_eq!(without_cookie(sent.as_bytes(), "pass"), left);
    }
}
