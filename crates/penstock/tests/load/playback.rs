//! Players against Penstock. Their decisions are tested with the policy of players; here bytes flow.

mod audio;
mod indexed;
mod low_latency;

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{count, load, report};
use crate::scripted::{Scripted, read_path, read_request};
use penstock_testkit::{Server, Setup, until};

/// A film of five segments of 0.2 s, in two renditions. Returns the size of a segment of each.
fn film(server: &Server) -> [u64; 2] {
    server.write(
        "film/index.m3u8",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=100000\nlow/index.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=900000\nhigh/index.m3u8\n",
    );
    [("low", 2_500), ("high", 22_500)].map(|(level, bytes)| {
        let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n".to_owned();
        for number in 0..5 {
            list.push_str(&format!("#EXTINF:0.2,\n{number}.ts\n"));
            server.write(&format!("film/{level}/{number}.ts"), vec![b'x'; usize::try_from(bytes).unwrap()]);
        }
        server.write(&format!("film/{level}/index.m3u8"), list + "#EXT-X-ENDLIST\n");
        bytes
    })
}

fn play(server: &Server, options: &[&str]) -> Value {
    let authority = server.certificates().authority().display().to_string();
    let url = server.url("/film/index.m3u8");
    let report = report(&[&["playback", "--ca", &authority, "--start", "200ms", &url], options].concat());
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    report
}

#[test]
fn every_viewer_sees_the_whole_film_on_one_connection() {
    let server = Setup::new().start();
    let [low, high] = film(&server);
    for (quality, bytes) in [("lowest", low), ("highest", high)] {
        let report = play(&server, &["--viewers", "3", "--requests", "3", "--quality", quality]);
        assert_eq!(count(&report, "playback.players"), 3);
        assert_eq!(count(&report, "playback.players_started"), 3);
        assert_eq!(count(&report, "playback.segments"), 15);
        assert_eq!(count(&report, "playback.startup_ms.count"), 3);
        assert_eq!(count(&report, "connections_opened"), 3);
        // Two manifests and five segments each.
        assert_eq!(count(&report, "requests"), 21, "{report:#}");
        let played = report["playback"]["played_seconds"].as_f64().unwrap();
        assert!((played - 3.0).abs() < 0.01, "three times one second: {played}");
        let manifests = std::fs::metadata(server.path("film/index.m3u8")).unwrap().len();
        let level = if quality == "lowest" { "low" } else { "high" };
        let media = std::fs::metadata(server.path(&format!("film/{level}/index.m3u8"))).unwrap().len();
        assert_eq!(count(&report, "bytes"), 3 * (manifests + media + 5 * bytes));
    }
}

#[test]
fn in_a_storm_all_leave_and_others_come() {
    let server = Setup::new().start();
    film(&server);
    let options = ["--viewers", "2", "--requests", "6", "--storm", "300ms", "--quality", "lowest"];
    let report = play(&server, &options);
    assert_eq!(count(&report, "playback.players"), 6, "{report:#}");
}

#[test]
fn a_body_that_is_no_manifest_is_reported_and_does_not_hold_up_the_run() {
    let server = Scripted::start(|mut stream, _| {
        crate::scripted::answer_all(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    });
    let url = server.url("http");
    let report = report(&["playback", "--requests", "1", "--watch", "2500ms", &url]);
    assert!(count(&report, "errors.manifest_invalid") > 0, "{report:#}");
    assert_eq!(count(&report, "playback.players_started"), 0);
}

#[test]
fn a_viewer_whose_time_is_up_leaves_a_server_that_is_silent() {
    let server = Scripted::start(|mut stream, _| {
        read_request(&mut stream);
        read_request(&mut stream);
    });
    let url = server.url("http");
    let report = report(&["playback", "--viewers", "2", "--duration", "1s", &url]);
    assert_eq!(count(&report, "playback.players"), 2, "{report:#}");
    assert_eq!(count(&report, "unfinished"), 0);
}

#[test]
fn a_film_of_dash_is_watched_with_its_sound() {
    let server = Setup::new().start();
    server.write(
        "film/manifest.mpd",
        r#"<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S">
        <Period><AdaptationSet contentType="video"><SegmentTemplate timescale="10" startNumber="1" media="v$Number$.m4s"
          initialization="v.mp4"><SegmentTimeline><S t="0" d="2" r="4"/></SegmentTimeline></SegmentTemplate>
          <Representation id="v" bandwidth="100000"/></AdaptationSet>
        <AdaptationSet contentType="audio"><SegmentTemplate timescale="10" duration="5" media="a$Number$.m4s"
          initialization="a.mp4"/><Representation id="a" bandwidth="1000"/></AdaptationSet></Period></MPD>"#,
    );
    for name in ["v.mp4", "v1.m4s", "v2.m4s", "v3.m4s", "v4.m4s", "v5.m4s", "a.mp4", "a1.m4s", "a2.m4s"] {
        server.write(&format!("film/{name}"), vec![b'x'; 1000]);
    }
    let authority = server.certificates().authority().display().to_string();
    let url = server.url("/film/manifest.mpd");
    let options =
        ["playback", "--ca", &authority, "--start", "200ms", "--viewers", "2", "--requests", "2", &url];
    let report = report(&options);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 10, "{report:#}");
    // The description, two init segments, five segments of video and two of audio, for each viewer.
    assert_eq!(count(&report, "requests"), 2 * (1 + 2 + 5 + 2), "{report:#}");
}

