//! Origins that lie about what they send, stop, or lead elsewhere: each has a status, a reason in Cache-Status and a
//! metric, and nothing wrong is kept.

use std::thread;
use std::time::Duration;

use penstock_testkit::origin::{Origin, Script, answer, file, target, write, write_chunked_head};
use penstock_testkit::{Client, Content, Gate, Response, until};

use super::{Edge, SLICE};

/// The answer to a GET of a path, from an edge before an origin of these keys that follows this script.
fn get(path: &str, keys: &str, script: impl Script) -> (Edge, Origin, Response) {
    let origin = Origin::start(script);
    let edge = Edge::before(&origin.sites_with(keys));
    let response = Client::plain(&edge.server).get(path);
    (edge, origin, response)
}

/// It is this status, says why in both places, and nothing is kept.
fn is_refused(what: &str, edge: &Edge, response: &Response, status: u16, reason: &str) {
    assert_eq!(response.status, status, "{what}: {}", response.head);
    let said = response.field("Cache-Status").unwrap_or_default();
    assert!(said.contains(&format!("detail={reason}")), "{what}: {}", response.head);
    assert!(!said.contains("stored"), "{what}: {said}");
    assert!(edge.fetched(reason) >= 1.0, "{what}");
    until("nothing is kept", || {
        (edge.server.metrics().sum("penstock_cache_slices", &[]) == 0.0).then_some(())
    });
}

