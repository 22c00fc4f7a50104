//! Live streams: manifests that hold for a moment, segments that do not exist yet, and crowds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use penstock_testkit::origin::{Origin, answer, answer_in_chunks, write};
use penstock_testkit::{Client, Gate, Response, until};

use super::Edge;

/// A playlist with one segment, of a stream with this target duration.
pub(crate) fn playlist(target: u32, segment: usize) -> String {
    format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-MEDIA-SEQUENCE:{segment}\n#EXTINF:1,\nseg{segment}.ts\n"
    )
}

const CROWD: usize = 1000;

/// Sends one request on each connection before reading any answer.
fn all_at_once(edge: &Edge, path: &str) -> Vec<String> {
    let mut clients: Vec<_> = (0..CROWD).map(|_| Client::plain(&edge.server)).collect();
    for client in &mut clients {
        client.ask(path);
    }
    clients.iter_mut().map(|client| client.response().unwrap().text().to_owned()).collect()
}

#[test]
fn a_thousand_viewers_cost_one_request_per_segment_and_one_per_refresh() {
    let refreshes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refreshes);
    let origin = Origin::start(move |head, _, stream| {
        if head.contains(".m3u8") {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            // Long enough that a slow machine does not need a second refresh.
            answer(stream, "200 OK", "", playlist(600, number).as_bytes())
        } else {
            answer(stream, "200 OK", "Content-Type: video/mp2t\r\n", b"segment")
        }
    });
    let edge = Edge::of(&origin);
    for body in all_at_once(&edge, "/live/index.m3u8") {
        assert_eq!(body, playlist(600, 0));
    }
    for body in all_at_once(&edge, "/live/seg0.ts") {
        assert_eq!(body, "segment");
    }
    assert_eq!(origin.asked().len(), 2, "{:?}", origin.asked());
}

#[test]
fn a_live_manifest_is_fetched_again_soon_and_one_that_has_ended_is_not() {
    for (path, live) in
        [("/index.m3u8", true), ("/index.mpd", true), ("/named-by-type", true), ("/ended.m3u8", false)]
    {
        let origin = Origin::start(move |_, number, stream| {
            let mut body = playlist(1, number);
            if path == "/index.mpd" {
                body = format!(
                    "<?xml version=\"1.0\"?><MPD type=\"dynamic\" minimumUpdatePeriod=\"PT0.5S\" id=\"{number}\"/>"
                );
            }
            if !live {
                body.push_str("#EXT-X-ENDLIST\n");
            }
            let fields = "Content-Type: application/vnd.apple.mpegurl\r\nCache-Control: max-age=3600\r\n";
            answer(stream, "200 OK", if live { fields } else { "" }, body.as_bytes())
        });
        let edge = Edge::of(&origin);
        let mut client = Client::plain(&edge.server);
        let first = client.get(path).text().to_owned();
        if live {
            until("a newer manifest", || (client.get(path).text() != first).then_some(()));
            let kinds = edge.server.metrics();
            assert!(kinds.sum("penstock_manifests_total", &["_live\""]) >= 2.0, "{path}");
        } else {
            let age =
                |response: &Response| response.field("Age").map_or(0, |age| age.parse::<u64>().unwrap());
            let old = until("the age at which a live one is fetched again", || {
                Some(client.get(path)).filter(|response| age(response) >= 2)
            });
            assert_eq!(old.text(), first);
            assert_eq!(origin.asked().len(), 1);
        }
    }
}