#[test]
fn segments_of_another_server_are_fetched_there() {
    let (here, there) = (Setup::new().start(), Setup::new().start());
    let list = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.2,\n{}\n#EXTINF:0.2,\nown.ts\n#EXT-X-ENDLIST\n",
        there.url("/far.ts")
    );
    here.write("film/index.m3u8", list);
    here.write("film/own.ts", vec![b'x'; 1000]);
    there.write("far.ts", vec![b'x'; 500]);
    let url = here.url("/film/index.m3u8");
    // Each server has its own authority.
    let report = report(&["playback", "--insecure", "--start", "200ms", "--requests", "1", &url]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.segments"), 2, "{report:#}");
    assert_eq!(count(&report, "connections_opened"), 2, "{report:#}");
}

#[test]
fn a_segment_that_comes_too_late_is_one_stall_for_each_viewer() {
    // Five segments of 200 ms; the fourth is sent long after the others have played.
    const SENT: Duration = Duration::from_millis(3 * 200);
    let server = Scripted::start(|mut stream, _| {
        let mut began = None;
        while let Some(path) = read_path(&mut stream) {
            let body = if path.ends_with("index.m3u8") {
                let list: String = (0..5).map(|number| format!("#EXTINF:0.2,\n{number}.ts\n")).collect();
                format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{list}#EXT-X-ENDLIST\n")
            } else {
                "x".repeat(100)
            };
            let began = *began.get_or_insert_with(Instant::now);
            if path.ends_with("3.ts") {
                until("the others to have played", || (began.elapsed() > 5 * SENT).then_some(()));
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}/index.m3u8", server.address);
    let report = report(&["playback", "--viewers", "2", "--requests", "2", "--start", "600ms", &url]);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(count(&report, "playback.stalls"), 2, "{report:#}");
    assert_eq!(count(&report, "playback.players_stalled"), 2, "{report:#}");
}

#[test]
fn a_run_in_which_no_viewer_saw_a_picture_ends_with_1() {
    let server = Scripted::start(|mut stream, _| {
        while let Some(path) = read_path(&mut stream) {
            let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.ts\n#EXT-X-ENDLIST\n";
            let (status, body) = match path.as_str() {
                "/missing.m3u8" => ("200 OK", list),
                _ => ("404 Not Found", ""),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    });
    // The manifest is good and all segments are missing.
    let url = format!("http://{}/missing.m3u8", server.address);
    let missing = load(&["playback", "--requests", "1", "--watch", "1500ms", &url]).exits_with(1);
    assert!(missing.stderr.contains("no viewer saw a picture: "), "{}", missing.stderr);
    assert!(missing.stderr.contains("status_4xx"), "{}", missing.stderr);

    // Nothing fails, and the run ends before the first segment.
    let silent = Scripted::start(|mut stream, _| {
        while let Some(path) = read_path(&mut stream) {
            let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.ts\n#EXT-X-ENDLIST\n";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len());
            if path == "/a.ts" {
                read_request(&mut stream);
                return;
            }
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}/index.m3u8", silent.address);
    let early = load(&["playback", "--duration", "500ms", &url]).exits_with(1);
    assert!(early.stderr.contains("no viewer saw a picture: 1 requests were answered"), "{}", early.stderr);
}

#[test]
fn a_manifest_without_an_end_is_given_up() {
    let (given_up, seen) = std::sync::mpsc::channel();
    let server = Scripted::start(move |mut stream, _| {
        read_request(&mut stream);
        let mut is_taken =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n#EXTM3U\n").is_ok();
        while is_taken {
            is_taken = stream.write_all(&b"#EXTINF:1,\na.ts\n".repeat(4096)).is_ok();
        }
        given_up.send(()).unwrap();
    });
    let url = format!("http://{}/index.m3u8", server.address);
    let report = report(&["playback", "--requests", "1", "--watch", "20s", &url]);
    assert!(count(&report, "errors.manifest_invalid") > 0, "{report:#}");
    assert!(count(&report, "bytes") < 400_000_000, "{report:#}");
    seen.recv_timeout(Duration::from_secs(60)).unwrap();
}
