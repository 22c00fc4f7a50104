//! How fast responses are sent. A slow machine is slower than the pace, and none is faster: tests assert the least time alone.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Content, Server, Setup, Tool, memory_directory};

const LENGTH: u64 = 700_000;
/// Pieces are a quarter of a second: what is behind the last piece has no time of its own.
const PACE: &str = "pace: {after: 200000, rate: 400000}";
const LEAST: Duration = Duration::from_millis(1000);

/// Fetches with curl, and returns the bytes and the time.
fn fetch(server: &Server, arguments: &[&str], url: &str) -> (Vec<u8>, Duration) {
    let begun = Instant::now();
    let content = Tool::curl(server).args(arguments.iter().copied()).arg(url).run().ok().stdout;
    (content, begun.elapsed())
}

#[test]
fn files_are_sent_no_faster_than_their_pace_over_each_protocol() {
    let setup = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
    let sites = format!("- origin: {{directory: root}}\n  routes:\n  - {{path: \"*.mp4\", {PACE}}}");
    let server = setup.sites(&sites).start();
    let file = server.file("film.mp4", LENGTH);
    server.write("a.txt", "text");
    for (arguments, url) in [
        (&["--http1.1"][..], server.plain_url("/film.mp4")),
        (&["--http1.1"], server.url("/film.mp4")),
        (&["--http2"], server.url("/film.mp4")),
    ] {
        let (content, time) = fetch(&server, arguments, &url);
        file.assert_range(0..LENGTH, &content);
        assert!(time >= LEAST, "{arguments:?}: {time:?}");
    }
    // What may be sent at once is as long as the range.
    let (content, _) = fetch(&server, &["--http2", "-r", "1000-100999"], &server.url("/film.mp4"));
    file.assert_range(1000..101_000, &content);
    if crate::http3::has_client() {
        let begun = Instant::now();
        let content = crate::http3::content(&server, "/film.mp4");
        assert!(begun.elapsed() >= LEAST);
        file.assert_range(0..LENGTH, &content);
    }
}

#[test]
fn objects_and_relayed_bodies_are_sent_no_faster_than_their_pace() {
    let content = Content::new(3, LENGTH);
    let whole = content.all();
    let origin = Origin::start(move |_, _, stream| {
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", &whole)
    });
    let memory = memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}/tier, size: 64MiB}}}}", memory.path().display());
    for off in ["", ", cache: off"] {
        let sites = format!("- origin: {{http: [\"{}\"]{off}}}\n  {PACE}", origin.url());
        let setup = Setup::new().sites(&sites);
        let server = if off.is_empty() { setup.section(&cache).start() } else { setup.start() };
        // The first is a miss, the others are hits.
        for arguments in [["--http1.1"], ["--http2"], ["--http1.1"]] {
            let (found, time) = fetch(&server, &arguments, &server.url("/film"));
            content.assert_range(0..LENGTH, &found);
            assert!(time >= LEAST, "{arguments:?} {off}: {time:?}");
        }
    }
}

#[test]
fn responses_of_a_client_share_its_bandwidth_and_far_too_many_are_refused() {
    // Pieces of 100,000 bytes; a second of it may be sent at once.
    let limits = "limits: {bandwidth: 400000}";
    let server = Setup::new().sites(&format!("- origin: {{directory: root}}\n  {limits}")).start();
    let file = server.file("film.mp4", LENGTH);
    let begun = Instant::now();
    thread::scope(|scope| {
        for protocol in ["--http1.1", "--http2"] {
            let (server, file) = (&server, &file);
            scope.spawn(move || {
                let (content, _) = fetch(server, &[protocol], &server.url("/film.mp4"));
                file.assert_range(0..LENGTH, &content);
            });
        }
    });
    // 1,400,000 bytes, 400,000 of them at once, the last pieces without a time of their own.
    assert!(begun.elapsed() >= Duration::from_millis(2000), "{:?}", begun.elapsed());
    // Short responses wait for nothing, and count: 4,800,000 bytes are more than eleven seconds.
    server.file("short.mp4", 100_000);
    let statuses = (0..48).map(|_| Client::plain(&server).get("/short.mp4").status);
    let statuses: Vec<u16> = statuses.collect();
    assert_eq!(statuses[..30], [200; 30]);
    if statuses.contains(&429) {
        let refused = Client::plain(&server).get("/short.mp4");
        assert!(refused.status == 200 || refused.field("Retry-After").is_some());
        let refusals =
            server.metrics().sum("penstock_request_rejections_total", &["reason=\"client_bandwidth\""]);
        assert!(refusals >= 1.0);
    } else {
        // The machine took longer for them than they have.
        assert!(begun.elapsed() > Duration::from_secs(10));
    }
}

