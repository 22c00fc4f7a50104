//! Queries and signed URLs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use penstock_config::Bypass;

use crate::fixture::Fixture;

fn site(lines: &str) -> String {
    format!("listeners: [{{address: 127.0.0.1:80}}]\nsites:\n- origin: {{http: [\"http://a\"]}}\n  {lines}\n")
}

#[test]
fn faults_of_queries_are_reported() {
    let fixture = Fixture::new();
    for (query, fault) in [
        ("sorted", "query: `sorted` is unknown; write all, ignore_all, {ignore: [\"utm_*\"]} or {keep: [v]}"),
        (
            "{ignore: [a], keep: [b]}",
            "keep: this query has an ignore already; remove one of them: what is not kept is ignored",
        ),
        (
            "{keep: [\"a=1\"]}",
            "keep: `a=1` cannot be the name of a parameter; write a name such as session, or its start such as utm_*",
        ),
        ("{sort: yes}", "sort: `yes` is neither true nor false; write true"),
    ] {
        let faults = fixture.faults(&site(&format!("cache: {{query: {query}}}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{query}");
    }
}

#[test]
fn faults_of_signed_urls_are_reported() {
    let fixture = Fixture::new();
    fs::write(fixture.path().join("short.key"), "0123456789\n\n\n\n\n\n\n").unwrap();
    fs::File::create(fixture.path().join("long.key")).unwrap().set_len(4097).unwrap();
    let new_key = "make a key with: (umask 077; openssl rand -hex 32 > url-2026a.key)";
    let key = "{id: a, file: ec.key}";
    for (section, fault) in [
        (
            "{}",
            format!(
                "signed_urls: there is no key; write keys: [{{id: 2026a, file: url-2026a.key}}]; {new_key}"
            ),
        ),
        (
            "{keys: [{id: a}]}",
            "keys: a key needs an id and a file; write {id: 2026a, file: url-2026a.key}".to_owned(),
        ),
        (
            "{keys: [{id: a~b, file: ec.key}]}",
            "id: `a~b` has characters that are not allowed in a URL; write up to 32 letters, digits, - or _, such as 2026a"
                .to_owned(),
        ),
        (
            &format!("{{keys: [{key}, {key}]}}"),
            "id: `a` is listed twice; give each key an id of its own".to_owned(),
        ),
        (
            "{keys: [{id: a, file: short.key}]}",
            format!("file: DIR/short.key has less than 16 bytes; {new_key}"),
        ),
        (
            "{keys: [{id: a, file: long.key}]}",
            format!("file: DIR/long.key is larger than 4 KiB; write the path of a key's file, or {new_key}"),
        ),
        (
            &format!("{{keys: [{key}], parameter: \"a&b\"}}"),
            "parameter: `a&b` cannot be a query parameter; write a plain name such as token".to_owned(),
        ),
        (
            &format!("{{keys: [{key}], cookie: \"a b\"}}"),
            "cookie: `a b` cannot be the name of a cookie; write a plain name such as video_token".to_owned(),
        ),
    ] {
        let faults = fixture.faults(&site(&format!("signed_urls: {section}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{section}");
    }
}

#[test]
fn a_key_that_every_user_may_read_is_warned_of() {
    let fixture = Fixture::new();
    let file = fixture.path().join("url.key");
    fs::write(&file, "0123456789abcdef").unwrap();
    let warned = |mode: u32| {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        fixture.read(&site("signed_urls: {keys: [{id: a, file: url.key}]}")).unwrap().warnings.len()
    };
    assert_eq!((warned(0o600), warned(0o640), warned(0o644)), (0, 0, 1));
}

#[test]
fn faults_of_methods_and_forwarding_are_reported() {
    let fixture = Fixture::new();
    for (line, fault) in [
        (
            "methods: [GET]",
            "methods: GET is never forwarded; remove it: GET, HEAD and OPTIONS are answered in any case",
        ),
        (
            "methods: [post]",
            "methods: `post` is not the name of a method; write names in capital letters, such as POST",
        ),
        ("forwarded: all", "forwarded: `all` is unknown; write x_forwarded, forwarded or off"),
        ("request_id: true", "request_id: `true` is unknown; write generate, preserve or off"),
    ] {
        assert_eq!(fixture.faults(&site(line)), [format!("edge.yaml:4: {fault}")], "{line}");
    }
}

#[test]
fn a_cache_key_has_no_request_id_that_is_made_for_each_request() {
    let fixture = Fixture::new();
    let written = |word| site(&format!("request_id: {word}\n  cache: {{vary: [X-Request-Id]}}"));
    for word in ["generate", "preserve"] {
        let fault = "edge.yaml:5: vary: X-Request-Id has another value in each request, as request_id says; remove it \
                     from cache.vary, or write request_id: off";
        assert_eq!(fixture.faults(&written(word)), [fault], "{word}");
    }
    assert!(fixture.read(&written("off")).is_ok());
}

#[test]
fn faults_of_vary_are_reported() {
    let fixture = Fixture::new();
    for (list, fault) in [
        ("[\"a b\"]", "vary: `a b` cannot be the name of a field; write a name such as Accept-Encoding"),
        (
            "[Range]",
            "vary: Range is never forwarded for cached objects; remove it: ranges and conditions are answered from \
             the cache",
        ),
    ] {
        let faults = fixture.faults(&site(&format!("cache: {{vary: {list}}}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{list}");
    }
}

#[test]
fn faults_of_rules_are_reported() {
    let fixture = Fixture::new();
    for (rule, fault) in [
        ("ttl: {999: 1h}", "ttl: `999` is no status; write one from 200 to 599, or a class such as 5xx"),
        ("ttl: {6xx: 1h}", "ttl: `6xx` is no status; write one from 200 to 599, or a class such as 5xx"),
        (
            "ttl: {206: 1h}",
            "ttl: 206 is never stored as such; remove it: parts and confirmations belong to a 200",
        ),
        ("ttl: {404: 1s, \"0404\": 2s}", "ttl: 0404 has a time already; remove one of them"),
        (
            "ttl: {404: soon}",
            "ttl: `soon` is not a time; write a whole number with ms, s, m, h or d, such as 30s",
        ),
        ("grace: 31d", "grace: 31d is out of range; write a time from 0 to 30d"),
        ("cookies: [\"a=b\"]", "cookies: `a=b` cannot be a name; write a name such as session"),
        ("bypass: {query: [\"a&b\"]}", "query: `a&b` cannot be a name; write a name such as session"),
    ] {
        let faults = fixture.faults(&site(&format!("cache: {{{rule}}}")));
        assert_eq!(faults, [format!("edge.yaml:4: {fault}")], "{rule}");
    }
}

#[test]
fn rules_mean_what_they_say() {
    let fixture = Fixture::new();
    let rules = "ttl: {200: 1h, 5xx: 1s, 502: 2s}, ignore_origin: true, stale_while_revalidate: 1m, \
        stale_if_error: 2m, grace: 3m, cookies: [lang], bypass: {fields: [X-Debug], cookies: [s], query: [n]}";
    let config = fixture.read(&site(&format!("cache: {{{rules}}}"))).unwrap();
    let policy = &config.sites[0].settings.cache;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    let times = [200, 404, 500, 502, 503].map(|status| seconds(policy.ttl.of(status)));
    assert_eq!(times, [Some(3600), None, Some(1), Some(2), Some(1)]);
    let stale = [policy.stale_while_revalidate, policy.stale_if_error, policy.grace];
    assert_eq!(stale.map(|time| time.as_secs()), [60, 120, 180]);
    assert!(policy.ignore_origin && policy.vary == ["cookie"] && policy.cookies == ["lang"]);
    let Bypass { fields, cookies, query } = &policy.bypass;
    assert_eq!(
        (fields.as_slice(), cookies.as_slice(), query.as_slice()),
        (&["x-debug".to_owned()][..], &["s".to_owned()][..], &["n".to_owned()][..])
    );
}