#[test]
fn a_malformed_response_is_502_with_its_reason() {
    let cases = [
        ("no HTTP", "malformed", "garbage\r\n\r\n"),
        (
            "two lengths",
            "malformed",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        ),
        ("a length that is none", "malformed", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        (
            "a part without its place",
            "malformed",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "a part of another place",
            "malformed",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\n\r\nhello",
        ),
        ("a head that breaks off", "cut_short", "HTTP/1.1 200 OK\r\nContent-Le"),
        ("an end before the first byte", "cut_short", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (
            "garbage for a chunk",
            "malformed",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "a chunk larger than any number",
            "malformed",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n",
        ),
    ];
    for (what, reason, text) in cases {
        let (edge, _origin, response) = get("/a.mp4", "retries: 0", move |_, _, stream| {
            write(stream, text);
            false
        });
        is_refused(what, &edge, &response, 502, reason);
    }
}

#[test]
fn a_part_of_what_was_asked_for_whole_is_502() {
    let text = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/5\r\n\r\nhello";
    let (edge, origin, response) = get("/a.m3u8", "retries: 0", move |_, _, stream| write(stream, text));
    assert!(!origin.asked()[0].to_ascii_lowercase().contains("range:"), "it was asked for whole");
    is_refused("206", &edge, &response, 502, "malformed");
}

#[test]
fn an_unrequested_content_encoding_is_passed_on_with_its_field() {
    let origin = Origin::answering("200 OK", "Content-Encoding: gzip\r\n", "not really");
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for _ in 0..2 {
        let response = client.get("/a.mp4");
        assert_eq!((response.text(), response.field("Content-Encoding")), ("not really", Some("gzip")));
    }
    assert!(origin.asked()[0].to_ascii_lowercase().contains("accept-encoding: identity"));
}

#[test]
fn bytes_behind_the_length_belong_to_no_response() {
    let origin = Origin::start(|head, _, stream| {
        let name = target(head).to_owned();
        let fields = "ETag: \"v\"\r\nContent-Length: 2\r\n";
        write(stream, format!("HTTP/1.1 200 OK\r\n{fields}\r\n{name}HTTP/1.1 200 OK\r\n{fields}\r\nXX"))
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for name in ["/a", "/b", "/c", "/a", "/b", "/c"] {
        assert_eq!(client.get(name).text(), name);
    }
}

#[test]
fn endless_chunks_end_where_the_bound_is_and_nothing_is_kept() {
    let origin = Origin::start(|_, _, stream| {
        write_chunked_head(stream, "");
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        while write(stream, &chunk) {}
        false
    });
    let edge = Edge::before(&origin.sites_with("max_unannounced: 2MiB"));
    let mut client = Client::plain(&edge.server);
    client.begin("/endless.ts");
    let rest = client.rest_until_cut();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it does not look whole");
    assert!(rest.len() < 3 << 20, "{} bytes", rest.len());
    assert_eq!(edge.fetched("too_long"), 1.0);
    until("nothing is kept", || {
        (edge.server.metrics().sum("penstock_cache_slices", &[]) == 0.0).then_some(())
    });
}

#[test]
fn silence_before_the_head_is_504() {
    let held = Gate::closed();
    let (edge, origin, response) =
        get("/a.mp4", "timeouts: {first_byte: 200ms}, retries: 0", move |_, _, _| held.pass());
    is_refused("silence", &edge, &response, 504, "timeout");
    until("the origin to have read the request", || (origin.asked().len() == 1).then_some(()));
}

#[test]
fn silence_within_a_body_ends_the_response_and_the_next_request_mends_it() {
    let body = Content::new(41, 2 * SLICE as u64);
    let bytes = body.all();
    let held = Gate::closed();
    let origin = Origin::start(move |head, number, stream| {
        if number == 0 {
            write(
                stream,
                format!("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: {}\r\n\r\n", bytes.len()),
            );
            write(stream, &bytes[..100]);
            return held.pass();
        }
        file(head, stream, "ETag: \"v\"\r\n", &bytes)
    });
    let edge = Edge::before(&origin.sites_with("timeouts: {between_bytes: 1s}"));
    body.assert_range(0..2 * SLICE as u64, &Client::plain(&edge.server).get("/a.mp4").body);
    assert_eq!(edge.fetched("timeout"), 1.0);
}

#[test]
fn a_reset_within_a_body_of_unknown_length_ends_the_response_and_is_forgotten() {
    let origin = Origin::start(|_, number, stream| {
        if number > 0 {
            return answer(stream, "200 OK", "", b"all of it");
        }
        write(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        false
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.ask("/live.ts");
    if client.response_to_head().unwrap().status == 200 {
        assert!(!client.rest_until_cut().ends_with(b"0\r\n\r\n"), "it does not look whole");
    }
    assert_eq!(Client::plain(&edge.server).get("/live.ts").text(), "all of it");
    assert_eq!(edge.fetched("cut_short"), 1.0);
}

#[test]
fn an_etag_that_changes_with_every_request_is_never_mixed_and_then_asked_for_whole() {
    let body = Content::new(42, 4 * SLICE as u64);
    let bytes = body.all();
    let origin = Origin::start(move |head, number, stream| {
        file(head, stream, &format!("ETag: \"{number}\"\r\n"), &bytes)
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.begin("/film.mp4");
    let got = client.rest_until_cut();
    assert!(got.len() <= SLICE, "{} bytes", got.len());
    assert!(edge.fetched("changed") >= 1.0);
    body.assert_range(0..4 * SLICE as u64, &Client::plain(&edge.server).get("/film.mp4").body);
    let last = origin.asked().pop().unwrap().to_ascii_lowercase();
    assert!(!last.contains("\r\nrange:"), "{last}");
}

#[test]
fn later_slices_are_asked_for_on_condition_and_a_new_version_answers_from_its_start() {
    let (old, new) = (Content::new(43, 4 * SLICE as u64), Content::new(44, 3 * SLICE as u64));
    let (old_bytes, new_bytes) = (old.all(), new.all());
    let origin = Origin::start(move |head, number, stream| {
        if number == 0 {
            return file(head, stream, "ETag: \"old\"\r\n", &old_bytes);
        }
        // As a good origin does: the condition does not hold, so it is all of the new version.
        let head = if head.to_ascii_lowercase().contains("if-range: \"old\"") { "" } else { head };
        file(head, stream, "ETag: \"new\"\r\n", &new_bytes)
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    old.assert_range(0..10, &client.get_range("/film.mp4", 0, 9).body);
    let at = 2 * SLICE as u64;
    let answer = client.get_range("/film.mp4", at, at + 99);
    assert_eq!((answer.status, answer.field("ETag")), (206, Some("\"new\"")), "{}", answer.head);
    new.assert_range(at..at + 100, &answer.body);
    assert!(origin.asked()[1].to_ascii_lowercase().contains("if-range: \"old\""));
    assert_eq!(edge.fetched("changed"), 1.0);
}

#[test]
fn a_thousand_clients_of_an_origin_that_ignores_range_ask_it_once() {
    const CLIENTS: usize = 1000;
    let body = Content::new(45, 3 * SLICE as u64);
    let bytes = body.all();
    let gate = Gate::closed();
    let held = gate.clone();
    let origin =
        Origin::start(move |_, _, stream| held.pass() && answer(stream, "200 OK", "ETag: \"v\"\r\n", &bytes));
    let edge = Edge::of(&origin);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::plain(&edge.server)).collect();
    for client in &mut clients {
        client.ask("/film.mp4");
    }
    gate.open();
    thread::scope(|scope| {
        for some in clients.chunks_mut(CLIENTS / 10) {
            let body = &body;
            scope.spawn(move || {
                for client in some {
                    assert_eq!(client.response_to_head().unwrap().status, 200);
                    body.assert_range(0..3 * SLICE as u64, &client.take(3 * SLICE).unwrap());
                }
            });
        }
    });
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn redirections_are_passed_on_and_cached_as_their_status_says() {
    let origin = Origin::start(|head, _, stream| {
        let status = if head.starts_with("GET /moved ") { "301 Moved" } else { "302 Found" };
        answer(stream, status, "Location: /elsewhere\r\n", b"")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for (path, status) in [("/moved", 301), ("/moved", 301), ("/found", 302), ("/found", 302)] {
        let response = client.get(path);
        assert_eq!((response.status, response.field("Location")), (status, Some("/elsewhere")));
    }
    assert_eq!(origin.asked().len(), 3, "301 is kept, 302 is not");
}

#[test]
fn redirections_are_followed_where_that_is_asked_for_and_no_further_than_allowed() {
    let body = Content::new(46, 3 * SLICE as u64);
    let store = Origin::with_file(&body, "ETag: \"v\"\r\n");
    let leads = format!("Location: {}/stored.mp4?signature=x\r\n", store.url());
    let origin = Origin::start(move |head, _, stream| match target(head) {
        "/first.mp4" => answer(stream, "307 Temporary Redirect", "Location: second.mp4\r\n", b"see there"),
        "/second.mp4" => answer(stream, "302 Found", &leads, b""),
        _ => answer(stream, "302 Found", "Location: /around\r\n", b""),
    });
    let edge = Edge::before(
        &origin.sites_with(&format!("follow_redirects: 2, redirect_hosts: [\"127.0.0.1:{}\"]", store.port())),
    );
    let mut client = Client::plain(&edge.server);
    for _ in 0..2 {
        body.assert_range(0..3 * SLICE as u64, &client.get("/first.mp4").body);
    }
    assert_eq!(store.asked().len(), 3, "each slice once");
    assert!(store.asked()[0].starts_with("GET /stored.mp4?signature=x "));
    is_refused_without_slices(&client.get("/around"), "redirects");
}

fn is_refused_without_slices(response: &Response, reason: &str) {
    assert_eq!(response.status, 502);
    assert!(
        response.field("Cache-Status").unwrap().contains(&format!("detail={reason}")),
        "{}",
        response.head
    );
}
