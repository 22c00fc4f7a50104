//! Players against our own server. What they do in which case is tested with the players' policy; here bytes flow.

use serde_json::Value;

use crate::command::{count, report};
use crate::harness::{Server, Setup};
use crate::scripted::{Scripted, read_request};

/// A film of five segments of a fifth of a second, in two qualities; returns the bytes of a segment of each.
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
fn what_is_no_manifest_is_named_and_nobody_waits_for_it_for_ever() {
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