#[test]
fn a_paced_response_does_not_hold_others_of_its_connection() {
    let sites = "- origin: {directory: root}\n  routes:\n  - {path: \"*.mp4\", pace: {rate: 1KiB}}";
    let server = Setup::new().sites(sites).start();
    server.file("film.mp4", LENGTH);
    let file = server.file("a.bin", 300_000);
    // The paced one takes eleven minutes, and ends with the connection.
    let out = server.directory().join("a.out");
    let curl = Tool::curl(&server).args(["--http2", "--parallel", "--max-time", "20", "--fail-early"]);
    let curl = curl.args(["-o", "/dev/null", &server.url("/film.mp4"), "-o"]).arg(&out);
    let running = curl.arg(server.url("/a.bin")).start();
    penstock_testkit::until("the other file", || {
        std::fs::read(&out).ok().filter(|content| content.len() == 300_000)
    });
    drop(running);
    file.assert_range(0..300_000, &std::fs::read(&out).unwrap());
    assert!(
        server.access_log().iter().all(|line| line["target"] != "/film.mp4" || line["outcome"] != "complete")
    );
}

/// A film of four seconds in MP4, whose `moov` is in front of its pictures or behind them.
fn film(path: &Path, flags: &str) -> Vec<u8> {
    let source = "testsrc2=size=320x240:rate=25:duration=4";
    let encoder = ["-c:v", "mpeg4", "-b:v", "800k", "-movflags", flags, "-f", "mp4"];
    Tool::new("ffmpeg").args(["-v", "error", "-f", "lavfi", "-i", source]).args(encoder).arg(path).run().ok();
    std::fs::read(path).unwrap()
}

#[test]
fn films_are_sent_at_a_multiple_of_their_bitrate_from_files_and_from_the_cache() {
    // Four seconds at twice the bitrate, without the last piece; two pieces to spare.
    const LEAST: Duration = Duration::from_millis(1500);
    let files = Setup::new().sites("- origin: {directory: root}\n  pace: {rate: 2x}").start();
    let memory = memory_directory();
    for (name, flags) in [("front.mp4", "+faststart"), ("behind.mp4", "0")] {
        let bytes = film(&files.root().join(name), flags);
        let moov = bytes.windows(4).position(|window| window == b"moov");
        assert_eq!(moov < Some(bytes.len() / 2), name == "front.mp4");
        let (content, time) = fetch(&files, &["--http2"], &files.url(&format!("/{name}")));
        assert!(content == bytes && time >= LEAST, "{name}: {time:?}");
        let directory = memory.path().join(name);
        let cache = format!("cache: {{memory: {{directory: {}, size: 64MiB}}}}", directory.display());
        let body = bytes.clone();
        let origin = Origin::start(move |_, _, stream| {
            answer(stream, "200 OK", "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", &body)
        });
        let sites = format!("- origin: {{http: [\"{}\"]}}\n  pace: {{rate: 2x}}", origin.url());
        let server = Setup::new().sites(&sites).section(&cache).start();
        // The first is a miss, whose last bytes may not be there when it begins.
        let (content, _) = fetch(&server, &["--http1.1"], &server.url("/film"));
        assert!(content == bytes);
        let (content, time) = fetch(&server, &["--http1.1"], &server.url("/film"));
        assert!(content == bytes && time >= LEAST, "{name} from the cache: {time:?}");
    }
    // What says no time is sent without a pace; else it would take longer than curl waits.
    files.file("noise.mp4", 20_000_000);
    fetch(&files, &["--http1.1"], &files.url("/noise.mp4"));
}
