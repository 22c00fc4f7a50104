//! Redirects, fixed responses, and listeners with rules.

use std::time::Duration;

use penstock_config::HttpsPort;
use penstock_origin::http::OriginError;

use super::fixture::{Fixture, OriginAnswer, open_by, read, run, run_with_files};
use super::routes::{naming, sites_of};
use super::scripted::Reply;
use crate::handle::Clients;
use crate::response::Response;
use crate::site_table::ListenerRules;

fn location(response: &Response) -> String {
    let location = response.head.fields.get("location").unwrap_or_default();
    String::from_utf8_lossy(location).into_owned()
}

/// Status and Location of the response to `GET target` for a host.
async fn redirect(
    fixture: &Fixture,
    clients: Clients<'_>,
    target: &str,
    host: &str,
    secure: bool,
) -> (u16, String) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let handled = open_by(&fixture.context, clients, &head, secure).await;
    (handled.response.head.status, location(&handled.response))
}

#[test]
fn requests_of_plain_http_and_of_other_hosts_are_redirected() {
    let sites = sites_of(
        "
- hosts: [a.example, www.a.example]
  redirect: https
  canonical_host: a.example
  origin: {http: [\"http://192.0.2.1\"]}
  routes: [{path: /plain/*, redirect: off}]
- hosts: [b.example]
  canonical_host: a.example
  origin: {http: [\"http://192.0.2.1\"]}
",
    );
    run(async move {
        let fixture = naming(&sites);
        let clients = Clients::of(&fixture.sites);
        for (secure, host, target, expected) in [
            (false, "a.example", "/x?a=b", (308, "https://a.example/x?a=b")),
            (false, "a.example:8080", "/x", (308, "https://a.example/x")),
            (false, "www.a.example", "/x", (308, "https://a.example/x")),
            (true, "WWW.a.example:8443", "/%61?b", (308, "https://a.example:8443/a?b")),
            (true, "A.example", "/x", (200, "")),
            (false, "a.example", "/plain/x", (200, "")),
            (false, "b.example:81", "//x", (308, "http://a.example:81//x")),
        ] {
            let (status, place) = redirect(&fixture, clients, target, host, secure).await;
            assert_eq!((status, place.as_str()), expected, "{secure} {host}{target}");
        }
    });
}

#[test]
fn a_route_admits_clients_by_its_own_rules_behind_the_redirect_to_https() {
    let sites = sites_of(
        "
- hosts: [a.example]
  redirect: https
  access: {allow: [203.0.113.0/24]}
  origin: {http: [\"http://192.0.2.1\"]}
  routes:
  - {path: /open/*, access: {}}
  - {path: /few/*, access: {}, limits: {requests: {rate: 1/h, burst: 1}}}
  - {path: /others/*, access: {}, limits: {requests: {rate: 1/h, burst: 1}}}
",
    );
    run(async move {
        let fixture = naming(&sites);
        let clients = Clients::of(&fixture.sites);
        for (secure, target, expected) in [
            (false, "/x", (308, "https://a.example/x")),
            (true, "/x", (403, "")),
            (true, "/open/x", (200, "")),
            (true, "/few/x", (200, "")),
            (true, "/few/y", (429, "")),
            (true, "/others/x", (200, "")),
            (true, "/others/x", (429, "")),
        ] {
            let (status, place) = redirect(&fixture, clients, target, "a.example", secure).await;
            assert_eq!((status, place.as_str()), expected, "{secure} {target}");
        }
    });
}

#[test]
fn a_route_without_limits_of_its_own_counts_together_with_its_site() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  limits: {requests: {rate: 1/h, burst: 2}}
  routes:
  - {path: /same/*, index: other.html}
  - {path: /own/*, limits: {requests: {rate: 1/h, burst: 1}}}
",
    );
    run(async move {
        let fixture = naming(&sites);
        let clients = Clients::of(&fixture.sites);
        for (target, expected) in
            [("/x", 200), ("/same/x", 200), ("/same/y", 429), ("/y", 429), ("/own/x", 200), ("/own/y", 429)]
        {
            let (status, _) = redirect(&fixture, clients, target, "a.example", true).await;
            assert_eq!(status, expected, "{target}");
        }
    });
}

#[test]
fn a_listener_redirects_whatever_the_host_except_health_checks() {
    run(async {
        let fixture = naming(&sites_of("\n- {hosts: [a.example], origin: {http: [\"http://192.0.2.1\"]}}"));
        let rules = ListenerRules {
            name: None,
            health: Some("/healthz".to_owned()),
            redirect: Some(HttpsPort(8443)),
        };
        let clients = Clients { listener: Some(&rules), ..Clients::of(&fixture.sites) };
        for (host, target, expected) in [
            ("a.example", "/x?y", (308, "https://a.example:8443/x?y")),
            ("[2001:db8::1]:80", "/", (308, "https://[2001:db8::1]:8443/")),
            ("", "/", (400, "")),
            ("a.example", "/healthz", (200, "")),
        ] {
            let (status, place) = redirect(&fixture, clients, target, host, false).await;
            assert_eq!((status, place.as_str()), expected, "{host}{target}");
        }
        assert_eq!(fixture.origin.requests(), 0);
    });
}

#[test]
fn redirects_fill_their_variables_and_stay_on_their_host() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  routes:
  - {path: /old/*, redirect: {to: \"/new/{rest}\", status: 301}}
  - {path: /root/*, redirect: {to: \"/{rest}\", status: 302}}
  - {path: \"/{channel}/live.m3u8\", redirect: {to: \"https://live.example/{channel}/index.m3u8\", status: 307}}
  - {path: /query, redirect: {to: \"/q?from={host}{path}&{query}\", status: 303}}
  - {path: /gone, respond: {status: 410, body: \"gone\\n\", type: text/html}}
  - {path: /empty, respond: {status: 204}}
  - {path: /nothing, respond: {status: 299}}
",
    );
    run(async {
        let fixture = naming(&sites);
        let clients = Clients::of(&fixture.sites);
        for (target, expected) in [
            ("/old/a/b?c=d", (301, "/new/a/b?c=d")),
            ("/old/", (301, "/new/")),
            ("/root//evil.example/x", (302, "/evil.example/x")),
            ("/root/%2F%2Fevil.example", (302, "/%2F%2Fevil.example")),
            ("/one/live.m3u8", (307, "https://live.example/one/index.m3u8")),
            ("/query?a=b", (303, "/q?from=media.example/query&a=b")),
            ("/gone", (410, "")),
            ("/empty", (204, "")),
            ("/nothing", (299, "")),
        ] {
            let (status, place) = redirect(&fixture, clients, target, "media.example", false).await;
            assert_eq!((status, place.as_str()), expected, "{target}");
        }
        let gone = fixture.get("GET /gone", "").await;
        assert_eq!(
            (gone.body.as_slice(), gone.field("content-type").as_str()),
            (&b"gone\n"[..], "text/html")
        );
        let head = fixture.get("HEAD /gone", "").await;
        assert_eq!((head.status, head.body.len()), (410, 0));
        assert_eq!(fixture.get("POST /gone", "").await.status, 410, "whatever the method");
        assert_eq!(fixture.origin.requests(), 0);
    });
}

#[test]
fn a_site_answers_on_its_listeners_only() {
    let text = "listeners: [{address: 127.0.0.1:80, name: public}, {address: 127.0.0.1:81, name: inner}]
sites:
- {listeners: [inner], hosts: [a.example], respond: {body: inner}}
- {listeners: [public], hosts: [a.example], respond: {body: public}}
- {respond: {body: all}}
";
    let config = penstock_config::Config::from_text(text, std::path::Path::new("/nowhere/e.yaml")).unwrap();
    run(async move {
        let fixture = Fixture::of_sites(&config.sites);
        for (listener, host, body) in [
            ("inner", "a.example", "inner"),
            ("public", "a.example", "public"),
            ("other", "a.example", "all"),
            ("inner", "b.example", "all"),
        ] {
            let rules = ListenerRules { name: Some(listener.to_owned()), health: None, redirect: None };
            let clients = Clients { listener: Some(&rules), ..Clients::of(&fixture.sites) };
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let handled = open_by(&fixture.context, clients, &head, false).await;
            let answer = read(&fixture.context, handled.response).await;
            assert_eq!(String::from_utf8(answer.body).unwrap(), body, "{listener} {host}");
        }
    });
}

#[test]
fn fields_of_responses_are_removed_set_and_added() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  headers:
    response: {remove: [X-Powered-By, ETag], set: {X-Cache: \"{cache_status}\", via: edge}, add: {Link: \"<{path}>\"}}
  routes: [{path: /up/*, rewrite: \"/other/{rest}\"}, {path: /page, respond: {body: a}}]
",
    );
    run(async {
        let fixture = naming(&sites);
        let fields = [
            ("x-powered-by", "a"),
            ("x-cache", "origin"),
            ("link", "</b>"),
            ("etag", "\"a\""),
            ("cache-control", "max-age=9"),
        ];
        for (path, cache, link) in [
            ("/x", "miss", "</b>, </x>"),
            ("/x", "hit", "</b>, </x>"),
            ("/up/x", "miss", "</b>, </up/x>"),
            ("/page", "none", "</page>"),
            ("/x%00", "none", "</x%00>"),
        ] {
            fixture.origin.reply(Reply::ok(&fields, b"bytes"));
            let answer = fixture.get(&format!("GET {path}"), "").await;
            let found = ["x-cache", "link", "x-powered-by", "etag", "via"].map(|name| answer.field(name));
            assert_eq!(found, [cache, link, "", "", "edge"].map(str::to_owned), "{path}");
        }
    });
}

#[test]
fn an_origin_gets_the_fields_of_its_route_and_shares_no_object_with_other_fields() {
    let sites = sites_of(
        "
- origin: {http: [\"http://192.0.2.1\"]}
  methods: [POST]
  cache: {vary: [Accept-Language]}
  routes:
  - {path: /a/*, rewrite: \"/{rest}\", headers: {request: {set: {X-Key: one}, add: {X-More: a}, remove: [accept-language]}}}
  - {path: /b/*, rewrite: \"/{rest}\", headers: {request: {set: {X-Key: two}}}}
  - {path: /c/*, rewrite: \"/{rest}\", headers: {request: {set: {X-Key: one}, add: {X-More: a}, remove: [accept-language]}}}
",
    );
    run(async {
        let fixture = naming(&sites);
        for (path, label, key, language) in [
            ("/a/x", "miss", "one", ""),
            ("/b/x", "miss", "two", "fr"),
            ("/x", "miss", "", "fr"),
            ("/c/x", "hit", "", ""),
            ("/b/x", "hit", "", ""),
        ] {
            let before = fixture.origin.requests();
            let answer = fixture.get(&format!("GET {path}"), "Accept-Language: fr\r\n").await;
            assert_eq!((answer.summary().1, answer.body.as_slice()), (label, &b"1 /x"[..]), "{path}");
            if let Some(asked) = fixture.origin.asked().get(before) {
                assert_eq!((asked.field("x-key"), asked.field("accept-language")), (key, language), "{path}");
                assert!(
                    asked.fields.get("x-key").is_none_or(|value| value.is_sensitive()),
                    "no log shows it"
                );
            }
        }
        fixture.get("POST /a/x", "X-Key: of the client\r\n").await;
        let asked = fixture.origin.asked().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.field("x-key")), ("POST", "one"));
    });
}

#[test]
fn a_page_that_is_for_the_origin_too_replaces_its_content_and_what_describes_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("gone.html"), "<p>gone").unwrap();
    let path = directory.path().display();
    let sites = sites_of(&format!(
        "
- origin: {{http: [\"http://192.0.2.1\"]}}
  error_pages: [{{status: [404, 416, 429], file: {path}/gone.html, origin: true}}]
"
    ));
    run_with_files(async {
        let fixture = Fixture::of_sites(&sites);
        fixture.origin.handle(|asked| match &*asked.target {
            "/416" => Reply::new(416).with(&[("content-range", "bytes */9")]).bytes(b"range"),
            "/429" => Reply::new(429).with(&[("retry-after", "7")]).bytes(b"later"),
            "/404" => Reply::new(404)
                .with(&[("content-type", "application/json")])
                .with(&[("content-encoding", "gzip")])
                .with(&[("etag", "\"a\"")])
                .with(&[("content-security-policy", "default-src 'none'")])
                .bytes(b"{}"),
            _ => Reply::new(403).bytes(b"of the origin"),
        });
        for line in ["GET /404", "GET /404", "HEAD /404"] {
            let answer = fixture.get(line, "").await;
            assert_eq!(answer.status, 404);
            assert_eq!(format!("{:?}", answer.length), "Known(7)", "{line}");
            assert_eq!(answer.field("content-type"), "text/html; charset=utf-8");
            assert_eq!(answer.field("content-security-policy"), "default-src 'none'");
            for gone in ["content-encoding", "etag"] {
                assert_eq!(answer.field(gone), "", "{line}");
            }
            assert_eq!(answer.body, if line.starts_with("GET") { &b"<p>gone"[..] } else { b"" });
        }
        assert_eq!(fixture.get("GET /416", "").await.field("content-range"), "bytes */9");
        assert_eq!(fixture.get("GET /429", "").await.field("retry-after"), "7");
        assert_eq!(fixture.get("GET /403", "").await.body, b"of the origin");
    });
}

#[test]
fn pages_of_a_site_replace_those_of_this_server_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("down.html"), "<p>down").unwrap();
    let path = directory.path().display();
    let sites = sites_of(&format!(
        "
- origin: {{http: [\"http://192.0.2.1\"]}}
  error_pages: [{{status: [502, 503, 404], file: {path}/down.html}}]
  maintenance: {path}/maintenance
  routes: [{{path: /open/*, maintenance: off}}]
"
    ));
    run_with_files(async {
        let fixture = Fixture::of_sites(&sites);
        fixture.origin.handle(|asked| match &*asked.target {
            "/gone" => Reply::new(404).bytes(b"of the origin"),
            "/open/x" => Reply::ok(&[], b"open"),
            _ => Reply::failure(OriginError::Unreachable),
        });
        let show = |answer: OriginAnswer| {
            let length = format!("{:?}", answer.length);
            (answer.status, answer.field("content-type"), String::from_utf8(answer.body).unwrap(), length)
        };
        let html = || "text/html; charset=utf-8".to_owned();
        let down = |status, text: &str| (status, html(), text.to_owned(), "Known(7)".to_owned());
        assert_eq!(show(fixture.get("GET /x", "").await), down(502, "<p>down"));
        assert_eq!(show(fixture.get("HEAD /x", "").await), down(502, ""));
        assert_eq!(fixture.get("GET /gone", "").await.body, b"of the origin");
        std::fs::write(directory.path().join("maintenance"), "").unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
        let answer = fixture.get("GET /gone", "").await;
        assert_eq!(answer.field("retry-after"), "1");
        assert_eq!(show(answer), down(503, "<p>down"));
        assert_eq!(fixture.get("GET /open/x", "").await.body, b"open");
        std::fs::remove_file(directory.path().join("maintenance")).unwrap();
        assert_eq!(fixture.get("GET /gone", "").await.status, 503, "the next look is not due");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(fixture.get("GET /gone", "").await.body, b"of the origin");
    });
}
