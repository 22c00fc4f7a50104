//! The rules of a site for its cache, where the origin is silent, forbids, or is down.

use penstock_testkit::origin::{Origin, answer, field, file, target};
use penstock_testkit::{Client, Content, Tool};

use super::Edge;

fn edge(origin: &Origin, rules: &str) -> Edge {
    Edge::before(&format!("{}\n  cache: {{{rules}}}", origin.sites()))
}

/// The seconds behind `name=` in Cache-Status.
fn seconds(cache_status: Option<&str>, name: &str) -> i64 {
    let found = cache_status.and_then(|text| text.split("; ").find_map(|one| one.strip_prefix(name)));
    found.unwrap_or_else(|| panic!("{cache_status:?}")).trim_start_matches('=').parse().unwrap()
}

#[test]
fn each_status_has_its_time_unless_the_origin_says_one() {
    let origin = Origin::start(|head, _, stream| {
        let status = match target(head) {
            "/found" | "/said" => "200 OK",
            "/missing" => "404 Not Found",
            "/broken" => "502 Bad Gateway",
            _ => "503 Service Unavailable",
        };
        let fields = if target(head) == "/said" { "Cache-Control: max-age=10\r\n" } else { "" };
        answer(stream, status, fields, b"body")
    });
    let edge = edge(&origin, "ttl: {200: 1h, 404: 30m, 502: 20m, 5xx: 10m}");
    let mut client = Client::plain(&edge.server);
    for (path, most) in
        [("/found", 3600), ("/said", 10), ("/missing", 1800), ("/broken", 1200), ("/other", 600)]
    {
        let first = client.get(path);
        let ttl = seconds(first.field("cache-status"), "ttl");
        assert!(ttl <= most && ttl > most - 10, "{path}: {}", first.head);
        let hit = client.get(path);
        assert!(hit.field("cache-status").unwrap().starts_with("penstock; hit"), "{path}: {}", hit.head);
    }
    assert_eq!(origin.asked().len(), 5);
}

#[test]
fn what_the_origin_says_does_not_count_if_the_site_says_so() {
    let origin = Origin::start(|head, _, stream| {
        let cookie = if target(head) == "/cookie" { "Set-Cookie: a=b\r\n" } else { "" };
        answer(stream, "200 OK", &format!("Cache-Control: no-store, private\r\n{cookie}"), b"body")
    });
    let edge = edge(&origin, "ignore_origin: true, default_ttl: 1h");
    for _ in 0..2 {
        let got = Tool::curl(&edge.server).arg("-i").arg(edge.server.url("/a")).run().ok().text();
        assert!(got.contains("no-store, private"), "clients are told what the origin says: {got}");
        assert_eq!(
            Client::plain(&edge.server).get("/cookie").field("cache-status").unwrap().matches("hit").count(),
            0
        );
    }
    let asked = origin.asked();
    assert_eq!(asked.iter().filter(|head| target(head) == "/a").count(), 1);
    assert_eq!(
        asked.iter().filter(|head| target(head) == "/cookie").count(),
        2,
        "one client's cookie is not for others"
    );
}

