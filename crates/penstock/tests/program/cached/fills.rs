//! Fills keep step with their readers, and bring a little more than was asked for.

use std::sync::Barrier;
use std::thread;

use penstock_testkit::origin::{Origin, answer, file, range, write};
use penstock_testkit::{Client, Content, Gate, until};

use super::{Edge, SLICE};

fn prefetches(edge: &Edge, what: &str, outcome: &str) -> f64 {
    let labels = [format!("what=\"{what}\""), format!("outcome=\"{outcome}\"")];
    edge.server.metrics().sum("penstock_prefetches_total", &labels.each_ref().map(String::as_str))
}

#[test]
fn a_fill_does_not_run_away_from_a_slow_reader_when_the_cache_is_full() {
    let length = 24 * 1024 * 1024;
    let body = Content::new(31, length);
    // It ignores Range: all of it comes in one answer, far more than the cache holds.
    let origin = Origin::without_ranges(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::with(&origin.sites(), "1MiB");
    let mut client = Client::plain(&edge.server);
    client.begin("/film.mp4");
    let step = 512 * 1024;
    for at in (0..length).step_by(step) {
        body.assert_range(at..at + step as u64, &client.take(step).unwrap());
    }
    assert_eq!(origin.asked().len(), 1, "what it needed had never gone before it came");
}

#[test]
fn when_the_last_reader_has_left_a_film_is_not_fetched_to_its_end() {
    let length = 64 * SLICE as u64;
    let body = Content::new(32, length);
    let origin = Origin::without_ranges(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::with(&origin.sites(), "64MiB");
    let mut client = Client::plain(&edge.server);
    client.send("HEAD /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.response_to_head().unwrap();
    until("the fill stops", || (edge.fetched("no_readers") == 1.0).then_some(()));
    let kept = edge.server.metrics().sum("penstock_cache_slices", &[]);
    assert!((1.0..32.0).contains(&kept), "{kept} slices");
    body.assert_range(0..length, &client.get("/film.mp4").body);
}

#[test]
fn the_next_slice_is_there_before_it_is_asked_for_and_counted() {
    let length = 8 * SLICE as u64;
    let body = Content::new(33, length);
    let origin = Origin::with_file(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    body.assert_range(0..length, &client.get("/film.mp4").body);
    assert_eq!(origin.asked().len(), 8);
    let (started, useful) = (prefetches(&edge, "slice", "started"), prefetches(&edge, "slice", "useful"));
    assert!(started >= 1.0 && started == useful, "{started} started, {useful} useful");
}

#[test]
fn a_request_for_all_fetches_the_first_slices_at_once_and_a_request_for_a_range_does_not() {
    let length = 10 * SLICE as u64 - 7;
    let body = Content::new(35, length);
    let origin = Origin::with_file(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::with(&origin.sites(), "64MiB");
    let mut client = Client::plain(&edge.server);
    body.assert_range(0..length, &client.get("/all.mp4").body);
    assert_eq!(origin.asked().len(), 7, "four slices at once, six one by one");
    assert!(origin.asked()[0].contains("bytes=0-262143"), "{:?}", origin.asked()[0]);
    body.assert_range(5..9, &client.get_range("/range.mp4", 5, 8).body);
    assert!(origin.asked()[7].contains("bytes=0-65535"), "{:?}", origin.asked()[7]);
    assert_eq!(origin.asked().len(), 8);
}

/// An origin with a playlist of twenty segments.
fn twenty(ended: bool) -> Origin {
    Origin::start(move |head, _, stream| {
        if !head.contains(".m3u8") {
            return answer(stream, "200 OK", "Content-Type: video/mp2t\r\n", &[7; 1000]);
        }
        let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:600\n".to_owned();
        (0..20).for_each(|number| text.push_str(&format!("#EXTINF:4,\nmedia/s{number}.ts?v=1\n")));
        if ended {
            text.push_str("#EXT-X-ENDLIST\n");
        }
        answer(stream, "200 OK", "", text.as_bytes())
    })
}

#[test]
fn the_next_segment_of_a_playlist_is_there_before_it_is_asked_for() {
    for ended in [true, false] {
        let origin = twenty(ended);
        let edge = Edge::of(&origin);
        let mut client = Client::plain(&edge.server);
        assert_eq!(client.get("/a/index.m3u8").status, 200);
        for number in 0..19 {
            assert_eq!(client.get(&format!("/a/media/s{number}.ts?v=1")).status, 200);
            let next = format!("/a/media/s{}.ts?v=1", number + 1);
            until("the next is fetched", || {
                origin.asked().iter().any(|head| head.contains(&next)).then_some(())
            });
        }
        let useful = client.get("/a/media/s19.ts?v=1");
        assert_ne!(useful.field("Cache-Status"), Some("penstock; fwd=uri-miss; stored"));
        assert_eq!(prefetches(&edge, "segment", "started"), 19.0);
        assert_eq!(prefetches(&edge, "segment", "useful"), 19.0);
        assert_eq!(origin.asked().len(), 21, "each once");
    }
}

#[test]
fn how_many_segments_are_fetched_ahead_is_a_setting() {
    for (setting, expected) in [(0, 0.0), (3, 3.0)] {
        let origin = twenty(true);
        let edge = Edge::before(&format!("{}\n  cache: {{prefetch: {setting}}}", origin.sites()));
        let mut client = Client::plain(&edge.server);
        client.get("/a/index.m3u8");
        client.get("/a/media/s0.ts?v=1");
        until("they are fetched", || (prefetches(&edge, "segment", "started") == expected).then_some(()));
        until("and no more", || (origin.asked().len() == 2 + setting).then_some(()));
    }
}

#[test]
fn segments_that_no_client_requested_are_counted_as_wasted() {
    let origin = twenty(true);
    let edge = Edge::with(&format!("{}\n  cache: {{default_ttl: 0s}}", origin.sites()), "1MiB");
    let mut client = Client::plain(&edge.server);
    client.get("/a/index.m3u8");
    client.get("/a/media/s0.ts?v=1");
    until("the next is fetched", || (prefetches(&edge, "segment", "started") >= 1.0).then_some(()));
    // New objects take the place of the unused one.
    client.get("/a/media/s1.ts?v=1");
    client.get("/a/media/s1.ts?v=1");
    let counted = || prefetches(&edge, "segment", "useful") + prefetches(&edge, "segment", "wasted");
    until("it is one or the other", || (counted() >= 1.0).then_some(()));
}

#[test]
fn readers_of_one_fill_on_all_workers_arrive_together() {
    let length = 4 * SLICE as u64;
    let body = Content::new(34, length);
    let origin = Origin::without_ranges(&body, "ETag: \"v1\"\r\n");
    let edge = Edge::of(&origin);
    let clients: Vec<_> = (0..40).map(|_| Client::plain(&edge.server)).collect();
    let together = Barrier::new(clients.len());
    thread::scope(|scope| {
        for mut client in clients {
            let (together, body) = (&together, &body);
            scope.spawn(move || {
                together.wait();
                body.assert_range(0..length, &client.get("/segment.m4s").body);
            });
        }
    });
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn many_readers_have_every_piece_before_the_next_one_comes() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
        for _ in 0..5 {
            write(stream, "ten bytes.");
            held.pass();
        }
        true
    });
    let edge = Edge::of(&origin);
    // More than are woken for each piece as a matter of course.
    let mut clients: Vec<_> = (0..40).map(|_| Client::plain(&edge.server)).collect();
    for client in &mut clients {
        client.begin("/part.m4s");
    }
    for _ in 0..5 {
        for client in &mut clients {
            assert_eq!(client.take(10).unwrap(), b"ten bytes.");
        }
        // Only now does the origin go on: what a reader lacks here would never come.
        gate.let_one_pass();
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_client_beyond_the_limit_of_waiters_gets_503() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        if head.contains("/body") {
            write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
        }
        held.pass();
        match head.contains("/body") {
            true => write(stream, "from here"),
            false => answer(stream, "200 OK", "", b"from here"),
        }
    });
    for path in ["/head", "/body"] {
        let edge = Edge::tuned(&origin.sites(), "4MiB", &["waiters_per_fill: 5"]);
        let mut clients: Vec<_> = (0..12).map(|_| Client::plain(&edge.server)).collect();
        for client in &mut clients {
            client.ask(path);
        }
        until("some are turned away", || {
            (edge.server.metrics().sum("penstock_requests_total", &["5xx"]) >= 5.0).then_some(())
        });
        gate.let_one_pass();
        let answers: Vec<_> = clients.iter_mut().map(|client| client.response().unwrap()).collect();
        for answer in &answers {
            match answer.status {
                200 => assert_eq!(answer.text(), "from here"),
                _ => assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1"))),
            }
        }
        let served = answers.iter().filter(|answer| answer.status == 200).count();
        assert!((5..=7).contains(&served), "{served} were served at {path}");
    }
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn an_origin_that_sends_less_than_it_is_asked_for_is_asked_for_the_rest() {
    const MOST: usize = 30_000;
    let film = Content::new(62, 5 * SLICE as u64 + 9);
    let bytes = film.all();
    let origin = Origin::start(move |head, _, stream| {
        let (first, last) = range(head).expect("a part is asked for");
        let part = &bytes[first..=last.min(first + MOST - 1).min(bytes.len() - 1)];
        let end = first + part.len() - 1;
        let fields = format!("ETag: \"v1\"\r\nContent-Range: bytes {first}-{end}/{}\r\n", bytes.len());
        answer(stream, "206 Partial Content", &fields, part)
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let whole = client.get("/film.mp4");
    assert_eq!(whole.status, 200, "{}", whole.head);
    film.assert_range(0..5 * SLICE as u64 + 9, &whole.body);
    let part = client.get_range("/other.mp4", 70_000, 200_000);
    assert_eq!(part.status, 206, "{}", part.head);
    film.assert_range(70_000..200_001, &part.body);
}

#[test]
fn a_film_whose_servers_have_different_tags_reaches_its_first_viewer_whole() {
    let film = Content::new(63, 20 * SLICE as u64 + 9);
    let server = |tag: &'static str| {
        let bytes = film.all();
        Origin::start(move |head, _, stream| file(head, stream, tag, &bytes))
    };
    let (one, other) = (server("ETag: \"one\"\r\n"), server("ETag: \"other\"\r\n"));
    let sites = format!("- origin: {{http: [\"{}\", \"{}\"]}}", one.url(), other.url());
    let edge = Edge::with(&sites, "16MiB");
    for path in ["/a.mp4", "/b.mp4", "/c.mp4", "/d.mp4"] {
        let whole = Client::plain(&edge.server).get(path);
        assert_eq!(whole.status, 200, "{}", whole.head);
        film.assert_range(0..20 * SLICE as u64 + 9, &whole.body);
    }
    assert_eq!(edge.fetched("changed"), 0.0);
    assert!(!one.asked().is_empty() && !other.asked().is_empty(), "films are spread over the servers");
}
