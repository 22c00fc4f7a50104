//! Tokens of other systems, made by their own generators: EdgeAuth 0.3.2 of Akamai, botocore 1.44.8, openssl and
//! @eyevinn/cat 0.16.4.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::{
    AkamaiTokens, ClaimRules, ExpiredAnswer, JwtTokens, LinkExpression, PublicKey, SecretForm, SecureLink,
    SigningKey, TokenFormat, TokenKeys, TokenRules,
};

use super::super::fuzz::{admitted, at};
use super::super::makers::{self, ClaimSigner, TokenOrder, encode};
use super::{NOW, with_request};
use crate::site::token_refusal::TokenRefusal as R;

/// The end of all tokens of this file.
const END: u64 = NOW + 3600;

fn secret(form: SecretForm, text: &str) -> Arc<SigningKey> {
    Arc::new(SigningKey::new("", form.secret(text.as_bytes().to_vec()).unwrap()))
}

fn rules(format: TokenFormat, parameter: &str) -> TokenRules {
    TokenRules { format, ..TokenRules::signed_urls(Vec::new(), parameter, Some("pass")) }
}

/// The path that is left of a request, or why it is refused.
fn judged_at(rules: &TokenRules, seconds: u64, target: &str, fields: &str) -> Result<String, R> {
    with_request(target, fields, |request| {
        let (target, _) = admitted(rules, request, seconds)?;
        let query = target.query.map(|query| format!("?{query}")).unwrap_or_default();
        Ok(format!("{}{query}", target.path))
    })
}

fn judged(rules: &TokenRules, target: &str) -> Result<String, R> {
    judged_at(rules, NOW, target, "")
}

fn fine(target: &str) -> Result<String, R> {
    Ok(target.to_owned())
}

fn akamai(salt: Option<&str>) -> TokenRules {
    let keys = ["ffffffffffffffffffffffffffffffff", "00112233445566778899aabbccddeeff"];
    let keys = keys.map(|key| secret(SecretForm::Hexadecimal, key)).into();
    let salt = salt.map(|salt| secret(SecretForm::Short, salt));
    rules(TokenFormat::Akamai(AkamaiTokens { keys, salt }), "hdnts")
}

const ACL: &str =
    "exp=1700003600~acl=/vod/1/*~hmac=d2233d9d93010dabe7676c3dabd9e921427959bb74e46d222e12bb5ed7a3f429";
const ALL_FIELDS: &str = "ip=192.0.2.7~st=1699999000~exp=1700003600~acl=/ads/*!/vod/1/?.ts~id=s-7~data=d=1~hmac=614e46f35c56cef57ba07eaa748c7d448a34a8ddfe7900c38a6441dc8d8261f6";
const EARLY: &str = "exp=1700003600~acl=/vod/1/*~id=a+b~data=x%2fy~hmac=67d28f285e6e3728e1973642ebc9dc3409e45254df82a5c485781db4e2f958a4";
const URL: &str = "exp=1700003600~hmac=cf22d90bf1d650b07f3b41e35a83f76bd56e44c9a377b99f8660596895ab52ac";
const URL_EARLY: &str =
    "exp=1700003600~hmac=2b3009f568849e5c7277fb4136336fc53ebee7d3b8cad80065f28f56516714de";
const SALTED: &str =
    "exp=1700003600~acl=/*~hmac=04c9deb9c62dd75f988db77975ca6f03d66ceca46478b25e3c4e5b028f04325a";
const SHA1: &str = "exp=1700003600~acl=/*~hmac=a384015c4edef00817422938b347bc95aa55f0cc";

