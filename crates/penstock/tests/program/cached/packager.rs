//! Live streams that ffmpeg makes in real time, played through the edge by ffmpeg.

use std::path::Path;
use std::process::{Command, Stdio};

use penstock_testkit::origin::{Origin, answer, target};
use penstock_testkit::{Client, Process, Tool, until};
use tempfile::TempDir;

use super::Edge;

/// A packager that writes into a directory until it is dropped.
struct Packager {
    /// Ends before its directory is removed.
    _ffmpeg: Process,
    directory: TempDir,
}

impl Packager {
    fn start(manifest: &str, options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg
            .args("-hide_banner -loglevel error -re -f lavfi -i testsrc2=size=160x90:rate=10".split(' '))
            .args("-c:v libx264 -preset ultrafast -g 10 -keyint_min 10 -sc_threshold 0 -b:v 100k".split(' '))
            .args(options.split(' '))
            .arg(directory.path().join(manifest))
            .stdin(Stdio::null());
        let ffmpeg = Process::spawn(&mut ffmpeg).expect("ffmpeg runs: scripts/install-needs test");
        Self { directory, _ffmpeg: ffmpeg }
    }

    /// A file server in front of what it writes.
    fn origin(&self) -> Origin {
        let root = self.directory.path().to_owned();
        Origin::start(move |head, _, stream| {
            let target = target(head);
            match std::fs::read(root.join(target.trim_start_matches('/'))) {
                Ok(body) => answer(stream, "200 OK", "", &body),
                Err(_) => answer(stream, "404 Not Found", "Cache-Control: max-age=3600\r\n", b"not yet"),
            }
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// How often the origin was asked for each segment that it had.
fn segments(origin: &Origin, suffix: &str) -> Vec<(String, usize)> {
    let asked = origin.asked();
    let mut targets: Vec<_> = asked.iter().filter_map(|head| head.split(' ').nth(1)).collect();
    targets.retain(|target| target.ends_with(suffix));
    targets.sort_unstable();
    targets.chunk_by(|one, other| one == other).map(|same| (same[0].to_owned(), same.len())).collect()
}

fn plays(edge: &Edge, manifest: &str) {
    Tool::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-i"])
        .arg(format!("http://{}/{manifest}", edge.server.http()))
        .args(["-t", "3", "-f", "null", "-"])
        .run()
        .ok();
}

#[test]
fn a_live_hls_stream_is_played_and_each_segment_is_fetched_once() {
    let packager = Packager::start("live.m3u8", "-f hls -hls_time 1 -hls_list_size 6");
    until("the first segments", || packager.path().join("live2.ts").exists().then_some(()));
    let origin = packager.origin();
    let edge = Edge::of(&origin);
    plays(&edge, "live.m3u8");
    plays(&edge, "live.m3u8");
    let mut client = Client::plain(&edge.server);
    let playlist = client.get("/live.m3u8").text().to_owned();
    for name in playlist.lines().filter(|line| line.ends_with(".ts")) {
        let written = std::fs::read(packager.path().join(name)).unwrap();
        assert!(client.get(&format!("/{name}")).body == written, "{name}");
    }
    until("the stream goes on", || (client.get("/live.m3u8").text() != playlist).then_some(()));
    let segments = segments(&origin, ".ts");
    assert!(segments.len() >= 4 && segments.iter().all(|(_, times)| *times == 1), "{segments:?}");
    assert!(edge.server.metrics().sum("penstock_manifests_total", &["hls_live"]) >= 2.0);
}

#[test]
fn a_live_dash_stream_is_played_through_the_edge() {
    let packager = Packager::start("live.mpd", "-f dash -seg_duration 1 -window_size 6 -update_period 1");
    until("the first segments", || packager.path().join("chunk-stream0-00003.m4s").exists().then_some(()));
    let origin = packager.origin();
    let edge = Edge::of(&origin);
    plays(&edge, "live.mpd");
    let mut client = Client::plain(&edge.server);
    let first = client.get("/live.mpd").text().to_owned();
    assert!(first.contains("minimumUpdatePeriod"), "{first}");
    until("the stream goes on", || (client.get("/live.mpd").text() != first).then_some(()));
    let missing = client.get("/chunk-stream0-99999.m4s");
    assert_eq!(missing.status, 404);
    let asked = origin.asked().len();
    until("it is asked for again soon", || {
        client.get("/chunk-stream0-99999.m4s");
        (origin.asked().len() > asked).then_some(())
    });
    assert!(edge.server.metrics().sum("penstock_manifests_total", &["dash_live"]) >= 2.0);
}
