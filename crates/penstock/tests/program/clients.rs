//! Programs that people use: curl, wget, jq, ffmpeg. They fetch, resume, and play.

use std::fs;

use penstock_testkit::{Relay, Server, Setup, Tool};

#[test]
fn curl_fetches_over_both_versions_and_reuses_its_connection() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 3_000_000);
    for version in ["1.2", "1.3"] {
        let curl = Tool::curl(&server).arg(format!("--tlsv{version}")).args(["--tls-max", version]);
        let curl = curl.args(["-w", "%{num_connects} %{http_version} %{ssl_verify_result}\n"]);
        let curl = curl.directory(server.directory()).args(["--remote-name-all", "--output-dir", "fetched"]);
        let curl = curl.arg("--create-dirs").args([server.url("/clip.mp4"), server.url("/clip.mp4")]);
        assert_eq!(curl.run().ok().text(), "1 1.1 0\n0 1.1 0\n", "{version}");
        file.assert_file(&server.directory().join("fetched/clip.mp4"));
    }
}

#[test]
fn curl_fetches_ranges() {
    let server = Setup::new().start();
    let file = server.file("clip.mp4", 100_000);
    for (range, expected) in [
        ("0-0", 0..1),
        ("500-69999", 500..70_000),
        ("99999-", 99_999..100_000),
        ("70000-", 70_000..100_000),
        ("-1", 99_999..100_000),
        ("-40000", 60_000..100_000),
        ("90000-200000", 90_000..100_000),
        ("-200000", 0..100_000),
    ] {
        let curl = Tool::curl(&server).args(["-r", range, "--dump-header", "/dev/stderr"]);
        let finished = curl.arg(server.url("/clip.mp4")).run().ok();
        let content_range = format!("Content-Range: bytes {}-{}/100000", expected.start, expected.end - 1);
        assert!(finished.stderr.starts_with("HTTP/1.1 206 "), "{range}: {}", finished.stderr);
        assert!(finished.stderr.contains(&content_range), "{range}: {}", finished.stderr);
        file.assert_range(expected, &finished.stdout);
    }
}

#[test]
fn curl_asks_for_heads_and_options() {
    let server = Setup::new().start();
    server.file("clip.mp4", 100_000);
    // A body in a response that has none makes curl wait or complain about the next response.
    let curl = Tool::curl(&server).arg("--head").args([server.url("/clip.mp4"), server.url("/none.mp4")]);
    let heads = curl.args(["-w", "%{num_connects} %{size_download}\n"]).run().ok().text();
    assert!(heads.contains("Content-Length: 100000\r\n"), "{heads}");
    assert!(heads.contains("\r\n\r\n1 0\n") && heads.ends_with("\r\n\r\n0 0\n"), "{heads}");
    let curl = Tool::curl(&server).args(["-X", "OPTIONS", "-w", "%{http_code} %header{allow}"]);
    assert_eq!(curl.arg(server.url("/clip.mp4")).run().ok().text(), "204 GET, HEAD, OPTIONS");
}

#[test]
fn curl_resumes_a_broken_download() {
    let server = Setup::new().start();
    let file = server.file("film.mp4", 9_000_000);
    let relay = Relay::to(server.https(), &[Some(2_500_000)]);
    let film = server.directory().join("film.mp4");
    let fetch = |port: u16| {
        let curl = Tool::curl(&server).args(["-C", "-", "-w", "%{http_code}", "-o"]).arg(&film);
        curl.arg(format!("https://localhost:{port}/film.mp4")).run()
    };
    // 56: the connection was cut; 18: it ended early.
    let code = fetch(relay.port()).code;
    assert!([18, 56].contains(&code), "curl ended with {code}");
    let arrived = fs::metadata(&film).unwrap().len();
    assert!(arrived > 0 && arrived < file.len, "{arrived} bytes arrived");
    assert_eq!(fetch(server.https().port()).ok().text(), "206");
    file.assert_file(&film);
    // There is nothing left to ask for.
    assert_eq!(fetch(server.https().port()).text(), "416");
    file.assert_file(&film);
}

#[test]
fn curl_does_not_take_a_resumed_file_that_has_changed_for_the_old_one() {
    let server = Setup::new().start();
    let old = server.file("film.mp4", 100_000);
    let curl = Tool::curl(&server).args(["-r", "0-49999", "--dump-header", "/dev/stderr"]);
    let first = curl.arg(server.url("/film.mp4")).run().ok();
    old.assert_range(0..50_000, &first.stdout);
    let tag = first.stderr.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().to_owned();
    let resume = || {
        let curl = Tool::curl(&server).args(["-r", "50000-", "-H"]).arg(format!("If-Range: {tag}"));
        curl.arg(server.url("/film.mp4")).run().ok().stdout
    };
    old.assert_range(50_000..100_000, &resume());
    let new = server.file("film.mp4", 100_000);
    let whole =
        penstock_testkit::until("the whole new file", || Some(resume()).filter(|body| body.len() > 50_000));
    new.assert_range(0..100_000, &whole);
}