#[test]
fn tokens_of_akamai_open_what_their_acl_matches() {
    let rules = akamai(None);
    let asked = |token: &str, path: &str| judged(&rules, &format!("{path}?a=1&hdnts={token}"));
    assert_eq!(asked(ACL, "/vod/1/a.ts"), fine("/vod/1/a.ts?a=1"));
    assert_eq!(asked(&encode(ACL), "/vod/1/x/a.ts"), fine("/vod/1/x/a.ts?a=1"));
    assert_eq!(judged(&rules, &format!("/hdnts={}/vod/1/a.ts", encode(ACL))), fine("/vod/1/a.ts"));
    assert_eq!(
        judged_at(&rules, NOW, "/vod/1/a.ts", &format!("Cookie: pass={ACL}\r\n")),
        fine("/vod/1/a.ts")
    );
    for path in ["/vod/1", "/vod/10/a.ts", "/vod/1/../2/a.ts", "/vod/1/..%2f2/a.ts"] {
        assert_eq!(asked(ACL, path), Err(R::OtherPath), "{path}");
    }
    assert_eq!(asked(ALL_FIELDS, "/ads/x"), fine("/ads/x?a=1"));
    assert_eq!(asked(ALL_FIELDS, "/vod/1/7.ts"), fine("/vod/1/7.ts?a=1"));
    assert_eq!(asked(ALL_FIELDS, "/vod/1/77.ts"), Err(R::OtherPath));
    assert_eq!(asked(EARLY, "/vod/1/a.ts"), fine("/vod/1/a.ts?a=1"));
    assert_eq!(asked(&encode(EARLY), "/vod/1/a.ts"), fine("/vod/1/a.ts?a=1"));
    for token in [URL, URL_EARLY] {
        assert_eq!(asked(token, "/vod/a%20b.ts"), fine("/vod/a%20b.ts?a=1"));
        assert_eq!(asked(token, "/vod/a+b.ts"), Err(R::WrongSignature));
    }
    assert_eq!(judged(&akamai(Some("pepper")), &format!("/a?hdnts={SALTED}")), fine("/a"));
    assert_eq!(asked(SALTED, "/a"), Err(R::WrongSignature));
    // SHA-1 is off.
    assert_eq!(asked(SHA1, "/a"), Err(R::WrongSignature));
}

#[test]
fn what_is_wrong_with_a_token_of_akamai_is_told_apart() {
    let rules = akamai(None);
    let asked = |token: &str| judged(&rules, &format!("/vod/1/a.ts?hdnts={token}"));
    assert_eq!(judged(&rules, "/vod/1/a.ts"), Err(R::Missing));
    for (from, to, refusal) in [
        ("exp=17", "exp=27", R::WrongSignature),
        ("/vod/1/*", "/*", R::WrongSignature),
        ("~acl=", "~acl=/*~acl=", R::Malformed),
        ("exp=1700003600~", "", R::Malformed),
        ("~acl=", "~url=/vod/1/a.ts~acl=", R::Malformed),
        ("~hmac=", "~hmac=z", R::Malformed),
        ("~hmac=", "~mac=", R::Malformed),
    ] {
        assert_eq!(asked(&ACL.replace(from, to)), Err(refusal), "{from} {to}");
    }
    assert_eq!(
        judged_at(&rules, END, "/vod/1/a.ts?hdnts=TOKEN".replace("TOKEN", ACL).as_str(), ""),
        Err(R::Expired)
    );
    let early = format!("/ads/x?hdnts={ALL_FIELDS}");
    assert_eq!(judged_at(&rules, 1_699_998_999, &early, ""), Err(R::NotYet));
    // A token for a URL is none for what a client makes its ACL.
    let changed = URL.replace("~hmac", "~acl=/*~hmac");
    assert_eq!(judged(&rules, &format!("/vod/a%20b.ts?hdnts={changed}")), Err(R::WrongSignature));
    let order = TokenOrder { client: Some([192, 0, 2, 8].into()), ..TokenOrder::new("/vod/", at(END)) };
    let key: Vec<u8> = (0..16).map(|number| number * 17).collect();
    let token = makers::akamai(&key, None, &order).unwrap();
    assert_eq!(asked(&encode(&token)), Err(R::OtherClient));
}

