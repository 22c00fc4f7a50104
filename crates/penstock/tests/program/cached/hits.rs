//! Responses equal the origin's bytes, and the origin is asked once.

use std::sync::Barrier;
use std::thread;

use penstock_testkit::origin::{
    Origin, answer, answer_in_chunks, file, target, write, write_chunk, write_chunked_head,
};
use penstock_testkit::{Client, Content, Gate, Setup, Tool, until};

use super::{Edge, SLICE};

#[test]
fn a_file_of_another_penstock_arrives_whole_and_is_fetched_once() {
    let origin = Setup::new().start();
    let video = origin.file("film.mp4", 1_000_003);
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{}\"]}}", origin.http()));
    for _ in 0..3 {
        for response in
            [Client::tls(&edge.server).get("/film.mp4"), Client::plain(&edge.server).get("/film.mp4")]
        {
            assert_eq!(response.status, 200);
            assert_eq!(response.field("Content-Type"), Some("video/mp4"));
            assert_eq!(response.field("Content-Length"), Some("1000003"));
            video.assert_range(0..1_000_003, &response.body);
        }
    }
    let slices = 1_000_003_usize.div_ceil(SLICE);
    // Each slice once.
    origin.counted("penstock_requests_total", &[], slices as f64);
}

#[test]
fn ranges_and_conditions_are_answered_from_the_cache() {
    let origin = Setup::new().start();
    let video = origin.file("film.mp4", 300_000);
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{}\"]}}", origin.http()));
    let mut client = Client::tls(&edge.server);
    let across = client.get_range("/film.mp4", 65_530, 65_545);
    assert_eq!((across.status, across.field("Content-Range")), (206, Some("bytes 65530-65545/300000")));
    video.assert_range(65_530..65_546, &across.body);
    let suffix = client.get_with("/film.mp4", "Range: bytes=-7\r\n");
    video.assert_range(299_993..300_000, &suffix.body);
    // Both parts cross the border of a slice.
    let many = client.get_with("/film.mp4", "Range: bytes=65530-65545,196600-200001\r\n");
    assert_eq!(many.head.to_ascii_lowercase().matches("content-type:").count(), 1, "{}", many.head);
    many.assert_parts(&video, &[65_530..65_546, 196_600..200_002]);
    assert_eq!(client.get_range("/film.mp4", 300_000, 300_001).status, 416);
    let etag = suffix.field("ETag").unwrap().to_owned();
    let same = client.get_with("/film.mp4", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((same.status, same.field("ETag")), (304, Some(etag.as_str())));
    let other = client.get_with("/film.mp4", "If-Range: \"other\"\r\nRange: bytes=0-0\r\n");
    assert_eq!(other.status, 200);
    let head = client.head_with("/film.mp4", "");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("300000")));
}

#[test]
fn the_access_log_tells_hits_from_misses() {
    let origin = Setup::new().start();
    origin.file("film.mp4", 1000);
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{}\"]}}", origin.http()));
    let mut client = Client::tls(&edge.server);
    client.get("/film.mp4");
    client.get("/film.mp4");
    let lines = until("two lines", || Some(edge.server.access_log()).filter(|lines| lines.len() == 2));
    assert_eq!([&lines[0]["cache"], &lines[1]["cache"]], ["miss", "hit"]);
    let files = until("the line of the origin", || origin.access_log().into_iter().next());
    assert!(files.get("cache").is_none(), "no cache was asked: {files}");
}

