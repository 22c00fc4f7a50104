//! Common Access Tokens: each claim.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::{Value, cbor};
use penstock_config::{ClaimRules, TokenFormat, TokenKeys, TokenRules};

use super::super::cbor::encoded;
use super::super::fuzz::{admitted, cat_token};
use super::{NOW, with_request};
use crate::site::token_refusal::TokenRefusal as R;

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

fn rules() -> TokenRules {
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{}\"}}]}}", URL_SAFE_NO_PAD.encode(SECRET));
    let claims = ClaimRules {
        file: "".into(),
        keys: TokenKeys::parse(&keys).unwrap(),
        issuer: None,
        audience: Some("video".to_owned()),
        leeway: Duration::ZERO,
    };
    TokenRules { format: TokenFormat::Cat(claims), ..TokenRules::signed_urls(Vec::new(), "CAT", None) }
}

/// A token with these headers and claims.
fn token(protected: &Value, payload: &Value, tags: &[u64]) -> String {
    cat_token(&encoded(protected), &encoded(payload), tags)
}

/// The outcome of `GET https://a.example/vod/1/a.b.ts?v=1` with the field `X-A: 1` from 192.0.2.7 in Germany.
fn judged(token: &str) -> Result<(), R> {
    let target = format!("/vod/1/a.b.ts?v=1&CAT={token}");
    with_request(&target, "X-A: 1\r\n", |request| admitted(&rules(), request, NOW)).map(drop)
}

fn with(label: i64, claim: Value) -> Result<(), R> {
    let mut claims = vec![
        (Value::from(3), Value::from("video")),
        (Value::from(4), Value::from(NOW + 60)),
        (Value::from(310), Value::from(1)),
    ];
    claims.retain(|(known, _)| *known != Value::from(label));
    claims.push((Value::from(label), claim));
    judged(&token(&cbor!({1 => 5}).unwrap(), &Value::Map(claims), &[17, 61]))
}

fn tagged(tag: u64, value: Value) -> Value {
    Value::Array(vec![Value::Tag(tag, Box::new(value))])
}

#[test]
fn each_claim_holds_or_refuses_the_token() {
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    let list = |values: &[&str]| Value::Array(values.iter().map(|value| Value::from(*value)).collect());
    let prefix = |bits: u8, address: &[u8]| Value::Array(vec![Value::from(bits), bytes(address)]);
    for (label, claim, outcome) in [
        (1, Value::from("any"), Ok(())),
        (1, Value::from(7), Err(R::Claim)),
        (2, Value::from("viewer"), Ok(())),
        (3, list(&["audio", "video"]), Ok(())),
        (3, Value::from("audio"), Err(R::Claim)),
        (4, Value::from(NOW), Err(R::Expired)),
        (4, Value::Float(1_700_000_000.5), Err(R::Expired)),
        (4, Value::Float(f64::INFINITY), Err(R::Claim)),
        (4, Value::from(-1), Err(R::Claim)),
        (4, Value::from("soon"), Err(R::Claim)),
        (5, Value::from(NOW), Ok(())),
        (5, Value::from(NOW + 1), Err(R::NotYet)),
        (6, Value::from(NOW + 1), Ok(())),
        (7, bytes(b"id"), Ok(())),
        (7, Value::from("id"), Err(R::Claim)),
        (308, Value::from(0), Ok(())),
        (308, Value::from(1), Err(R::Claim)),
        (310, Value::from(2), Err(R::Claim)),
        (311, tagged(52, bytes(&[192, 0, 2, 7])), Ok(())),
        (311, tagged(52, bytes(&[192, 0, 2, 8])), Err(R::OtherClient)),
        (311, tagged(52, prefix(24, &[192, 0, 2])), Ok(())),
        (311, tagged(52, prefix(0, &[])), Ok(())),
        (311, tagged(52, prefix(33, &[192, 0, 2])), Err(R::OtherClient)),
        (311, tagged(52, prefix(24, &[192, 0, 3])), Err(R::OtherClient)),
        (311, tagged(54, bytes(&[0; 16])), Err(R::OtherClient)),
        (311, tagged(52, bytes(&[0; 5])), Err(R::OtherClient)),
        (311, Value::Array(vec![Value::from(64_496)]), Err(R::OtherClient)),
        (311, Value::Array(Vec::new()), Err(R::OtherClient)),
        (313, list(&["POST", "GET"]), Ok(())),
        (313, list(&["POST"]), Err(R::OtherClient)),
        (314, list(&["http/1.1"]), Ok(())),
        (314, Value::Array(vec![bytes(b"h2")]), Err(R::OtherClient)),
        (315, cbor!({"x-a" => {0 => "1"}}).unwrap(), Ok(())),
        (315, cbor!({"x-a" => {0 => "2"}}).unwrap(), Err(R::OtherClient)),
        (315, cbor!({"x-b" => {1 => ""}}).unwrap(), Err(R::OtherClient)),
        (316, list(&["SE", "DE"]), Ok(())),
        (316, list(&["SE"]), Err(R::OtherClient)),
        (316, list(&["DE-BE"]), Err(R::OtherClient)),
        (323, cbor!({0 => 1, 1 => 120}).unwrap(), Ok(())),
        // Not understood: a key that the client has to hold, places, probability of rejection, height, a key and data of the client,
        // a proof of possession, what to do if a claim fails, a fingerprint.
        (8, cbor!({1 => {}}).unwrap(), Err(R::Claim)),
        (282, Value::from("u281"), Err(R::Claim)),
        (309, list(&[]), Err(R::Claim)),
        (317, list(&[]), Err(R::Claim)),
        (318, list(&[]), Err(R::Claim)),
        (319, bytes(b""), Err(R::Claim)),
        (320, Value::from("x"), Err(R::Claim)),
        (321, cbor!({0 => 60}).unwrap(), Err(R::Claim)),
        (322, cbor!({4 => [302]}).unwrap(), Err(R::Claim)),
        (324, list(&[]), Err(R::Claim)),
        (-70_000, Value::from(1), Err(R::Claim)),
    ] {
        assert_eq!(with(label, claim.clone()), outcome, "{label} {claim:?}");
    }
}

