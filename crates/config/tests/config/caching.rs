//! Queries and signed URLs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

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
            format!(
                "file: DIR/long.key cannot be read (it is too large for a key); write the path of a key's \
                     file, or {new_key}"
            ),
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
    ] {
        assert_eq!(fixture.faults(&site(line)), [format!("edge.yaml:4: {fault}")], "{line}");
    }
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