#[test]
fn leeway_is_for_both_ends_and_expired_tokens_may_be_gone() {
    let rules = TokenRules { leeway: Duration::from_secs(30), expired: ExpiredAnswer::Gone, ..akamai(None) };
    let target = format!("/ads/x?hdnts={ALL_FIELDS}");
    for (seconds, outcome) in [
        (1_699_998_969, Err(R::NotYet)),
        (1_699_998_970, fine("/ads/x")),
        (END + 29, fine("/ads/x")),
        (END + 30, Err(R::Expired)),
    ] {
        assert_eq!(judged_at(&rules, seconds, &target, ""), outcome, "{seconds}");
    }
    let verifier = super::super::TokenVerifier::new(&rules, &Arc::default(), std::time::Instant::now());
    assert_eq!(verifier.status(R::Expired).code(), 410);
    assert_eq!(verifier.status(R::OtherPath).code(), 403);
}

fn link(expression: &str) -> TokenRules {
    let keys = ["other", "enigma"].map(|key| secret(SecretForm::Short, key)).into();
    let expression = LinkExpression::parse(expression).unwrap();
    rules(TokenFormat::SecureLink(SecureLink { keys, expires: "expires".to_owned(), expression }), "md5")
}

#[test]
fn links_of_nginx_are_for_their_path_address_and_time() {
    let rules = link("$secure_link_expires$uri$remote_addr $secret");
    // By: printf '1700003600/s/link a192.0.2.7 enigma' | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =
    let digest = "0Mv2sgiT_zundEALAZOkdQ";
    let target = format!("/s/link%20a?md5={digest}&expires=1700003600");
    assert_eq!(judged(&rules, &target), fine("/s/link%20a"));
    assert_eq!(judged(&rules, &format!("{target}&b=1")), fine("/s/link%20a?b=1"));
    assert_eq!(judged(&rules, &target.replace("&expires", "==&expires")), fine("/s/link%20a"));
    assert_eq!(judged(&rules, &format!("/md5={digest},1700003600/s/link%20a")), fine("/s/link%20a"));
    let cookie = format!("Cookie: pass={digest},1700003600\r\n");
    assert_eq!(judged_at(&rules, NOW, "/s/link%20a", &cookie), fine("/s/link%20a"));
    assert_eq!(judged_at(&rules, END, &target, ""), fine("/s/link%20a"));
    assert_eq!(judged_at(&rules, END + 1, &target, ""), Err(R::Expired));
    for (from, to, refusal) in [
        ("link%20a", "link%20b", R::WrongSignature),
        ("expires=1", "expires=2", R::WrongSignature),
        ("&expires=1700003600", "", R::Malformed),
        ("expires=", "expires=+", R::Malformed),
        ("md5=", "md5=A", R::Malformed),
        ("md5=", "md6=", R::Malformed),
        ("/s/", "/s/%2e%2e/s/..%2f", R::OtherPath),
    ] {
        assert_eq!(judged(&rules, &target.replacen(from, to, 1)), Err(refusal), "{from} {to}");
    }
    let other = link("$secure_link_expires$uri $secret");
    assert_eq!(judged(&other, &target), Err(R::WrongSignature));
}

#[test]
fn a_link_of_a_directory_opens_its_files_and_is_given_as_a_cookie() {
    let mut rules = link("$secure_link_expires$directory $secret");
    rules.sets_cookie = true;
    let TokenFormat::SecureLink(raw) = &rules.format else { unreachable!() };
    let order = TokenOrder::new("/vod/ä/", at(END));
    let (digest, end) = makers::secure_link(&raw.expression, b"enigma", "", &order).unwrap();
    let target = format!("/vod/%C3%A4/a.m3u8?md5={digest}&expires={end}");
    let given = with_request(&target, "", |request| admitted(&rules, request, NOW)).unwrap();
    let cookie =
        format!("pass={digest}%2C{end}; Path=/vod/%C3%A4/; Max-Age=3600; HttpOnly; Secure; SameSite=None");
    assert_eq!(given.1, [("Set-Cookie".to_owned(), cookie.clone())]);
    let fields = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(judged_at(&rules, NOW, "/vod/%C3%A4/b.ts", &fields), fine("/vod/%C3%A4/b.ts"));
    assert_eq!(judged_at(&rules, NOW, "/vod/b.ts", &fields), Err(R::WrongSignature));
    // The cookie is there already.
    let again = with_request("/vod/%C3%A4/b.ts", &fields, |request| admitted(&rules, request, NOW)).unwrap();
    assert!(again.1.is_empty());
}

