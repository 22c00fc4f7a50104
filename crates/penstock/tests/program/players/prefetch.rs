//! What a player says it will ask for next is fetched while it plays what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_testkit::origin::{Origin, answer, file, range, target};
use penstock_testkit::{Client, Content, Gate, Setup, Tool, until};
use serde_json::Value;

use super::{Edge, in_query, targets};

const SEGMENTS: usize = 30;

/// An origin of segments, which counts those that were asked for.
fn origin() -> (Origin, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let origin = Origin::start(move |head, _, stream| {
        let status = if target(head).contains("missing") { "404 Not Found" } else { "200 OK" };
        let is_sent = answer(stream, status, "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", &[b'x'; 1000]);
        count.fetch_add(1, Ordering::SeqCst);
        is_sent
    });
    (origin, answered)
}

fn edge(origin: &Origin, keys: &str) -> Edge {
    Edge::before(&format!("- {{hosts: [localhost], origin: {{http: [\"{}\"]}}{keys}}}", origin.url()))
}

const PREFETCH: &str = ", cmcd: {prefetch: true}";

fn segments(edge: &Edge, result: &str) -> f64 {
    let labels = ["kind=\"cmcd\"".to_owned(), format!("result=\"{result}\"")];
    let labels = labels.each_ref().map(String::as_str);
    edge.server.metrics().sum("penstock_prefetched_segments_total", &labels)
}

#[test]
fn at_a_cold_edge_fewer_than_a_tenth_of_the_segments_wait_for_the_origin_instead_of_all() {
    for (keys, most) in [("", SEGMENTS), (PREFETCH, SEGMENTS / 10)] {
        let (origin, _) = origin();
        let edge = edge(&origin, keys);
        let mut client = Client::tls(&edge.server);
        let mut waited = 0;
        for number in 0..SEGMENTS {
            let said = in_query(&format!("bl=4000,nor=\"seg-{}.m4s\"", number + 1));
            let response = client.get(&format!("/vod/seg-{number}.m4s?{said}"));
            waited += usize::from(!response.field("Cache-Status").unwrap().contains("; hit"));
            let fetched = if keys.is_empty() { number + 1 } else { number + 2 };
            // The player plays this segment meanwhile.
            let outcome = ["outcome=\"answered\""];
            edge.server.counted("penstock_origin_requests_total", &outcome, fetched as f64);
        }
        if keys.is_empty() {
            assert_eq!(waited, most);
        } else {
            assert!((1..=most).contains(&waited), "{waited}");
            assert_eq!(targets(&origin).len(), SEGMENTS + 1, "each once");
            assert_eq!(segments(&edge, "used"), (SEGMENTS - 1) as f64);
        }
    }
}

/// A film of this many segments of 0.8 s: a player with a full buffer asks again when 0.5 s fit, and for one of them.
const FILM: usize = 40;

/// Segment requests of a player of `penstock load` that a cold edge with these keys does not answer from its cache.
fn waited(keys: &str) -> usize {
    let origin = Origin::start(|head, _, stream| {
        let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n".to_owned();
        (0..FILM).for_each(|number| list.push_str(&format!("#EXTINF:0.8,\nseg-{number}.m4s\n")));
        list.push_str("#EXT-X-ENDLIST\n");
        let body = if target(head).ends_with(".m3u8") { list.into_bytes() } else { vec![b'x'; 1000] };
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", &body)
    });
    let edge = edge(&origin, &format!(", cache: {{prefetch: 0}}{keys}"));
    let load =
        Tool::penstock().args(["load", "playback", "--insecure", "--quiet", "--requests", "1", "--json"]);
    let load = load.args(["--buffer", "1s", "--start", "500ms", "--cmcd"]);
    let report = load.arg(edge.server.url("/film/index.m3u8")).run().ok();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["playback"]["segments"], FILM, "{report:#}");
    assert_eq!(targets(&origin).len(), FILM + 1, "each once, and the playlist");
    let of_segments = || {
        let log = edge.server.access_log();
        log.into_iter().filter(|line| line["target"].as_str().unwrap().contains("/seg-")).collect::<Vec<_>>()
    };
    let segments = until("all lines of the log", || Some(of_segments()).filter(|log| log.len() == FILM));
    segments.iter().filter(|line| line["cache"] != "hit").count()
}