#[test]
fn wget_fetches_and_continues_by_itself() {
    let server = Setup::new().start();
    let file = server.file("film.mp4", 9_000_000);
    // The first connection is cut, the second is not.
    let relay = Relay::to(server.https(), &[Some(2_500_000), None]);
    let url = format!("https://localhost:{}/film.mp4", relay.port());
    let finished = wget(&server, &["--tries=2", "--waitretry=0"], &url).ok();
    assert!(finished.stderr.contains("206 Partial Content"), "{}", finished.stderr);
    file.assert_file(&server.directory().join("film.mp4"));
}

#[test]
fn wget_continues_an_older_download() {
    let server = Setup::new().start();
    let file = server.file("film.mp4", 3_000_000);
    let film = server.directory().join("film.mp4");
    fs::write(&film, file.bytes(0..1_234_567)).unwrap();
    let finished = wget(&server, &["--continue"], &server.url("/film.mp4")).ok();
    assert!(finished.stderr.contains("206 Partial Content"), "{}", finished.stderr);
    file.assert_file(&film);
    let finished = wget(&server, &["--continue"], &server.url("/film.mp4")).ok();
    assert!(finished.stderr.contains("416 Range Not Satisfiable"), "{}", finished.stderr);
    file.assert_file(&film);
}

#[test]
fn wget_skips_what_has_not_changed() {
    let server = Setup::new().start();
    server.file("film.mp4", 3000);
    wget(&server, &["--timestamping"], &server.url("/film.mp4")).ok();
    let finished = wget(&server, &["--timestamping"], &server.url("/film.mp4")).ok();
    assert!(finished.stderr.contains("304 Not Modified"), "{}", finished.stderr);
}

#[test]
fn ffmpeg_plays_hls_in_fragmented_mp4_from_start_to_end() {
    plays(&["-hls_segment_type", "fmp4"]);
}

#[test]
fn ffmpeg_plays_hls_in_transport_streams_from_start_to_end() {
    plays(&["-hls_segment_type", "mpegts"]);
}

#[test]
fn ffprobe_seeks_in_one_long_file() {
    let server = Setup::new().start();
    let film = server.path("film.mp4");
    // The index at the end of the file: the player has to jump there and back.
    let arguments = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-c:a", "aac"];
    test_film().args(arguments).arg(&film).run().ok();
    let probe = ffmpeg("ffprobe").args(["-show_entries", "format=duration", "-of", "csv=p=0"]);
    let finished = probe.arg(server.url("/film.mp4")).run().ok();
    assert_eq!((&*finished.text(), &*finished.stderr), ("5.000000\n", ""));
    let frames = frames(&["-ss", "3"], &server.url("/film.mp4"));
    assert_eq!(frames, 20, "frames of the last two seconds");
}

fn plays(segments: &[&str]) {
    let server = Setup::new().start();
    let arguments = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-c:a", "aac"];
    let film = test_film().args(arguments).args(["-f", "hls", "-hls_time", "1"]);
    let film = film.args(["-hls_playlist_type", "vod"]).args(segments);
    film.directory(&server.root()).arg("index.m3u8").run().ok();
    for url in [server.url("/index.m3u8"), server.plain_url("/index.m3u8")] {
        assert_eq!(frames(&[], &url), 50, "{url}");
    }
    let metrics = server.metrics();
    let requests = |status| metrics.sum("penstock_requests_total", &[status]);
    assert_eq!(requests("status=\"4xx\"") + requests("status=\"5xx\""), 0.0);
}

/// Decodes all frames of the picture and counts them; the sound is decoded too. Whatever ffmpeg complains of fails
/// the test.
pub(crate) fn frames(arguments: &[&str], url: &str) -> usize {
    let player =
        ffmpeg("ffmpeg").args(arguments).args(["-i", url, "-map", "0:v", "-f", "framecrc", "pipe:1"]);
    let finished = player.args(["-map", "0:a", "-f", "null", "/dev/null"]).run().ok();
    assert_eq!(finished.stderr, "", "{url}");
    finished.text().lines().filter(|line| !line.starts_with('#')).count()
}

/// Five seconds of moving picture, ten frames each, and sound.
pub(crate) fn test_film() -> Tool {
    let picture = ["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=10:duration=5"];
    let sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=5", "-t", "5"];
    ffmpeg("ffmpeg").args(picture).args(sound)
}

fn ffmpeg(program: &str) -> Tool {
    Tool::new(program).args(["-hide_banner", "-loglevel", "warning"])
}

/// wget into the server's own directory.
fn wget(server: &Server, arguments: &[&str], url: &str) -> penstock_testkit::Finished {
    let wget = Tool::new("wget").args(["--no-config", "--no-verbose", "--server-response", "--no-hsts"]);
    let wget = wget.arg("--timeout=20").arg("--ca-certificate").arg(server.certificates().authority());
    wget.directory(server.directory()).args(arguments).arg(url).run()
}