fn cloudfront(id: &str) -> TokenRules {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/site/tokens/tests/cloudfront.pem");
    let keys = TokenKeys::read_rsa(&file).unwrap();
    rules(TokenFormat::CloudFront(vec![PublicKey { id: id.to_owned(), file, keys }]), "Signature")
}

const CANNED: &str = "/vod/1/a.ts?v=1&Expires=1700003600&Signature=KY7qECMwzFRSKpKe9jdFeVwsc7MgDgKnRONWlsD51X2B84LWnYznIO1tt-WI~YSk2qFShH8QFSwU433sJMzuv29swW-lmzVMMq-R19yU~o~vVDlRLf9kh4~6ul~IYzJSb0uzgSBy3gf~Sv0Rw6VNUdVKHEsK5Fw002QeoIREHogFIziOVSEGAh2FGNAK-qaRWqjhbVSYGwK9-0kXuGnUHIKAFWSzGEqSd56~AVkgRmavBeuasGdqRNbXxkJtQRA4yTi5kTCCVWO1uE2cEhivhxohboTttoIat6M4-SkodLVOXw4bkg81SX6fIuGU3BBkahrX0cVh4h3Id0St8AfxTg__&Key-Pair-Id=K2JCJMDEHXQW5F";
const CUSTOM: &str = "/vod/1/a.ts?v=1&Policy=eyJTdGF0ZW1lbnQiOlt7IlJlc291cmNlIjoiaHR0cHM6Ly9hLmV4YW1wbGUvdm9kLzEvKiIsIkNvbmRpdGlvbiI6eyJEYXRlTGVzc1RoYW4iOnsiQVdTOkVwb2NoVGltZSI6MTcwMDAwMzYwMH0sIklwQWRkcmVzcyI6eyJBV1M6U291cmNlSXAiOiIxOTIuMC4yLjAvMjQifSwiRGF0ZUdyZWF0ZXJUaGFuIjp7IkFXUzpFcG9jaFRpbWUiOjE2OTk5MjAwMDB9fX1dfQ__&Signature=Y9U53XbkfVzcbtE6efCYCdSwS4FIHeZJMg~e5J3Suo01PZ2XYJ44HKHkqoLeyLsq75~-offkQY5J8XsIABe8V4jcJTWlfb6B8ddR9Qirxt9Wj2v3ugEV1OmOqSDnHYoBgFCc2bsWTRIqoY85Hu6gbbz6Hho1rvWa-m3CIFrZw5RFcVHQZTgWyv9f69c4SfV9ILlC3TzpV6pz6g9Bi5e3~xm~kpQhjASNys0muwz3C9ziWBY6-vXmXctdm6JFgv7~F-y-l8f-y12wnsjj8NFKMtRGOGUUyY6c~wI9fGTFR17OS1e3R4ZAsKQlGx1K-OJx0KdKQO29T5S4NpQKmdl9pA__&Key-Pair-Id=K2JCJMDEHXQW5F";

