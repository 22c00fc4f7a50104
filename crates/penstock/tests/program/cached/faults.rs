//! Origins that lie, break off or are not there. Each has an answer, and nothing wrong is kept.

use penstock_testkit::origin::{Origin, answer, file, range, write};
use penstock_testkit::{Client, Content, unused_address};

use super::{Edge, SLICE};

#[test]
fn an_origin_that_is_not_there_is_502() {
    let address = unused_address();
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{address}\"]}}"));
    let mut client = Client::tls(&edge.server);
    assert_eq!(client.get("/a.mp4").status, 502);
    assert_eq!(client.get("/a.mp4").status, 502, "the connection stays");
    assert!(edge.fetched("unreachable") >= 2.0);
}

#[test]
fn the_second_server_answers_when_the_first_is_gone() {
    let gone = unused_address();
    let origin = Origin::answering("200 OK", "Cache-Control: max-age=0\r\n", "here");
    let there = origin.sites().replace("- origin: {http: [", "").replace("]}", "");
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{gone}\", {there}]}}"));
    let mut client = Client::plain(&edge.server);
    for _ in 0..4 {
        assert_eq!(client.get("/a").text(), "here");
    }
}

#[test]
fn a_response_that_is_not_http_is_502() {
    let answers = [
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\n\r\nhello",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/3\r\n\r\nhello",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/10\r\n\r\nhello",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 0-9/10\r\n\r\nhello",
        "",
    ];
    for text in answers {
        let origin = Origin::start(move |_, _, stream| {
            write(stream, text);
            false
        });
        let edge = Edge::of(&origin);
        let mut client = Client::plain(&edge.server);
        assert_eq!(client.get("/a").status, 502, "{text:?}");
        assert_eq!(edge.server.metrics().sum("penstock_cache_slices", &[]), 0.0, "{text:?} is not kept");
    }
}

#[test]
fn endless_heads_are_cut_off() {
    let origin = Origin::start(|_, _, stream| {
        write(stream, "HTTP/1.1 200 OK\r\n");
        while write(
            stream,
            "X-Endless: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
        ) {}
        false
    });
    let edge = Edge::of(&origin);
    assert_eq!(Client::plain(&edge.server).get("/a").status, 502);
}

#[test]
fn a_head_that_ends_is_refused_all_the_same_if_it_is_too_long() {
    let origin = Origin::start(|head, _, stream| {
        let lines = if head.contains("/long") { 80 } else { 40 };
        answer(stream, "200 OK", &format!("X-Line: {}\r\n", "a".repeat(1000)).repeat(lines), b"body")
    });
    let edge = Edge::before(&origin.sites_with("retries: 0"));
    assert_eq!(Client::plain(&edge.server).get("/short").text(), "body", "40 KB are not too much");
    assert_eq!(Client::plain(&edge.server).get("/long").status, 502);
    assert_eq!(edge.fetched("malformed"), 1.0);
}

#[test]
fn a_body_that_breaks_off_is_cut_short_and_mended_by_the_next_request() {
    let body = Content::new(21, 300_000);
    let bytes = body.all();
    let origin = Origin::start(move |head, number, stream| {
        if number == 0 {
            write(
                stream,
                format!("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: {}\r\n\r\n", bytes.len()),
            );
            write(stream, &bytes[..100_000]);
            return false;
        }
        file(head, stream, "ETag: \"v1\"\r\n", &bytes)
    });
    let edge = Edge::of(&origin);
    let got = Client::plain(&edge.server).get("/film.mp4");
    body.assert_range(0..300_000, &got.body);
    assert!(origin.asked().len() > 1, "the missing slices were asked for");
    assert_eq!(edge.fetched("cut_short"), 1.0);
}

#[test]
fn an_unknown_length_that_breaks_off_ends_the_response_and_is_forgotten() {
    let origin = Origin::start(|_, number, stream| {
        if number == 0 {
            write(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            return false;
        }
        answer(stream, "200 OK", "", b"all of it")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.ask("/live.ts");
    // The end may be known before the first byte has left: then there still is a status to say it with.
    if client.response_to_head().unwrap().status == 200 {
        let rest = client.rest_until_cut();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "it does not look whole");
    }
    assert_eq!(Client::plain(&edge.server).get("/live.ts").text(), "all of it");
}

#[test]
fn an_object_that_changes_under_way_is_never_mixed() {
    let (old, new) = (Content::new(31, 200_000), Content::new(32, 200_000));
    let (old_bytes, new_bytes) = (old.all(), new.all());
    let origin = Origin::start(move |head, _, stream| match range(head) {
        Some((0, _)) if !head.contains("/again") => file(head, stream, "ETag: \"old\"\r\n", &old_bytes),
        _ => file(head, stream, "ETag: \"new\"\r\n", &new_bytes),
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.begin("/film.mp4");
    let got = client.rest_until_cut();
    assert!(got.len() <= SLICE, "{} bytes", got.len());
    old.assert_range(0..got.len() as u64, &got);
    assert!(edge.fetched("changed") >= 1.0);
}

#[test]
fn paths_that_can_stand_in_no_request_are_not_asked_for() {
    let origin = Origin::answering("200 OK", "", "x");
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for path in ["/a%", "/a%00b", "/%2x"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert!(origin.asked().is_empty());
}