#[test]
fn parts_of_the_url_match_in_every_way_that_is_named() {
    let sha256 = |text: &str| {
        Value::Bytes(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes()).as_ref().to_vec())
    };
    let one = |part: i64, way: i64, wanted: Value| {
        let ways = Value::Map(vec![(Value::from(way), wanted)]);
        with(312, Value::Map(vec![(Value::from(part), ways)]))
    };
    for (part, way, wanted, outcome) in [
        (0, 0, "https", Ok(())),
        (0, 0, "http", Err(R::OtherPath)),
        (1, 2, ".example", Ok(())),
        (2, 0, "443", Ok(())),
        (3, 0, "/vod/1/a.b.ts", Ok(())),
        (3, 1, "/vod/1/", Ok(())),
        (3, 1, "/vod/2/", Err(R::OtherPath)),
        (3, 3, "/1/", Ok(())),
        (3, 4, "/vod/.*", Err(R::Claim)),
        (3, 9, "/vod/", Err(R::Claim)),
        (4, 0, "v=1", Ok(())),
        (5, 0, "/vod/1", Ok(())),
        (6, 0, "a.b.ts", Ok(())),
        (7, 1, "a", Ok(())),
        // Both meanings of a name with two dots have to match.
        (7, 0, "a", Err(R::OtherPath)),
        (8, 2, ".ts", Ok(())),
        (8, 0, ".ts", Err(R::OtherPath)),
        (9, 0, "x", Err(R::Claim)),
    ] {
        assert_eq!(one(part, way, Value::from(wanted)), outcome, "{part} {way} {wanted}");
    }
    assert_eq!(one(6, -1, sha256("a.b.ts")), Ok(()));
    assert_eq!(one(6, -1, sha256("a.b.tt")), Err(R::OtherPath));
    assert_eq!(one(6, -1, Value::from("zz")), Err(R::Claim));
    assert_eq!(with(312, cbor!({3 => {1 => "/vod/", 2 => ".m4s"}}).unwrap()), Err(R::OtherPath));
    assert_eq!(with(312, cbor!({3 => {}}).unwrap()), Err(R::Claim));
    assert_eq!(with(312, Value::from("/vod/")), Err(R::Claim));
}