#[test]
fn an_origin_that_names_a_shorter_time_is_obeyed() {
    let origin = Origin::start(|_, number, stream| {
        answer(stream, "200 OK", "Cache-Control: max-age=0\r\n", playlist(600, number).as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    for number in 0..3 {
        assert_eq!(client.get("/index.m3u8").text(), playlist(600, number));
    }
}

#[test]
fn a_live_manifest_outlives_an_origin_that_fails_in_any_way() {
    let (failing, way) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (fails, ways) = (Arc::clone(&failing), Arc::clone(&way));
    let origin = Origin::start(move |_, _, stream| {
        if !fails.load(Ordering::SeqCst) {
            return answer(stream, "200 OK", "Cache-Control: max-age=0\r\n", playlist(4, 0).as_bytes());
        }
        match ways.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => answer(stream, "503 Not now", "", b"restarting"),
            1 => false,
            _ => {
                write(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n#EXTM3U\n#EXT-X-TARGETDURATION:4\n",
                );
                false
            }
        }
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.get("/index.m3u8");
    failing.store(true, Ordering::SeqCst);
    for _ in 0..6 {
        let stale = client.get("/index.m3u8");
        assert_eq!((stale.status, stale.text()), (200, playlist(4, 0).as_str()));
        assert!(stale.field("Cache-Status").unwrap().contains("stale-if-error"));
    }
    assert!(way.load(Ordering::SeqCst) >= 6, "it is asked each time");
}

#[test]
fn a_slow_origin_does_not_hold_up_clients_that_have_a_playlist() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, number, stream| {
        if number > 0 {
            held.pass();
        }
        answer(stream, "200 OK", "Cache-Control: max-age=0\r\n", playlist(1, number).as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.get("/index.m3u8");
    for _ in 0..2 {
        let stale = client.get("/index.m3u8");
        assert_eq!(stale.text(), playlist(1, 0), "while the origin thinks");
    }
    assert_eq!(origin.asked().len(), 2, "and it is not asked twice meanwhile");
    gate.let_one_pass();
    until("the newer one", || {
        gate.let_one_pass();
        (client.get("/index.m3u8").text() != playlist(1, 0)).then_some(())
    });
}

#[test]
fn the_next_segment_of_a_live_stream_is_missing_for_a_moment_only() {
    let origin = Origin::start(|head, number, stream| {
        // A rule that was not written for live streams.
        let forever = "Cache-Control: max-age=3600\r\n";
        if head.contains("index.m3u8") {
            return answer(stream, "200 OK", "", playlist(4, 1).as_bytes());
        }
        match number {
            0..4 => answer(stream, "404 Not Found", forever, b"not yet"),
            _ => answer(stream, "200 OK", forever, b"segment"),
        }
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/live/index.m3u8").status, 200);
    assert_eq!(client.get("/live/seg2.ts").status, 404);
    until("the segment", || (client.get("/live/seg2.ts").status == 200).then_some(()));
    assert_eq!(client.get("/vod/seg2.ts").text(), "segment", "elsewhere the origin's word counts");
}

#[test]
fn a_malformed_manifest_is_fresh_for_a_moment_only() {
    let origin = Origin::start(|_, number, stream| {
        let fields = "Content-Type: application/x-mpegurl\r\nCache-Control: max-age=3600\r\n";
        answer(stream, "200 OK", fields, format!("<html>Please wait {number}</html>").as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let first = client.get("/index.m3u8").text().to_owned();
    until("another answer", || (client.get("/index.m3u8").text() != first).then_some(()));
    assert!(edge.server.metrics().sum("penstock_manifests_total", &["unread"]) >= 2.0);
}

#[test]
fn a_truncated_manifest_is_not_served() {
    let origin = Origin::start(|_, number, stream| {
        if number == 0 {
            write(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n#EXTM3U\n#EXT-X-TARGETDURATION:4\n",
            );
            return false;
        }
        answer(stream, "200 OK", "", playlist(4, 0).as_bytes())
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/index.m3u8").status, 502);
    assert_eq!(client.get("/index.m3u8").text(), playlist(4, 0));
}

#[test]
fn a_manifest_in_chunks_gets_a_length() {
    let origin =
        Origin::start(|_, _, stream| answer_in_chunks(stream, "", playlist(4, 0).as_bytes().chunks(5)));
    let edge = Edge::of(&origin);
    let response = Client::plain(&edge.server).get("/live?stream=1");
    assert_eq!(response.text(), playlist(4, 0));
    assert_eq!(response.field("Content-Length"), Some(playlist(4, 0).len().to_string().as_str()));
    assert_eq!(edge.server.metrics().sum("penstock_manifests_total", &["hls_live"]), 1.0);
}