#[test]
fn players_of_the_load_generator_wait_for_the_origin_with_few_of_their_requests_instead_of_all() {
    let (without, with) = std::thread::scope(|scope| {
        let without = scope.spawn(|| waited(""));
        let with = waited(PREFETCH);
        (without.join().unwrap(), with)
    });
    println!("of {FILM} segments {without} waited without prefetching, and {with} with it");
    assert_eq!(without, FILM);
    assert!((1..FILM / 4).contains(&with), "{with}");
}

#[test]
fn the_next_range_of_an_object_is_fetched_alone() {
    let file = Content::new(3, 1_000_000);
    let origin = Origin::with_file(&file, "Cache-Control: max-age=600\r\nETag: \"a\"\r\n");
    let edge = edge(&origin, PREFETCH);
    let mut client = Client::plain(&edge.server);
    let fields = "Range: bytes=0-99\r\nCMCD-Request: nrr=\"500000-500099\"\r\n";
    file.assert_range(0..100, &client.get_with("/film.mp4", fields).body);
    let ranges = || origin.asked().iter().filter_map(|head| range(head)).collect::<Vec<_>>();
    until("the slice with the range", || (ranges() == [(0, 65_535), (458_752, 524_287)]).then_some(()));
    file.assert_range(500_000..500_100, &client.get_range("/film.mp4", 500_000, 500_099).body);
    assert_eq!(ranges().len(), 2);
}

#[test]
fn without_a_word_of_the_player_names_with_numbers_tell_what_comes_next_if_the_site_says_so() {
    for (keys, expected) in [("", 3), (", cache: {prefetch_numbers: true}", 4)] {
        let (origin, _) = origin();
        let edge = edge(&origin, keys);
        let mut client = Client::plain(&edge.server);
        for target in ["/a/seg-009.m4s", "/b/seg-010.m4s", "/a/seg-010.m4s"] {
            assert_eq!(client.get(target).status, 200);
        }
        until("the next segment", || (targets(&origin).len() == expected).then_some(()));
        if expected == 4 {
            assert_eq!(client.get("/a/seg-011.m4s").status, 200);
            until("the one behind it", || {
                targets(&origin).contains(&"/a/seg-012.m4s".to_owned()).then_some(())
            });
            let labels = ["kind=\"number\"", "result=\"used\""];
            edge.server.counted("penstock_prefetched_segments_total", &labels, 1.0);
        }
    }
}

#[test]
fn fields_name_the_next_object_too_and_a_full_buffer_none() {
    let (origin, _) = origin();
    let edge = edge(&origin, PREFETCH);
    let mut client = Client::plain(&edge.server);
    client.get_with("/vod/a/1.m4s", "CMCD-Request: bl=30000,nor=\"no.m4s\"\r\n");
    client.get_with("/vod/a/2.m4s", "CMCD-Request: bl=2000,nor=\"..%2Fb%2F3.m4s\"\r\n");
    until("the next object", || targets(&origin).contains(&"/vod/b/3.m4s".to_owned()).then_some(()));
    assert_eq!(targets(&origin), ["/vod/a/1.m4s", "/vod/a/2.m4s", "/vod/b/3.m4s"]);
}

