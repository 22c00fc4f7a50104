//! Tokens in formats of other systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use penstock_config::{ClientKind, ExpiredAnswer, LinkPart, TokenFormat, TokenRules};

use crate::fixture::Fixture;

fn site(lines: &str) -> String {
    format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- origin: {{http: [\"http://a\"]}}\n  {lines}\n")
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).unwrap();
    fs::set_permissions(directory.join(name), Permissions::from_mode(0o600)).unwrap();
}

/// Files of keys, beside those of the fixture.
fn files() -> Fixture {
    let fixture = Fixture::new();
    for (name, text) in [
        ("long.key", "0123456789abcdef\n"),
        ("short.key", "enigma\n"),
        ("hex.key", "00112233445566778899aabbccddeeff\n"),
        ("empty.key", "\n"),
        ("revoked.txt", "viewer-7\n"),
        ("rsa.pem", include_str!("../../../content/src/site/tokens/tests/cloudfront.pem")),
    ] {
        write(fixture.path(), name, text);
    }
    fixture
}

fn rules(fixture: &Fixture, tokens: &str) -> TokenRules {
    let config = fixture.read(&site(&format!("tokens: {tokens}"))).unwrap();
    config.sites[0].settings.tokens.clone().unwrap()
}

#[test]
fn each_format_has_its_places_and_its_keys() {
    let fixture = files();
    for (tokens, parameter, cookie, field) in [
        ("{format: penstock, key: long.key}", "token", None, None),
        ("{format: secure_link, key: long.key, cookie: link}", "md5", Some("link"), None),
        ("{format: akamai, key: hex.key, cookie: hdntl, parameter: hdnea}", "hdnea", Some("hdntl"), None),
        ("{format: jwt, key: jwks.json, field: X-Token}", "token", None, Some("x-token")),
        ("{format: cat, key: jwks.json}", "CAT", None, Some("cta-common-access-token")),
    ] {
        let rules = rules(&fixture, tokens);
        let found = (rules.parameter.as_str(), rules.cookie.as_deref(), rules.field.as_deref());
        assert_eq!(found, (parameter, cookie, field), "{tokens}");
        assert_eq!(rules.leeway, Duration::from_secs(30), "{tokens}");
    }
    let cloudfront = rules(
        &fixture,
        "{format: cloudfront, keys: [{id: K1, file: rsa.pem}, {id: K2, file: rsa.pem}], set_cookie: true, \
         expired: 410, leeway: 1m, revoked: revoked.txt}",
    );
    let TokenFormat::CloudFront(keys) = &cloudfront.format else { panic!("{cloudfront:?}") };
    assert_eq!(keys.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["K1", "K2"]);
    assert_eq!((cloudfront.expired, cloudfront.sets_cookie), (ExpiredAnswer::Gone, true));
    assert_eq!(cloudfront.leeway, Duration::from_secs(60));
    assert!(cloudfront.revoked.unwrap().1.contains("viewer-7"));
    let link = rules(
        &fixture,
        "{format: secure_link, key: long.key, expression: \"$secure_link_expires$directory $secret\"}",
    );
    let TokenFormat::SecureLink(link) = link.format else { panic!("{link:?}") };
    let parts = [LinkPart::Expires, LinkPart::Directory, LinkPart::Text(" ".to_owned()), LinkPart::Secret];
    assert_eq!(link.expression.parts(), parts);
    let akamai = rules(&fixture, "{format: akamai, key: hex.key}");
    let TokenFormat::Akamai(akamai) = akamai.format else { panic!("{akamai:?}") };
    assert_eq!(akamai.keys[0].secret.expose().len(), 16);
}

#[test]
fn a_route_has_the_tokens_of_its_site_its_own_or_none() {
    let fixture = files();
    let lines = "tokens: {format: penstock, key: long.key}\n  routes:\n  - {path: /a/*, index: a.html}\n  \
                 - {path: /b/*, tokens: off}\n  - {path: /c/*, tokens: {format: akamai, key: hex.key}}";
    let config = fixture.read(&site(lines)).unwrap();
    let formats: Vec<_> = config.sites[0]
        .routes
        .iter()
        .map(|route| route.settings.tokens.as_ref().map(|rules| rules.parameter.clone()))
        .collect();
    assert_eq!(formats, [Some("token".to_owned()), None, Some("hdnts".to_owned())]);
}

#[test]
fn clients_count_by_subject_if_a_token_can_have_one() {
    let fixture = files();
    let with = |tokens: &str| site(&format!("{tokens}\n  limits: {{client: subject, requests: 5/s}}"));
    for format in ["{format: jwt, key: jwks.json}", "{format: cat, key: jwks.json}"] {
        let config = fixture.read(&with(&format!("tokens: {format}"))).unwrap();
        assert_eq!(config.sites[0].settings.limits.client, ClientKind::Subject, "{format}");
    }
    for tokens in [
        "tokens: {format: penstock, key: long.key}",
        "tokens: {format: secure_link, key: long.key}",
        "tokens: {format: akamai, key: hex.key}",
        "tokens: {format: cloudfront, key: rsa.pem}",
        "signed_urls: {keys: [{id: a, file: long.key}]}",
    ] {
        let fault = "client: tokens of this format have no subject; write tokens: {format: jwt, key: FILE} or cat, \
                     add access: {jwt: {keys: FILE}}, or write address";
        assert_eq!(fixture.faults(&with(tokens)), [format!("edge.yaml:5: {fault}")], "{tokens}");
    }
}

#[test]
fn faults_of_tokens_are_reported() {
    let fixture = files();
    let formats = "write secure_link, akamai, cloudfront, jwt, cat or penstock";
    let one_key = "write key: FILE, or keys: [{id: 2026a, file: FILE}]";
    for (tokens, fault) in [
        ("some", "tokens: `some` is unknown; write {format: penstock, key: token.key}, or off".to_owned()),
        ("{key: long.key}", format!("tokens: it has no format; {formats}")),
        ("{format: hmac, key: long.key}", format!("format: `hmac` is unknown; {formats}")),
        ("{format: penstock}", format!("tokens: there is no key; {one_key}")),
        (
            "{format: penstock, key: long.key, keys: [{id: a, file: long.key}]}",
            format!("tokens: it has key and keys; {one_key}"),
        ),
        (
            "{format: penstock, key: short.key}",
            "key: DIR/short.key has less than 16 bytes; make a key with: (umask 077; openssl rand -hex 32 > url-2026a.key)"
                .to_owned(),
        ),
        (
            "{format: akamai, key: short.key}",
            "key: DIR/short.key has other characters than pairs of hexadecimal digits; make a key with: (umask 077; openssl rand -hex 32 > url-2026a.key)".to_owned(),
        ),
        (
            "{format: cloudfront, key: jwks.json}",
            "key: DIR/jwks.json has another key than one of RSA; write the public key of RSA in PEM that CloudFront has"
                .to_owned(),
        ),
        (
            "{format: jwt, keys: [{id: a, file: jwks.json}]}",
            "keys: a JWKS (RFC 7517) has several keys itself; write key: keys.json".to_owned(),
        ),
        (
            "{format: secure_link, key: long.key, expression: \"$uri $secret\"}",
            "expression: it lacks $secure_link_expires, so a client can change the end of its link; write such as \"$secure_link_expires$uri$remote_addr $secret\"".to_owned(),
        ),
        (
            "{format: secure_link, key: long.key, expression: \"$args\"}",
            "expression: it has no variable $args; write such as \"$secure_link_expires$uri$remote_addr $secret\""
                .to_owned(),
        ),
    ] {
        let faults = fixture.faults(&site(&format!("tokens: {tokens}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{tokens}");
    }
}

#[test]
fn contradictions_of_tokens_are_reported() {
    let fixture = files();
    for (tokens, fault) in [
        (
            "{format: penstock, key: long.key, expression: \"$uri\"}",
            "expression: tokens of the format penstock have none; remove it".to_owned(),
        ),
        (
            "{format: akamai, key: hex.key, issuer: me}",
            "issuer: tokens of the format akamai have none; remove it".to_owned(),
        ),
        (
            "{format: cloudfront, key: rsa.pem, cookie: a}",
            "cookie: CloudFront has names of its own, such as CloudFront-Signature; remove it".to_owned(),
        ),
        (
            "{format: penstock, key: long.key, set_cookie: true}",
            "set_cookie: there is no cookie; add cookie: video_token".to_owned(),
        ),
        (
            "{format: penstock, key: long.key, expired: 404}",
            "expired: `404` is no status for it; write 403 or 410".to_owned(),
        ),
        (
            "{format: penstock, key: long.key, field: Range}",
            "field: `Range` cannot be a field with a token; write a name such as X-Token".to_owned(),
        ),
        (
            "{format: penstock, key: long.key, revoked: none.txt}",
            "revoked: DIR/none.txt cannot be read (No such file or directory (os error 2)); write a file with one id a line; it may be empty".to_owned(),
        ),
    ] {
        let faults = fixture.faults(&site(&format!("tokens: {tokens}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{tokens}");
    }
    let both = "tokens: {format: penstock, key: long.key}\n  signed_urls: {keys: [{id: a, file: long.key}]}";
    let fault =
        "signed_urls: there is tokens already, which is the same with other formats; keep one of them";
    assert_eq!(fixture.faults(&site(both)), [format!("edge.yaml:5: {fault}")]);
    let vary = "tokens: {format: cat, key: jwks.json}\n  cache: {vary: [CTA-Common-Access-Token]}";
    let fault = "vary: cta-common-access-token has the token, which no origin sees; remove it from cache.vary, or write another field";
    assert_eq!(fixture.faults(&site(vary)), [format!("edge.yaml:5: {fault}")]);
}

#[test]
fn a_short_secret_of_another_system_is_warned_of() {
    let fixture = files();
    for (tokens, warnings) in [
        ("{format: secure_link, key: short.key}", 1),
        ("{format: secure_link, key: long.key}", 0),
        ("{format: akamai, key: hex.key}", 0),
    ] {
        let config = fixture.read(&site(&format!("tokens: {tokens}"))).unwrap();
        assert_eq!(config.warnings.len(), warnings, "{tokens}");
    }
}