#[test]
fn urls_of_cloudfront_open_what_their_policy_says() {
    let rules = cloudfront("K2JCJMDEHXQW5F");
    for target in [CANNED, CUSTOM] {
        assert_eq!(judged(&rules, target), fine("/vod/1/a.ts?v=1"), "{target}");
        assert_eq!(judged(&cloudfront(""), target), fine("/vod/1/a.ts?v=1"), "{target}");
        assert_eq!(judged(&cloudfront("other"), target), Err(R::UnknownKey), "{target}");
        assert_eq!(judged_at(&rules, END, target, ""), Err(R::Expired), "{target}");
        let changed = target.replace("Signature=", "Signature=AAAA");
        assert_eq!(judged(&rules, &changed), Err(R::WrongSignature), "{target}");
        assert_eq!(judged(&rules, &format!("{target}&Hash-Algorithm=SHA256")), Err(R::WrongSignature));
        assert_eq!(judged(&rules, &format!("{target}&Hash-Algorithm=MD5")), Err(R::Malformed));
        assert_eq!(
            judged(&rules, &target.replace("/vod/1/", "/vod/2/")),
            Err(match target {
                CANNED => R::WrongSignature,
                _ => R::OtherPath,
            })
        );
    }
    assert_eq!(judged(&rules, &CANNED.replace("v=1", "v=2")), Err(R::WrongSignature));
    assert_eq!(judged(&rules, &CUSTOM.replace("a.ts?v=1", "x/b.ts?w=1")), fine("/vod/1/x/b.ts?w=1"));
    assert_eq!(judged_at(&rules, 1_699_919_999, CUSTOM, ""), Err(R::NotYet));
    assert_eq!(judged(&rules, "/vod/1/a.ts?Expires=1700003600"), Err(R::Malformed));
    assert_eq!(judged(&rules, "/vod/1/a.ts"), Err(R::Missing));
}

#[test]
fn wildcards_of_a_policy_stay_in_their_part_of_the_url() {
    let is_of = super::super::cloudfront::is_of_resource;
    for (resource, url, expected) in [
        ("http*://*.example/vod/*", "https://a.example/vod/b?c", true),
        ("https://*.example/vod/*", "https://a.example/secret?b.example/vod/c", false),
        ("https://*.example/vod/*.ts", "https://a.example/vod/a.mp4?x=.ts", false),
        ("https://a.example/vod/*.ts?v=?", "https://a.example/vod/a.ts?v=1", true),
        ("*", "https://a.example/x", true),
        ("https://a.example", "https://a.example/", false),
    ] {
        assert_eq!(is_of(resource, url), expected, "{resource} {url}");
    }
}

#[test]
fn cookies_of_cloudfront_are_read_and_given_for_the_directory_of_the_policy() {
    let rules = TokenRules { sets_cookie: true, ..cloudfront("") };
    let given = |target: &str| with_request(target, "", |request| admitted(&rules, request, NOW)).unwrap().1;
    let cookies: Vec<String> = given(CUSTOM).into_iter().map(|(_, cookie)| cookie).collect();
    assert_eq!(cookies.len(), 3);
    assert!(cookies.iter().all(|cookie| cookie.contains("; Path=/vod/1/; Max-Age=3600; ")), "{cookies:?}");
    let pairs: Vec<_> = cookies.iter().map(|cookie| cookie.split(';').next().unwrap()).collect();
    let fields = format!("Cookie: {}; a=1\r\n", pairs.join("; "));
    assert_eq!(judged_at(&rules, NOW, "/vod/1/b.ts", &fields), fine("/vod/1/b.ts"));
    assert_eq!(judged_at(&rules, NOW, "/vod/2/b.ts", &fields), Err(R::OtherPath));
    let without = fields.replace("CloudFront-Policy", "CloudFront-Other");
    assert_eq!(judged_at(&rules, NOW, "/vod/1/b.ts", &without), Err(R::Malformed));
    assert!(given(CANNED).is_empty(), "it is for one path");
}

const JWKS: &str = r#"{"keys":[{"kty":"oct","kid":"k","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;

fn claims() -> ClaimRules {
    let keys = TokenKeys::parse(JWKS).unwrap();
    let (issuer, audience) = (Some("me".to_owned()), None);
    ClaimRules { file: "".into(), keys, issuer, audience, leeway: Duration::ZERO }
}