#[test]
fn a_token_is_one_message_with_known_headers() {
    let claims = cbor!({3 => "video", 4 => (NOW + 60)}).unwrap();
    let header = cbor!({1 => 5}).unwrap();
    for tags in [&[][..], &[17], &[17, 61], &[61]] {
        assert_eq!(judged(&token(&header, &claims, tags)), Ok(()), "{tags:?}");
    }
    for tags in [&[18][..], &[18, 61], &[61, 17], &[17, 17], &[96]] {
        assert_eq!(judged(&token(&header, &claims, tags)), Err(R::Malformed), "{tags:?}");
    }
    for (header, outcome) in [
        (cbor!({1 => 4}).unwrap(), R::Malformed),
        (cbor!({}).unwrap(), R::Malformed),
        (cbor!({1 => 5, 2 => [3]}).unwrap(), R::Malformed),
        (cbor!({1 => 5, 4 => "text"}).unwrap(), R::Malformed),
        // The key that the site has is none of P-256.
        (cbor!({1 => (-7)}).unwrap(), R::UnknownKey),
    ] {
        assert_eq!(judged(&token(&header, &claims, &[])), Err(outcome), "{header:?}");
    }
    let twice = Value::Map([NOW + 60, NOW + 90].map(|end| (Value::from(4), Value::from(end))).into());
    for wrong in [twice, cbor!({"exp" => 1}).unwrap(), cbor!([4]).unwrap()] {
        assert_eq!(judged(&token(&header, &wrong, &[])), Err(R::Malformed), "{wrong:?}");
    }
    assert_eq!(
        judged(&token(&header, &cbor!({4 => (NOW + 60)}).unwrap(), &[])),
        Err(R::Claim),
        "no audience"
    );
    assert_eq!(judged(&token(&header, &cbor!({3 => "video"}).unwrap(), &[])), Err(R::Claim), "no end");
    let whole = token(&header, &claims, &[]);
    for cut in 0..whole.len() {
        assert!(judged(&whole[..cut]).is_err(), "{cut}");
    }
    assert_eq!(judged(&format!("{whole}AAAA")), Err(R::Malformed));
    // Lists in lists, and lengths that lie.
    assert_eq!(judged(&URL_SAFE_NO_PAD.encode([0x81; 4000])), Err(R::Malformed));
    assert_eq!(
        judged(&URL_SAFE_NO_PAD.encode([0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        Err(R::Malformed)
    );
}

#[test]
fn a_token_is_renewed_shortly_before_its_end_where_it_says_and_the_site_has_a_place() {
    let rules = TokenRules { cookie: Some("cat".to_owned()), field: Some("x-cat".to_owned()), ..rules() };
    let renewal = |terms: Value| {
        let claims = cbor!({3 => "video", 4 => (NOW + 60), 7 => (Value::Bytes(b"id".to_vec())), 312 => {3 => {1 => "/vod/"}}, 323 => terms});
        token(&cbor!({1 => 5}).unwrap(), &claims.unwrap(), &[17, 61])
    };
    let ask = |fields: &str, query: &str, seconds: u64| {
        let found =
            with_request(&format!("/vod/a{query}"), fields, |request| admitted(&rules, request, seconds));
        found.map(|(_, given)| given)
    };
    let in_field = |terms: Value, seconds| ask(&format!("X-Cat: {}\r\n", renewal(terms)), "", seconds);
    let terms = cbor!({0 => 2, 1 => 600, 2 => 20}).unwrap();
    assert_eq!(in_field(terms.clone(), NOW + 39), Ok(Vec::new()));
    let given = in_field(terms, NOW + 40).unwrap();
    let [(name, later)] = given.as_slice() else { panic!("{given:?}") };
    assert_eq!(name, "x-cat");
    // The new one is good for as long as the terms say, for the same paths.
    let field = format!("X-Cat: {later}\r\n");
    assert!(ask(&field, "", NOW + 40 + 599).is_ok());
    assert_eq!(ask(&field, "", NOW + 40 + 600), Err(R::Expired));
    assert_eq!(
        with_request("/other", &field, |request| admitted(&rules, request, NOW)).map(drop),
        Err(R::OtherPath)
    );
    let cookie = in_field(cbor!({0 => 1, 1 => 600, 3 => "cat"}).unwrap(), NOW).unwrap();
    assert!(cookie[0].0 == "Set-Cookie" && cookie[0].1.starts_with("cat="), "{cookie:?}");
    assert!(cookie[0].1.contains("; Path=/vod/; Max-Age=86400; "), "{cookie:?}");
    // As it came.
    let automatic = cbor!({0 => 0, 1 => 600}).unwrap();
    assert_eq!(in_field(automatic.clone(), NOW).unwrap()[0].0, "x-cat");
    let cookie = format!("Cookie: cat={}\r\n", renewal(automatic.clone()));
    assert_eq!(ask(&cookie, "", NOW).unwrap()[0].0, "Set-Cookie");
    assert_eq!(ask("", &format!("?CAT={}", renewal(automatic)), NOW), Ok(Vec::new()));
    // Places that the site does not have, a redirect, and terms that lack something.
    for terms in [
        cbor!({0 => 1, 1 => 600, 3 => "other"}),
        cbor!({0 => 2, 1 => 600, 4 => "Content-Length"}),
        cbor!({0 => 3, 1 => 600}),
        cbor!({0 => 2}),
        cbor!({1 => 600}),
        cbor!({0 => 2, 1 => (-1)}),
    ] {
        let terms = terms.unwrap();
        assert_eq!(in_field(terms.clone(), NOW), Ok(Vec::new()), "{terms:?}");
    }
}