#[test]
fn curl_gets_the_same_bytes() {
    let body = Content::new(4, 500_000);
    let origin = Origin::with_file(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::of(&origin);
    for _ in 0..2 {
        let got = Tool::curl(&edge.server).arg(edge.server.url("/film.mp4")).run().ok();
        body.assert_range(0..500_000, &got.stdout);
    }
}

#[test]
fn readers_follow_a_fill_while_it_comes() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        held.pass();
        write(stream, "later")
    });
    let edge = Edge::of(&origin);
    let mut clients = [Client::tls(&edge.server).boxed(), Client::plain(&edge.server).boxed()];
    for client in &mut clients {
        client.begin("/live.ts");
        assert_eq!(client.take(5).unwrap(), b"first", "it comes before the origin is done");
    }
    gate.let_one_pass();
    for client in &mut clients {
        assert_eq!(client.take(5).unwrap(), b"later");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_body_that_one_edge_is_still_receiving_can_be_fetched_by_another() {
    for fields in ["", "Cache-Control: no-store\r\n"] {
        let body = Content::new(5, 4_000_000);
        let bytes = body.all();
        let gate = Gate::closed();
        let held = gate.clone();
        let origin = Origin::start(move |_, _, stream| {
            write_chunked_head(stream, fields);
            let mut chunks = bytes.chunks(100_000);
            let mut all = chunks.by_ref().take(30).all(|chunk| write_chunk(stream, chunk));
            // Until the other edge has some of it: its length is not known before.
            held.pass();
            all = all && chunks.all(|chunk| write_chunk(stream, chunk));
            all && write_chunk(stream, "")
        });
        let inner = Edge::of(&origin);
        let outer = Edge::before(&format!("- origin: {{http: [\"http://{}\"]}}", inner.server.http()));
        let mut client = Client::plain(&outer.server);
        client.send("GET /live.ts HTTP/1.0\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response_to_head().unwrap().status, 200, "{fields}");
        body.assert_range(0..1000, &client.take(1000).unwrap());
        gate.open();
        body.assert_range(1000..body.len, &client.rest().unwrap());
    }
}

#[test]
fn a_reader_waits_where_one_slice_has_ended_and_the_next_is_yet_to_come() {
    let slice = SLICE as u64;
    let body = Content::new(6, 2 * slice);
    let bytes = body.all();
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        write_chunked_head(stream, "");
        bytes.chunks(SLICE).all(|chunk| write_chunk(stream, chunk) && held.pass()) && write_chunk(stream, "")
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.send("GET /live.ts HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response_to_head().unwrap().status, 200);
    for start in [0, slice] {
        body.assert_range(start..start + slice, &client.take(SLICE).unwrap());
        gate.let_one_pass();
    }
    assert_eq!(client.rest().unwrap(), b"");
    body.assert_range(0..2 * slice, &Client::plain(&edge.server).get("/live.ts").body);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_crowd_asks_the_origin_once() {
    let body = Content::new(9, SLICE as u64);
    let bytes = body.all();
    let gate = Gate::closed();
    let held = gate.clone();
    let origin =
        Origin::start(move |head, _, stream| held.pass() && file(head, stream, "ETag: \"v1\"\r\n", &bytes));
    let edge = Edge::of(&origin);
    let crowd: Vec<_> = (0..50).map(|_| Client::plain(&edge.server)).collect();
    let together = Barrier::new(crowd.len());
    thread::scope(|scope| {
        for mut client in crowd {
            let (together, body) = (&together, &body);
            scope.spawn(move || {
                together.wait();
                body.assert_range(0..SLICE as u64, &client.get("/segment.m4s").body);
            });
        }
        gate.wait_for_arrivals(1);
        gate.open();
    });
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn the_first_client_may_leave_and_the_fill_goes_on() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        held.pass();
        write(stream, "later")
    });
    let edge = Edge::of(&origin);
    let mut first = Client::plain(&edge.server);
    first.begin("/live.ts");
    drop(first);
    let mut second = Client::plain(&edge.server);
    second.begin("/live.ts");
    gate.let_one_pass();
    assert_eq!(second.take(10).unwrap(), b"firstlater");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_body_of_unknown_length_arrives_in_chunks_and_is_kept() {
    let body = Content::new(11, 200_000);
    let bytes = body.all();
    let origin = Origin::start(move |_, _, stream| answer_in_chunks(stream, "", bytes.chunks(7000)));
    let edge = Edge::of(&origin);
    let first = Tool::curl(&edge.server).arg(edge.server.url("/live.ts")).run().ok();
    body.assert_range(0..200_000, &first.stdout);
    let mut client = Client::tls(&edge.server);
    let known = until("its length is known", || {
        Some(client.get_range("/live.ts", 100, 199)).filter(|response| response.status == 206)
    });
    body.assert_range(100..200, &known.body);
    let old = Tool::curl(&edge.server).args(["--http1.0"]).arg(edge.server.url("/live.ts")).run().ok();
    body.assert_range(0..200_000, &old.stdout);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn an_origin_that_ignores_range_is_asked_once_for_all() {
    let body = Content::new(12, 300_000);
    let origin = Origin::without_ranges(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    body.assert_range(250_000..250_100, &client.get_range("/film.mp4", 250_000, 250_099).body);
    body.assert_range(0..300_000, &client.get("/film.mp4").body);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn an_object_larger_than_the_cache_passes_through() {
    let length = 3_000_000_u64;
    let body = Content::new(13, length);
    let origin = Origin::with_file(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::with(&origin.sites(), "1MiB");
    let mut client = Client::tls(&edge.server);
    for _ in 0..2 {
        body.assert_range(0..length, &client.get("/film.mp4").body);
    }
    let used = edge.server.metrics().sum("penstock_cache_bytes", &[]);
    assert!(used <= f64::from(1 << 20), "{used} bytes");
}

#[test]
fn query_and_path_make_the_key() {
    let origin = Origin::start(|head, _, stream| {
        let target = target(head).to_owned();
        answer(stream, "200 OK", "", target.as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for target in ["/a", "/a?b=1", "/a?b=2", "/b", "/a"] {
        assert_eq!(client.get(target).text(), target);
    }
    assert_eq!(origin.asked().len(), 4);
}
