//! Routes, redirects and fixed responses.

use std::time::Duration;

use penstock_config::{Access, CachePolicy, Condition, ConditionTest, HttpsPort, Origin};
use penstock_http::Status;

use crate::fixture::Fixture;

/// A site with these lines behind its origin, from line 3.
fn site(lines: &str) -> String {
    format!(
        "listeners: [{{address: 127.0.0.1:8080}}]\nsites: [{{origin: {{http: [\"http://192.0.2.1\"]}},\n{lines}}}]\n"
    )
}

#[test]
fn a_route_has_the_keys_of_its_site_and_its_own() {
    let fixture = Fixture::new();
    let text = site(
        "cache: {default_ttl: 10s, missing_ttl: 2s, vary: [Accept-Language]}, methods: [PUT], headers: {hsts: 1d},
routes: [{path: /live/*, cache: {default_ttl: 1s}, rewrite: \"/x/{rest}\"},
{path: \"*.mp4\", origin: {directory: video}, headers: {cors: \"*\"}},
{when: {methods: [GET], query: [a=b, \"!c\"], headers: [X-Device]}, redirect: {to: /, status: 303}},
{path: /gone, respond: {status: 410, body: gone}}]",
    );
    let config = fixture.read(&text).unwrap();
    let site = &config.sites[0];
    let [live, files, conditional, gone] = &site.routes[..] else { panic!("four routes: {site:?}") };
    assert_eq!(live.settings.origin, site.settings.origin);
    assert_eq!(live.settings.cache.default_ttl, Duration::from_secs(1));
    assert_eq!(live.settings.cache.missing_ttl, Duration::from_secs(2));
    assert_eq!(live.settings.cache.vary, ["accept-language"]);
    assert_eq!(
        (&*live.settings.methods, live.settings.headers.hsts),
        (&*site.settings.methods, site.settings.headers.hsts)
    );
    assert_eq!(live.matcher.path.to_string(), "/live/*");
    let rewrite = live.settings.rewrite.as_ref().unwrap();
    assert_eq!((rewrite.to.written(), &rewrite.from), ("/x/{rest}", &live.matcher.path));
    assert_eq!(files.settings.origin, Origin::Directory(fixture.path().join("video")));
    assert!(files.settings.headers.cors.is_some() && files.settings.headers.hsts.is_some());
    assert_eq!(conditional.matcher.path.to_string(), "/*");
    let condition = |name: &str, test| Condition { name: name.to_owned(), test };
    assert_eq!(conditional.matcher.methods, ["GET"]);
    let query = [condition("a", ConditionTest::Is("b".to_owned())), condition("c", ConditionTest::Absent)];
    assert_eq!(conditional.matcher.query, query);
    assert_eq!(conditional.matcher.headers, [condition("x-device", ConditionTest::Present)]);
    let Origin::Redirect(redirect) = &conditional.settings.origin else { panic!("{conditional:?}") };
    assert_eq!((redirect.to.written(), redirect.status), ("/", Status::SeeOther));
    let Origin::Fixed(fixed) = &gone.settings.origin else { panic!("{gone:?}") };
    assert_eq!(
        (fixed.status, &*fixed.content_type, &*fixed.body),
        (410, "text/plain; charset=utf-8", &b"gone"[..])
    );
}

#[test]
fn a_route_has_the_rules_of_its_site_for_clients_and_each_key_of_its_caching() {
    let fixture = Fixture::new();
    let text = site(
        "access: {deny: [192.0.2.1]}, limits: {connections: 7},
cache: {ttl: {404: 5s}, ignore_origin: true, bypass: {query: [fresh]}, cookies: [session], grace: 1m, vary: [TV]},
routes: [{path: /a/*, cache: {grace: 2m, vary: []}},
{path: /b/*, access: {}, limits: {connections: 8}, cache: {ttl: {5xx: 1s}, bypass: {}, cookies: []}}]",
    );
    let config = fixture.read(&text).unwrap();
    let site = &config.sites[0].settings;
    let [first, second] = [0, 1].map(|place| &config.sites[0].routes[place].settings);
    assert_eq!((&first.access, &first.limits), (&site.access, &site.limits));
    assert_ne!(site.access, Access::default());
    let vary = vec!["cookie".to_owned()];
    let expected = CachePolicy { grace: Duration::from_secs(120), vary, ..site.cache.clone() };
    assert_eq!(first.cache, expected);
    assert_eq!((&second.access, second.limits.each.connections), (&Access::default(), Some(8)));
    let cache = &second.cache;
    assert_eq!((cache.ttl.of(404), cache.ttl.of(502)), (None, Some(Duration::from_secs(1))));
    assert!(cache.ignore_origin && cache.bypass.is_empty() && cache.cookies.is_empty());
    assert_eq!((cache.grace, &*cache.vary), (site.cache.grace, &*site.cache.vary));
}

#[test]
fn redirects_to_https_know_the_port() {
    let fixture = Fixture::new();
    for (listeners, port) in [
        ("{address: 127.0.0.1:80, redirect: https}, {address: 127.0.0.1:443, tls: true}", 443),
        ("{address: 127.0.0.1:80, redirect: https}, {address: 127.0.0.1:8443, tls: true}", 8443),
        ("{address: 127.0.0.1:80, redirect: https}, {address: 127.0.0.1:0, tls: true}", 443),
        ("{address: 127.0.0.1:80, redirect: https}", 443),
    ] {
        let text = format!(
            "listeners: [{listeners}]\ntls: {{certificates: [{{chain: ec.crt, key: ec.key}}]}}\n\
             sites: [{{redirect: https, origin: {{directory: video}}}}]\n"
        );
        let config = fixture.read(&text).unwrap();
        assert_eq!(config.listeners[0].redirect, Some(HttpsPort(port)), "{listeners}");
        assert_eq!(config.sites[0].settings.canonical.https, Some(HttpsPort(port)), "{listeners}");
    }
    let text =
        "listeners: [{address: 127.0.0.1:80, name: web}]\nsites: [{listeners: [web], redirect: https}]\n";
    let config = fixture.read(text).unwrap();
    assert_eq!(config.sites[0].listeners, Some(vec!["web".to_owned()]));
    assert!(matches!(&config.sites[0].settings.origin, Origin::Fixed(_)), "no origin is needed");
}

#[test]
fn wrong_rules_are_told_with_their_line() {
    let fixture = Fixture::new();
    let variables = "write {path}, {rest} for what `*` stands for, or {name} of a segment of the path";
    for (lines, fault) in [
        (
            "routes: [{path: /a/*},\n{path: /a/b}]",
            "4: routes: no request comes to `/a/b`: the route on line 3 matches all of its requests; write it in front \
             of that one, or remove it",
        ),
        (
            "routes: [{when: {query: [a]}},\n{path: /a, when: {methods: [GET], query: [b, a]}}]",
            "4: routes: no request comes to `/a`: the route on line 3 matches all of its requests; write it in front \
             of that one, or remove it",
        ),
        (
            "routes: [{path: live}]",
            "3: path: `live` does not begin with a slash; write a path such as /live/* or *.mp4",
        ),
        (
            "routes: [{path: /a/*, redirect: {to: \"/a/b/{rest}\"}}]",
            "3: redirect: this route redirects to itself; write another path",
        ),
        (
            "routes: [{path: /a, redirect: {to: /a}}]",
            "3: redirect: this route redirects to itself; write another path",
        ),
        (
            "routes: [{path: /a, redirect: {to: \"/{rest}\"}}]",
            &*format!("3: to: the path `/a` captures no `rest`; {variables}"),
        ),
        (
            "routes: [{path: /a/*, redirect: {to: \"https://{rest}\"}}]",
            "3: to: `https://{rest}` is neither a path nor a URL with a host; write /new/{rest} or \
             https://video.example.com{path}",
        ),
        (
            "routes: [{path: /a/*, redirect: {to: \"//{rest}\"}}]",
            "3: to: `//{rest}` is neither a path nor a URL with a host; write /new/{rest} or \
             https://video.example.com{path}",
        ),
        (
            "routes: [{path: /a, redirect: {to: /b, status: 200}}]",
            "3: status: `200` is not the status of a redirect; write 301, 302, 303, 307 or 308",
        ),
        (
            "routes: [{path: /a, redirect: {status: 301}}]",
            "3: redirect: it does not say where to; add to: /new/{rest}",
        ),
        ("redirect: http", "3: redirect: `http` is unknown; write https, or {to: /new/{rest}}"),
        (
            "respond: {status: 404}",
            "3: respond: there is origin already, which answers all requests; keep one of them, or write routes",
        ),
        (
            "routes: [{path: /a, respond: {status: 204, body: a}}]",
            "3: body: a response with status 204 has no content; remove it, or write another status",
        ),
        (
            "routes: [{path: /a, respond: {status: 99}}]",
            "3: status: 99 is out of range; write a number from 200 to 599",
        ),
        (
            "routes: [{path: /a, respond: {type: html}}]",
            "3: type: `html` is not a media type; write one such as text/html; charset=utf-8",
        ),
        (
            "routes: [{path: /a, respond: {}, cache: {prefetch: 1}}]",
            "3: cache: there is no origin; remove it",
        ),
        (
            "rewrite: \"/a?{rest}\"",
            "3: rewrite: `/a?{rest}` is not a path; write a path such as /vod/{rest}; the query stays as it is",
        ),
        ("rewrite: \"/a b\"", "3: rewrite: `/a b` has characters that no URL has; percent-encode them"),
        ("rewrite: \"/{name}\"", &*format!("3: rewrite: the path `/*` captures no `name`; {variables}")),
        (
            "rewrite: \"/{host}\"",
            &*format!("3: rewrite: `/{{host}}` has a variable of other texts; {variables}"),
        ),
        ("rewrite: \"/{rest\"", "3: rewrite: `/{rest` has a `{` without a `}`; write {rest}"),
        (
            "canonical_host: \"*\"",
            "3: canonical_host: `*` is no single host; write a host name such as video.example.com",
        ),
        (
            "routes: [{when: {methods: [get]}}]",
            "3: methods: `get` is not the name of a method; write names in capital letters, such as POST",
        ),
        (
            "routes: [{when: {query: [\"a b\"]}}]",
            "3: query: `a b` is not a condition; write name, !name or name=value",
        ),
        ("routes: [{hosts: [a]}]", "3: unknown key `hosts`; it belongs to `sites` or `admin`"),
        ("listeners: [a]", "3: listeners: no listener has the name `a`; add name: to a listener"),
        ("listeners: []", "3: listeners: the list is empty; remove it: a site answers on all"),
    ] {
        assert_eq!(fixture.faults(&site(lines)), [format!("edge.yaml:{fault}")], "{lines}");
    }
    let with = |listener: &str, site: &str| {
        format!(
            "listeners: [{{address: 127.0.0.1:8080, {listener}}}]\ntls: {{certificates: [{{chain: ec.crt, key: ec.key}}]}}\nsites: [{{{site}}}]\n"
        )
    };
    for (listener, site, fault) in [
        (
            "redirect: https, tls: true",
            "origin: {directory: video}",
            "1: redirect: this listener has tls: true; remove it",
        ),
        (
            "redirect: ftp",
            "origin: {directory: video}",
            "1: redirect: `ftp` is unknown; write https; a site can redirect elsewhere",
        ),
        (
            "name: a b",
            "origin: {directory: video}",
            "1: name: `a b` is not a name; write letters, digits, - or _, such as public",
        ),
        (
            "name: a, tls: true",
            "listeners: [a], redirect: https",
            "3: this site has no origin; add origin: {directory: /srv/video} or origin: {http: [\"http://192.0.2.5:8080\"]}",
        ),
        (
            "name: public",
            "listeners: [publik], origin: {directory: video}",
            "3: listeners: no listener has the name `publik`; write public",
        ),
        (
            "name: a",
            "redirect: {to: \"/a/{path}\"}",
            "3: redirect: this site redirects to itself; write a URL with another host, or a route for the new path",
        ),
    ] {
        assert_eq!(
            fixture.faults(&with(listener, site)),
            [format!("edge.yaml:{fault}")],
            "{listener} {site}"
        );
    }
    let twice = "listeners: [{address: 127.0.0.1:80, name: a}, {address: 127.0.0.1:81, name: b}]\nsites:\n\
                 - {listeners: [a], origin: {directory: video}}\n- {listeners: [b], origin: {directory: video}}\n";
    assert_eq!(fixture.read(twice).unwrap().sites.len(), 2, "one host on two listeners");
    let shared = twice.replace("[b]", "[b, a]");
    let fault =
        "edge.yaml:4: hosts: `*` is already defined on line 3; remove one of them or write another host";
    assert_eq!(fixture.faults(&shared), [fault]);
}

#[test]
fn fields_are_set_with_secrets_that_no_message_shows() {
    let fixture = Fixture::new();
    let text = site(
        "headers: {response: {remove: [X-Powered-By], set: {X-Cache: \"{cache_status} {host}\"}, add: {Link: </a>}},
request: {set: {X-Key: \"{file.s3.key}\", X-Home: \"{env.CARGO_PKG_NAME}\"}}}",
    );
    let config = fixture.read(&text).unwrap();
    let headers = &config.sites[0].settings.headers;
    assert_eq!(headers.response.remove, ["X-Powered-By"]);
    assert_eq!(headers.response.set[0].value.written(), "{cache_status} {host}");
    assert_eq!(headers.response.add[0].name, "Link");
    let values: Vec<_> = headers.request.set.iter().map(|rule| rule.value.fixed()).collect();
    assert_eq!(values, [Some("a-key"), Some("penstock-config")]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("a-key") && shown.contains("{file.s3.key}"), "{shown}");
    assert!(!headers.request.written().contains("a-key"));
}

#[test]
fn wrong_changes_of_fields_are_told_with_their_line() {
    let fixture = Fixture::new();
    let connection = "belongs to one connection or to the framing of the content; remove it";
    let variables =
        "write {host}, {path}, {client}, {request_id}, {env.NAME}, in responses also {cache_status}";
    for (lines, fault) in [
        ("{response: {set: {Content-Length: 1}}}", &*format!("headers: `Content-Length` {connection}")),
        ("{request: {remove: [connection]}}", &*format!("headers: `connection` {connection}")),
        ("{response: {add: {transfer-encoding: a}}}", &*format!("headers: `transfer-encoding` {connection}")),
        (
            "{request: {set: {Host: a}}}",
            "headers: `Host` is written by this server, which decides by it; remove it; Host is the key host of the origin",
        ),
        (
            "{response: {set: {Date: a}}}",
            "headers: `Date` is written by this server; remove it; hsts is a key of its own",
        ),
        (
            "{response: {set: {\"a b\": a}}}",
            "headers: `a b` cannot be the name of a field; write a name such as X-Cache",
        ),
        (
            "{response: {set: {X: \"{file.s3.key}\"}}}",
            &*format!(
                "headers: `{{file.s3.key}}` has the content of a file, which is for origins only; {variables}"
            ),
        ),
        (
            "{request: {set: {X: \"{env.NO_SUCH_NAME}\"}}}",
            "headers: `{env.NO_SUCH_NAME}` needs the environment variable NO_SUCH_NAME; set it where the server is started",
        ),
        (
            "{request: {set: {X: \"{cache_status}\"}}}",
            &*format!("headers: `{{cache_status}}` has the unknown variable `cache_status`; {variables}"),
        ),
        (
            "{response: {set: {X: \"a\\nb\"}}}",
            "headers: `a\\nb` has characters that no field has, or is too long; write up to 4096 plain characters",
        ),
        (
            "{response: {set: {X: \"{host\"}}}",
            "headers: `{host` has a `{` without a `}`; close it, or leave it out",
        ),
        (
            "{response: {remove: [x-a], set: {X-A: a}}}",
            "remove: `x-a` is set as well, which removes it first; keep one of them",
        ),
        (
            "{request: {set: {X-Client: \"{client}\"}}}",
            "request: `X-Client` has a value of each client, and the responses of this origin are cached for all; use \
             forwarded: or cache.vary:, or write cache: off in the origin",
        ),
    ] {
        assert_eq!(
            fixture.faults(&site(&format!("headers: {lines}"))),
            [format!("edge.yaml:3: {fault}")],
            "{lines}"
        );
    }
    let relayed = site("headers: {request: {set: {X-Client: \"{client} {host} {path}\"}}}")
        .replace("\"]}", "\"], cache: off}");
    assert!(fixture.read(&relayed).is_ok(), "an origin without cache may be told of each client");
    let files = "listeners: [{address: 127.0.0.1:80}]\nsites: [{origin: {directory: video},\nheaders: {request: {remove: [A]}}}]\n";
    assert_eq!(fixture.faults(files), ["edge.yaml:3: request: there is no HTTP origin; remove it"]);
}

#[test]
fn pages_for_statuses_are_read_at_the_start() {
    let fixture = Fixture::new();
    let text = site(
        "maintenance: down, error_pages: [{status: [502, 503], file: video/index.html},\n{status: [404], file: s3.key, type: text/plain}]",
    );
    let config = fixture.read(&text).unwrap();
    let settings = &config.sites[0].settings;
    let [down, missing] = &settings.error_pages[..] else { panic!("two pages: {settings:?}") };
    assert_eq!(
        (&*down.statuses, &*down.content_type, &*down.body),
        (&[502, 503][..], "text/html; charset=utf-8", &b"hello"[..])
    );
    assert_eq!((&*missing.content_type, &*missing.body), ("text/plain", &b"a-key\n"[..]));
    assert_eq!(settings.maintenance.as_deref(), Some(&*fixture.path().join("down")));
    for (lines, fault) in [
        (
            "[{status: [200], file: s3.key}]",
            "status: `200` is not the status of an error; write numbers from 400 to 599",
        ),
        (
            "[{status: [500]}]",
            "error_pages: a page needs statuses and a file; write {status: [502, 503, 504], file: down.html}",
        ),
        (
            "[{status: [500], file: none}]",
            "file: DIR/none cannot be read (No such file or directory (os error 2)); write the path of a file of at most 64 KiB",
        ),
        (
            "[{status: [500], file: huge.pem}]",
            "file: DIR/huge.pem is larger than 64 KiB; write the path of a file of at most 64 KiB",
        ),
        (
            "[{status: [500], file: s3.key}, {status: [500, 501], file: s3.key}]",
            "status: there is a page for 500 already; keep one of them",
        ),
    ] {
        assert_eq!(
            fixture.faults(&site(&format!("error_pages: {lines}"))),
            [format!("edge.yaml:3: {fault}")],
            "{lines}"
        );
    }
}