#[test]
fn nothing_is_fetched_from_elsewhere_nor_what_another_route_or_no_token_opens() {
    let (origin, _) = origin();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "0123456789abcdef0123456789abcdef\n").unwrap();
    let keys = format!(
        "{PREFETCH}, routes: [{{path: /private/*, access: {{allow: [192.0.2.0/24]}}}}, \
         {{path: /signed/*, signed_urls: {{keys: [{{id: one, file: {}}}]}}}}]",
        key.path().display()
    );
    let edge = edge(&origin, &keys);
    let mut client = Client::plain(&edge.server);
    for (number, next) in [
        "https:%2F%2F127.0.0.1%2Fx",
        "%2F%2Fother.example%2Fx",
        "..%2F..%2F..%2Fprivate%2Fx",
        "..%2Fprivate%2Fx",
        "%2Fprivate%2Fx",
        "%2Fsigned%2Fx",
        "%2F..%2F%252e%252e%2Fprivate%2Fx",
        "x%0d%0aHost:%20other",
    ]
    .into_iter()
    .enumerate()
    {
        client.get(&format!("/vod/{number}.m4s?{}", in_query(&format!("nor=\"{next}\""))));
    }
    // Behind all of them: what may be fetched is.
    client.get(&format!("/vod/last.m4s?{}", in_query("nor=\"next.m4s\"")));
    until("the next object", || targets(&origin).contains(&"/vod/next.m4s".to_owned()).then_some(()));
    let asked = targets(&origin);
    assert!(asked.iter().all(|target| target.starts_with("/vod/")), "{asked:?}");
    assert_eq!(asked.len(), 10, "{asked:?}");
}

#[test]
fn what_a_player_of_a_signed_site_names_needs_a_token_of_the_request_that_opens_it() {
    let (origin, _) = origin();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "0123456789abcdef0123456789abcdef\n").unwrap();
    let keys = format!("{PREFETCH}, signed_urls: {{keys: [{{id: one, file: {}}}]}}", key.path().display());
    let edge = edge(&origin, &keys);
    let mut client = Client::plain(&edge.server);
    let mut ask = |segment: &str, signed: &[&str], next: &str| {
        let sign = ["sign", segment, "--key-id", "one", "--expires", "1h", "--key-file"];
        let target = Tool::penstock().args(sign).arg(key.path()).args(signed).run().ok().text();
        let said = in_query(&format!("nor=\"{next}\""));
        let mark = if target.contains('?') { '&' } else { '?' };
        assert_eq!(client.get(&format!("{}{mark}{said}", target.trim())).status, 200, "{target}");
    };
    // Tokens of one file, and of a folder that the next object leaves.
    ask("/vod/a/1.m4s", &[], "2.m4s");
    ask("/vod/a/1.m4s", &["--prefix", "/vod/a/"], "..%2Fb%2F2.m4s");
    ask("/vod/a/3.m4s", &["--prefix", "/vod/a/", "--in", "path"], "..%2F..%2F..%2Fvod%2Fb%2F2.m4s");
    for place in ["query", "path"] {
        let folder = format!("/vod/{place}/");
        ask(&format!("{folder}1.m4s"), &["--prefix", &folder, "--in", place], "2.m4s");
        until("the next object", || targets(&origin).contains(&format!("{folder}2.m4s")).then_some(()));
    }
    let asked = targets(&origin);
    assert_eq!(asked.len(), 6, "{asked:?}");
    assert!(!asked.iter().any(|target| target.contains("/b/") || target == "/vod/a/2.m4s"), "{asked:?}");
}