#[test]
fn a_stale_response_stands_in_as_the_site_or_the_origin_says() {
    // What the origin says, what the site says, how the origin fails, and whether the stale response is sent.
    const DOWN: &str = "";
    let cases = [
        ("max-age=0", "prefetch: 0", DOWN, false),
        ("max-age=0", "stale_if_error: 1h", DOWN, true),
        ("max-age=0", "stale_if_error: 1h", "500 Internal Server Error", true),
        ("max-age=0, must-revalidate", "stale_if_error: 1h", DOWN, false),
        ("max-age=0, stale-if-error=0", "stale_if_error: 1h", DOWN, false),
        ("max-age=0, must-revalidate", "grace: 1h", DOWN, true),
        ("no-cache", "grace: 1h", "503 Service Unavailable", true),
        ("s-maxage=0", "grace: 1h", DOWN, true),
        ("max-age=0", "grace: 1h", "500 Internal Server Error", false),
        ("max-age=0", "grace: 1h", "404 Not Found", false),
    ];
    for (said, rules, failure, is_sent) in cases {
        let origin = Origin::start(move |_, number, stream| match (number, failure) {
            (0, _) => answer(stream, "200 OK", &format!("Cache-Control: {said}\r\nETag: \"1\"\r\n"), b"good"),
            (_, DOWN) => false,
            (_, status) => answer(stream, status, "", b"bad"),
        });
        let edge = edge(&origin, rules);
        let mut client = Client::plain(&edge.server);
        assert_eq!(client.get("/a").text(), "good");
        let second = client.get("/a");
        assert_eq!(
            second.status == 200 && second.text() == "good",
            is_sent,
            "{said}; {rules}; {failure}: {}",
            second.head
        );
    }
}

#[test]
fn a_stale_response_is_sent_while_a_newer_one_is_fetched() {
    let origin = Origin::counting("Cache-Control: max-age=0\r\n");
    let edge = edge(&origin, "stale_while_revalidate: 1h");
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/a").text(), "0");
    let stale = client.get("/a");
    assert_eq!(stale.text(), "0");
    assert!(stale.field("cache-status").unwrap().contains("stale-while-revalidate"), "{}", stale.head);
}

#[test]
fn a_request_with_what_the_site_lists_goes_past_the_cache_as_it_came() {
    let content = Content::new(7, 100_000);
    let bytes = content.all();
    let origin =
        Origin::start(move |head, _, stream| file(head, stream, "Cache-Control: max-age=600\r\n", &bytes));
    let edge = edge(&origin, "bypass: {fields: [X-Debug], cookies: [session], query: [nocache]}");
    let mut client = Client::plain(&edge.server);
    client.get("/a");
    let asked = origin.asked().len();
    for (path, fields) in [
        ("/a", "X-Debug: 1\r\n"),
        ("/a", "Cookie: a=b; session=x\r\n"),
        ("/a?x=1&nocache", ""),
        ("/a?nocache=1", ""),
    ] {
        let past = client.get_with(path, fields);
        assert_eq!(past.field("cache-status"), Some("penstock; fwd=bypass"), "{path} {fields}");
        assert_eq!(past.body, content.all());
    }
    let heads = origin.asked();
    assert_eq!(heads.len(), asked + 4);
    assert_eq!(field(&heads[asked + 1], "cookie"), Some("a=b; session=x"));
    let part = client.get_with("/a", "X-Debug: 1\r\nRange: bytes=5-9\r\n");
    assert_eq!((part.status, part.field("content-range")), (206, Some("bytes 5-9/100000")));
    for fields in ["Cookie: sessions=x; a=session\r\n", "X-Debugging: 1\r\n"] {
        let hit = client.get_with("/a", fields);
        assert!(hit.field("cache-status").unwrap().starts_with("penstock; hit"), "{fields}: {}", hit.head);
    }
}

#[test]
fn listed_cookies_reach_the_origin_and_tell_variants_apart() {
    let origin = Origin::start(|head, _, stream| {
        let cookie = field(head, "cookie").unwrap_or_default().to_owned();
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\nVary: Cookie\r\n", cookie.as_bytes())
    });
    let edge = edge(&origin, "cookies: [lang, plan]");
    let mut client = Client::plain(&edge.server);
    for (sent, seen) in [
        ("id=1; lang=de; plan=x", "lang=de; plan=x"),
        ("plan=x; id=2; lang=de", "lang=de; plan=x"),
        ("lang=fr; id=3", "lang=fr"),
        ("id=4", ""),
        ("id=5", ""),
    ] {
        assert_eq!(client.get_with("/a", &format!("Cookie: {sent}\r\n")).text(), seen, "{sent}");
    }
    assert_eq!(origin.asked().len(), 3);
}
