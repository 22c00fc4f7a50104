//! Responses behind redirections that are followed, in the cache.

use penstock_testkit::Client;
use penstock_testkit::origin::{Origin, answer, field};

use super::Edge;

/// Asks twice for a film behind a redirection, each of both with these fields. Returns the heads that the store got.
fn asked_twice(redirection: &'static str, film: &'static str) -> Vec<String> {
    let store = Origin::start(move |head, _, stream| {
        let fields = format!("ETag: \"v\"\r\n{film}");
        match field(head, "if-none-match") {
            Some("\"v\"") => answer(stream, "304 Not Modified", &fields, b""),
            _ => answer(stream, "200 OK", &fields, b"film"),
        }
    });
    let fields = format!("{redirection}Location: {}/stored\r\n", store.url());
    let origin = Origin::start(move |head, _, stream| {
        assert_eq!(field(head, "if-none-match"), None, "the tag is of another URL");
        answer(stream, "302 Found", &fields, b"")
    });
    let keys = format!("follow_redirects: 1, redirect_hosts: [\"127.0.0.1:{}\"]", store.port());
    let edge = Edge::before(&origin.sites_with(&keys));
    let mut client = Client::plain(&edge.server);
    for _ in 0..2 {
        assert_eq!(client.get("/film").text(), "film");
    }
    assert_eq!(origin.asked().len(), store.asked().len());
    store.asked()
}

#[test]
fn a_redirection_bounds_how_long_the_response_behind_it_is_fresh() {
    let hour = "Cache-Control: max-age=3600\r\n";
    for redirection in ["", hour] {
        assert_eq!(asked_twice(redirection, hour).len(), 1, "{redirection}");
    }
    for (redirection, film) in [
        ("Cache-Control: max-age=0\r\n", hour),
        ("Cache-Control: no-cache\r\n", ""),
        (hour, "Cache-Control: max-age=0\r\n"),
    ] {
        let asked = asked_twice(redirection, film);
        let conditions: Vec<_> = asked.iter().map(|head| field(head, "if-none-match")).collect();
        assert_eq!(conditions, [None, Some("\"v\"")], "{redirection} {film}");
    }
    for redirection in ["Cache-Control: private\r\n", "Set-Cookie: a=b\r\n", "Vary: *\r\n"] {
        let asked = asked_twice(redirection, hour);
        let conditions: Vec<_> = asked.iter().map(|head| field(head, "if-none-match")).collect();
        assert_eq!(conditions, [None, None], "{redirection}");
    }
}
