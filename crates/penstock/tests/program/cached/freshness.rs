//! How long things are used, and what happens after that (RFC 9111, RFC 5861).

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Response, until};

use super::Edge;

#[test]
fn a_stale_object_is_confirmed_and_not_fetched_again() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "ETag: \"v1\"\r\nCache-Control: max-age=0\r\n";
        if head.to_ascii_lowercase().contains("if-none-match: \"v1\"") {
            answer(stream, "304 Not Modified", fields, b"")
        } else {
            answer(stream, "200 OK", fields, b"body")
        }
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for _ in 0..3 {
        assert_eq!(client.get("/a.mp4").text(), "body");
    }
    assert_eq!(edge.fetched("not_modified"), 2.0);
    assert_eq!(edge.fetched("answered"), 1.0);
}

#[test]
fn a_new_version_takes_the_place_of_the_old() {
    let origin = Origin::start(|_, number, stream| {
        let fields = format!("ETag: \"v{number}\"\r\nCache-Control: max-age=0\r\n");
        answer(stream, "200 OK", &fields, format!("version {number}").as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/a.mp4").text(), "version 0");
    assert_eq!(client.get("/a.mp4").text(), "version 1");
}

#[test]
fn stale_while_revalidate_answers_at_once_and_fetches_behind() {
    let origin = Origin::start(|_, number, stream| {
        let fields = "Cache-Control: max-age=0, stale-while-revalidate=600\r\n";
        answer(stream, "200 OK", fields, format!("version {number}").as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/live.m3u8").text(), "version 0");
    let stale = client.get("/live.m3u8");
    assert_eq!(stale.text(), "version 0");
    assert!(stale.field("Cache-Status").unwrap().contains("stale-while-revalidate"));
    until("the new version", || (client.get("/live.m3u8").text() != "version 0").then_some(()));
}

#[test]
fn stale_if_error_stands_in_for_an_origin_that_fails() {
    let origin = Origin::start(|_, number, stream| {
        if number > 0 {
            return answer(stream, "500 Oops", "", b"no");
        }
        answer(stream, "200 OK", "Cache-Control: max-age=0, stale-if-error=600\r\n", b"good")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for _ in 0..3 {
        assert_eq!(client.get("/a.mp4").text(), "good");
    }
    assert_eq!(origin.asked().len(), 3, "it is asked each time");
}

#[test]
fn without_stale_if_error_the_error_is_passed_on_and_not_kept() {
    let origin = Origin::start(|_, number, stream| match number {
        0 => answer(stream, "500 Oops", "X-Why: disk\r\n", b"no"),
        _ => answer(stream, "200 OK", "", b"good"),
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let error = client.get("/a.mp4");
    assert_eq!((error.status, error.text(), error.field("X-Why")), (500, "no", Some("disk")));
    assert_eq!(client.get("/a.mp4").text(), "good");
}

#[test]
fn a_private_response_is_fetched_for_each_client() {
    for field in ["Cache-Control: private", "Cache-Control: no-store", "Set-Cookie: a=b"] {
        let origin = Origin::start(move |_, number, stream| {
            answer(stream, "200 OK", &format!("{field}\r\n"), format!("for {number}").as_bytes())
        });
        let edge = Edge::of(&origin);
        let mut client = Client::plain(&edge.server);
        assert_eq!(client.get("/a").text(), "for 0");
        assert_eq!(client.get("/a").text(), "for 1", "{field}");
    }
}

#[test]
fn a_404_is_kept_for_a_moment_only() {
    let origin = Origin::start(|_, number, stream| match number {
        0 => answer(stream, "404 Not Found", "Content-Type: text/plain\r\n", b"not yet"),
        _ => answer(stream, "200 OK", "", b"segment"),
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let missing = client.get("/segment-9.m4s");
    assert_eq!((missing.status, missing.text()), (404, "not yet"));
    until("the segment", || (client.get("/segment-9.m4s").status == 200).then_some(()));
}

#[test]
fn age_and_the_origins_fields_are_passed_on_and_those_of_its_connection_are_not() {
    let origin = Origin::start(|_, _, stream| {
        let fields = "Age: 30\r\nCache-Control: max-age=600\r\nX-Custom: kept\r\nServer: theirs\r\n\
                      Connection: X-Hop, keep-alive\r\nX-Hop: gone\r\nProxy-Authenticate: Basic\r\n\
                      Proxy-Authentication-Info: a=b\r\nProxy-Authorization: Basic eA==\r\n";
        answer(stream, "200 OK", fields, b"body")
    });
    let edge = Edge::of(&origin);
    let response = Client::plain(&edge.server).get("/a");
    assert!(response.field("Age").unwrap().parse::<u64>().unwrap() >= 30);
    assert_eq!(response.field("X-Custom"), Some("kept"));
    for name in ["X-Hop", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(response.field("Server"), Some("penstock"));
}

#[test]
fn an_origin_may_decline_early_data_without_effect_on_other_clients() {
    let origin = Origin::start(|head, _, stream| {
        if head.to_ascii_lowercase().contains("early-data: 1") {
            return answer(stream, "425 Too Early", "Cache-Control: max-age=600\r\n", b"later");
        }
        answer(stream, "200 OK", "", b"now")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get_with("/a", "Early-Data: 1\r\n").status, 425);
    assert_eq!(client.get("/a").text(), "now");
    assert_eq!(client.get_with("/a", "Early-Data: 1\r\n").text(), "now", "what is known is for all");
}

/// Cache-Status without its time to live.
fn status(response: &Response) -> String {
    let member = response.field("Cache-Status").unwrap();
    member.split("; ").filter(|parameter| !parameter.starts_with("ttl=")).collect::<Vec<_>>().join("; ")
}

#[test]
fn cache_status_names_hits_misses_and_revalidations() {
    let origin = Origin::start(|head, number, stream| {
        let head = head.to_ascii_lowercase();
        if head.contains("get /private") {
            return answer(stream, "200 OK", "Cache-Control: private\r\n", b"x");
        }
        if head.contains("get /error") {
            return answer(stream, "500 Oops", "", b"x");
        }
        let fields = format!("ETag: \"v{}\"\r\nCache-Control: max-age={}\r\n", number / 3, number % 2 * 600);
        if head.contains("if-none-match: \"v0\"") && number < 3 {
            return answer(stream, "304 Not Modified", &fields, b"");
        }
        answer(stream, "200 OK", &fields, b"body")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let first = client.get("/a");
    assert_eq!(status(&first), "penstock; fwd=uri-miss; fwd-status=200; stored");
    let confirmed = client.get("/a");
    assert_eq!(status(&confirmed), "penstock; fwd=stale; fwd-status=304");
    let hit = client.get("/a");
    assert_eq!(status(&hit), "penstock; hit");
    let ttl: i64 = hit.field("Cache-Status").unwrap().rsplit_once("ttl=").unwrap().1.parse().unwrap();
    assert!((0..=600).contains(&ttl), "{ttl}");
    assert_eq!(status(&client.get("/private")), "penstock; fwd=uri-miss; fwd-status=200; detail=not-shared");
    assert_eq!(status(&client.get("/error")), "penstock; fwd=uri-miss; fwd-status=500");
}

#[test]
fn cdn_cache_control_takes_precedence() {
    let origin = Origin::start(|head, number, stream| {
        let fields = if head.contains("/kept") {
            "CDN-Cache-Control: max-age=600\r\nCache-Control: private, max-age=0\r\n"
        } else if head.contains("/not") {
            "CDN-Cache-Control: no-store\r\nCache-Control: max-age=600\r\n"
        } else {
            "CDN-Cache-Control: max-age=oops\r\nCache-Control: max-age=600\r\n"
        };
        answer(stream, "200 OK", fields, format!("{number}").as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let kept = client.get("/kept");
    assert_eq!(kept.field("Cache-Control"), Some("private, max-age=0"), "clients are told what is for them");
    assert_eq!(client.get("/kept").text(), kept.text());
    assert_ne!(client.get("/not").text(), client.get("/not").text());
    assert_eq!(client.get("/broken").text(), client.get("/broken").text());
}