#[test]
fn json_web_tokens_open_the_paths_of_their_claim() {
    let (path_claim, client_claim) = (Some("path".to_owned()), Some("ip".to_owned()));
    let rules = rules(TokenFormat::Jwt(JwtTokens { claims: claims(), path_claim, client_claim }), "token");
    let signer = ClaimSigner::parse(JWKS, None).unwrap();
    let client = Some([192, 0, 2, 7].into());
    let token = |order: &TokenOrder<'_>| makers::jwt(&signer, order, &[("iss", "me")]).unwrap();
    let order = TokenOrder { client, ..TokenOrder::new("/vod/", at(END)) };
    let asked =
        |order: &TokenOrder<'_>, path: &str| judged(&rules, &format!("{path}?token={}", token(order)));
    assert_eq!(asked(&order, "/vod/a"), fine("/vod/a"));
    assert_eq!(asked(&order, "/vod"), Err(R::OtherPath));
    assert_eq!(judged(&rules, &format!("/token={}/vod/a", token(&order))), fine("/vod/a"));
    assert_eq!(asked(&TokenOrder { client: None, ..order }, "/vod/a"), Err(R::Claim));
    assert_eq!(
        asked(&TokenOrder { client: Some([192, 0, 2, 8].into()), ..order }, "/vod/a"),
        Err(R::OtherClient)
    );
    assert_eq!(asked(&TokenOrder { expires: at(NOW), ..order }, "/vod/a"), Err(R::Expired));
    let other = makers::jwt(&signer, &order, &[("iss", "you")]).unwrap();
    assert_eq!(judged(&rules, &format!("/vod/a?token={other}")), Err(R::Claim));
}

/// With `catu` of https, a.example, `/vod/1/` and `.ts`, `catm`, `catnip`, `catgeoiso3166`, `catreplay` 0 and `catr`.
const CAT: &str = "2D3RhEOhAQWhBEFrWJatAWJtZQJheAQaZVP_EAUaZVPtGAYaZVPtGAdCC3EZATQAGQE2ARkBN4LYNIIYGETAAAIA2DZQIAENuAAAAAAAAAAAAAAAARkBOKQAoQBlaHR0cHMBoQBpYS5leGFtcGxlA6EBZy92b2QvMS8IoQBjLnRzGQE5gmNHRVRkSEVBRBkBPIJiREViU0UZAUOjAAEBGHgCGDxYIMuszagQ_8almSqrJmPiozCh9ex8ycZl7ul1K5LfXlNZ";

#[test]
fn a_common_access_token_of_another_author_is_read() {
    let rules = TokenRules {
        field: Some("cta-common-access-token".to_owned()),
        ..rules(TokenFormat::Cat(claims()), "CAT")
    };
    assert_eq!(judged(&rules, &format!("/vod/1/a.ts?CAT={CAT}&b")), fine("/vod/1/a.ts?b"));
    let field = format!("CTA-Common-Access-Token: {CAT}\r\n");
    assert_eq!(judged_at(&rules, NOW, "/vod/1/a.ts", &field), fine("/vod/1/a.ts"));
    assert_eq!(judged_at(&rules, NOW, "/vod/1/a.m3u8", &field), Err(R::OtherPath));
    assert_eq!(judged_at(&rules, NOW, "/vod/2/a.ts", &field), Err(R::OtherPath));
    assert_eq!(judged_at(&rules, END, "/vod/1/a.ts", &field), Err(R::Expired));
    assert_eq!(judged_at(&rules, 1_699_998_999, "/vod/1/a.ts", &field), Err(R::NotYet));
    let changed = field.replace("GHgC", "GHgD");
    assert_ne!(changed, field);
    assert_eq!(judged_at(&rules, NOW, "/vod/1/a.ts", &changed), Err(R::WrongSignature));
}