#[test]
fn what_players_of_one_network_name_takes_half_of_its_fetches_and_the_rest_is_not_fetched() {
    const NAMED: usize = 5;
    let gate = Gate::closed();
    let passing = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        let is_let_through = !target(head).contains("slow") || passing.pass();
        is_let_through && answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", b"x")
    });
    let memory = penstock_testkit::memory_directory();
    let cache =
        format!("cache: {{slice: 64KiB, memory: {{directory: {}, size: 64MiB}}}}", memory.path().display());
    let sites = format!("- {{origin: {{http: [\"{}\"]}}{PREFETCH}}}", origin.url());
    let setup = Setup::new().listeners(&["proxy_protocol: true"]).sites(&sites).section(&cache);
    let server = setup.limits("fetches_per_network: 4").start();
    server.tolerate_warning("is out: ");
    let ask = |address: &str, number: usize, folder: &str| {
        let mut client = Client::plain(&server);
        client.send(format!("PROXY TCP4 {address} 127.0.0.1 1111 80\r\n"));
        let said = in_query(&format!("nor=\"slow-{number}.m4s\""));
        assert_eq!(client.get(&format!("/{folder}/{number}.m4s?{said}")).text(), "x");
    };
    let slow = |folder: &str| {
        let named = format!("/{folder}/slow-");
        targets(&origin).iter().filter(|target| target.starts_with(&named)).count()
    };
    let skipped = || server.metrics().sum("penstock_prefetches_total", &["outcome=\"skipped\""]);
    // Each request itself is answered.
    (0..NAMED).for_each(|number| ask("192.0.2.1", number, "one"));
    until("the rest to be skipped", || (skipped() == (NAMED - 2) as f64).then_some(()));
    until("half of four", || (slow("one") == 2).then_some(()));
    ask("198.51.100.1", 0, "other");
    until("that of another network", || (slow("other") == 1).then_some(()));
    assert_eq!((slow("one"), skipped()), (2, (NAMED - 2) as f64));
    gate.open();
}

#[test]
fn ranges_that_players_name_take_a_quarter_of_the_connections_of_the_origin() {
    let (gate, film) = (Gate::closed(), Content::new(5, 1_000_000));
    let (passing, bytes) = (gate.clone(), film.all());
    let origin = Origin::start(move |head, _, stream| {
        let is_let_through = range(head).is_some_and(|(first, _)| first == 0) || passing.pass();
        is_let_through && file(head, stream, "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", &bytes)
    });
    let memory = penstock_testkit::memory_directory();
    let cache =
        format!("cache: {{slice: 64KiB, memory: {{directory: {}, size: 64MiB}}}}", memory.path().display());
    let sites = format!("- {{origin: {{http: [\"{}\"], connections: 8}}{PREFETCH}}}", origin.url());
    let setup = Setup::new().listeners(&["proxy_protocol: true"]).sites(&sites).section(&cache);
    let server = setup.start();
    server.tolerate_warning("is out: ");
    let skipped = || server.metrics().sum("penstock_prefetches_total", &["outcome=\"skipped\""]);
    let ahead =
        || origin.asked().iter().filter_map(|head| range(head)).filter(|(first, _)| *first > 0).count();
    for (number, named) in ["131072-393215", "393216-655359", "655360-"].into_iter().enumerate() {
        let mut client = Client::plain(&server);
        client.send(format!("PROXY TCP4 192.0.{number}.1 127.0.0.1 1111 80\r\n"));
        let fields = format!("Range: bytes=0-99\r\nCMCD-Request: nrr=\"{named}\"\r\n");
        film.assert_range(0..100, &client.get_with("/film.mp4", &fields).body);
        until("two, and no more", || (ahead() == 2 && skipped() == (number + 1) as f64).then_some(()));
    }
    gate.open();
    until("another range once they are there", || {
        let mut client = Client::plain(&server);
        client.send("PROXY TCP4 192.0.2.9 127.0.0.1 1111 80\r\n");
        client.get_with("/film.mp4", "Range: bytes=0-99\r\nCMCD-Request: nrr=\"655360-\"\r\n");
        (ahead() > 2).then_some(())
    });
}

#[test]
fn an_error_that_no_client_has_asked_for_is_not_kept() {
    let (origin, answered) = origin();
    let edge = edge(&origin, PREFETCH);
    let mut client = Client::plain(&edge.server);
    client.get(&format!("/vod/1.m4s?{}", in_query("nor=\"missing.m4s\"")));
    until("the request for the next object", || (answered.load(Ordering::SeqCst) == 2).then_some(()));
    // A request may come while that fetch ends, and get its response.
    until("a request of its own", || {
        assert_eq!(client.get("/vod/missing.m4s").status, 404);
        (targets(&origin) == ["/vod/1.m4s", "/vod/missing.m4s", "/vod/missing.m4s"]).then_some(())
    });
}
