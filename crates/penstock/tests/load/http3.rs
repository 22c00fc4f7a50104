//! HTTP/3, against Penstock.

use std::net::UdpSocket;

use boring::sha::sha256;
use serde_json::Value;

use penstock_testkit::{Server, Setup};

use crate::command::{count, load, report};

fn server() -> Server {
    Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]).start()
}

/// Runs a mode over HTTP/3 with the certificate verified.
fn run_all(server: &Server, mode: &str, path: &str, options: &[&str]) -> Value {
    let authority = server.certificates().authority().display().to_string();
    report(&[&[mode, "--protocol", "h3", "--ca", &authority, &server.url(path)], options].concat())
}

/// The same without a failure.
fn run(server: &Server, mode: &str, path: &str, options: &[&str]) -> Value {
    let report = run_all(server, mode, path, options);
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    assert_eq!(report["protocol"], "h3");
    report
}

#[test]
fn requests_share_a_connection_over_quic_and_the_server_counts_the_same() {
    let server = server();
    let files: Vec<_> = (0..3).map(|number| server.file(&number.to_string(), 1000 + number)).collect();
    let options = ["--requests", "300", "--streams", "20", "--objects", "3", "--checksum"];
    let report = run(&server, "requests", "/{}", &options);
    assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (300, 1));
    assert_eq!(count(&report, "bytes"), 100 * files.iter().map(|file| file.len).sum::<u64>());
    assert_eq!((count(&report, "latency_ms.tls.count"), count(&report, "latency_ms.tcp.count")), (1, 0));
    let agreed = report["agreed"].as_object().unwrap();
    assert!(agreed.keys().all(|name| name.starts_with("TLSv1.3 ") && name.ends_with(" h3")), "{agreed:?}");
    server.counted("penstock_http_requests_total", &["version=\"h3\""], 300.0);
}

#[test]
fn each_connection_has_its_streams_and_each_request_may_have_its_connection() {
    let server = server();
    server.file("small", 100);
    let shared = ["--requests", "200", "--connections", "4", "--threads", "2", "--streams", "5"];
    let report = run(&server, "requests", "/small", &shared);
    assert_eq!((count(&report, "requests"), count(&report, "connections_opened")), (200, 4));
    let each = run(&server, "requests", "/small", &["--requests", "10", "--no-keepalive"]);
    assert_eq!((count(&each, "requests"), count(&each, "connections_opened")), (10, 10));
    let handshakes = run(&server, "handshakes", "/small", &["--requests", "10", "--ending", "reset"]);
    assert_eq!((count(&handshakes, "requests"), count(&handshakes, "handshakes")), (10, 10));
    let rate = ["--requests", "50", "--streams", "5", "--rate", "500"];
    assert_eq!(count(&run(&server, "requests", "/small", &rate), "requests"), 50);
    // The server allows 128 streams at once: others wait.
    let many = ["--requests", "1000", "--streams", "300"];
    assert_eq!(count(&run(&server, "requests", "/small", &many), "connections_opened"), 1);
}

#[test]
fn bodies_larger_than_the_windows_are_read_to_their_last_byte() {
    let server = server();
    let bytes = 40_000_000;
    let file = server.file("film", bytes);
    let digits: String = sha256(&file.all()).iter().map(|byte| format!("{byte:02x}")).collect();
    let options = ["--requests", "4", "--streams", "2", "--sha256", &digits];
    let report = run(&server, "download", "/film", &options);
    assert_eq!((count(&report, "bytes"), count(&report, "connections_opened")), (4 * bytes, 1));
    // The window of a paced body is that of one second, and is given back as it is read.
    let paced = ["--requests", "2", "--streams", "2", "--bitrate", "400Mbit", "--sha256", &digits];
    assert_eq!(count(&run(&server, "download", "/film", &paced), "bytes"), 2 * bytes);
}

#[test]
fn packets_are_acknowledged_as_often_as_asked() {
    let server = server();
    server.file("film", 4_000_000);
    run(&server, "download", "/film", &["--requests", "1", "--ack-every", "2"]);
    server.counted("penstock_connections", &["protocol=\"https\""], 0.0);
    let packets = |which: &str| server.metrics().sum(&format!("penstock_quic_packets_{which}_total"), &[]);
    let (sent, received) = (packets("sent"), packets("received"));
    assert!(sent > 2000.0 && received > sent / 3.0, "{sent} packets, {received} received");
}

#[test]
fn heads_bring_no_bytes_and_a_missing_file_is_an_error() {
    let server = server();
    server.file("film", 100_000);
    let heads = run(&server, "requests", "/film", &["--requests", "5", "--method", "HEAD"]);
    assert_eq!((count(&heads, "requests"), count(&heads, "bytes")), (5, 0));
    let missing = run_all(&server, "requests", "/missing", &["--requests", "3"]);
    assert_eq!(count(&missing, "errors.status_4xx"), 3, "{missing:#}");
}

#[test]
fn a_ticket_of_quic_is_resumed() {
    let server = server();
    server.file("small", 100);
    let options = ["--requests", "10", "--resume", "ticket"];
    let report = run(&server, "handshakes", "/small", &options);
    assert_eq!((count(&report, "resumed"), count(&report, "sessions_offered")), (9, 9), "{report:#}");
}

#[test]
fn requests_in_early_data_are_answered() {
    let setup = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]);
    let certificates = penstock_testkit::Certificates::yaml(&["ec"]);
    let server = setup.tls(&format!("{certificates}\nearly_data: {{anti_replay: false}}")).start();
    server.file("small", 100);
    let report = run(&server, "handshakes", "/small", &["--requests", "10", "--resume", "early-data"]);
    assert_eq!((count(&report, "requests"), count(&report, "bytes")), (10, 1000));
    assert_eq!(count(&report, "early_data_accepted"), 9, "{report:#}");
}

#[test]
fn a_viewer_fetches_everything_over_one_connection() {
    let server = server();
    let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n".to_owned();
    for number in 0..5 {
        server.file(&format!("video{number}.ts"), 2500);
        list.push_str(&format!("#EXTINF:0.2,\nvideo{number}.ts\n"));
    }
    server.write("video.m3u8", &(list + "#EXT-X-ENDLIST\n"));
    let options = ["--viewers", "3", "--requests", "3", "--start", "200ms"];
    let report = run(&server, "playback", "/video.m3u8", &options);
    assert_eq!(count(&report, "playback.players_started"), 3, "{report:#}");
    assert_eq!(count(&report, "connections_opened"), 3, "{report:#}");
    assert_eq!(count(&report, "requests"), 3 * 6, "{report:#}");
}

#[test]
fn a_server_without_quic_and_an_authority_that_is_not_trusted_are_told_apart() {
    let closed = penstock_testkit::unused_address();
    let url = format!("https://{closed}/");
    let refused = report(&["requests", "--protocol", "h3", "--requests", "1", &url]);
    assert_eq!(count(&refused, "errors.connect_refused"), 1, "{refused:#}");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let unanswered = report(&["requests", "--protocol", "h3", "--requests", "1", "--timeout", "200ms", &url]);
    assert_eq!(count(&unanswered, "errors.connect_timeout"), 1, "{unanswered:#}");
    let server = server();
    server.file("small", 100);
    let untrusted = report(&["requests", "--protocol", "h3", "--requests", "1", &server.url("/small")]);
    assert_eq!(count(&untrusted, "errors.certificate_rejected"), 1, "{untrusted:#}");
}

#[test]
fn options_that_quic_has_no_place_for_are_refused() {
    for (arguments, part) in [
        (&["requests", "http://127.0.0.1:1/"][..], "write an https:// URL"),
        (&["requests", "https://127.0.0.1:1/", "--tls", "1.2"], "leave --tls 1.2 out"),
        (&["requests", "https://127.0.0.1:1/", "--resume", "id"], "write --resume ticket"),
        (&["requests", "https://127.0.0.1:1/", "--sessions", "/tmp/none"], "leave --sessions out"),
        (&["requests", "https://127.0.0.1:1/", "--header", "Connection: close"], "HTTP/3 has no such field"),
    ] {
        let finished = load(&[arguments, &["--protocol", "h3"]].concat()).exits_with(2);
        assert!(finished.stderr.contains(part), "{arguments:?}: {}", finished.stderr);
    }
    let finished = load(&["requests", "--ack-every", "2", "https://127.0.0.1:1/"]).exits_with(2);
    assert!(finished.stderr.contains("TCP acknowledges by itself"), "{}", finished.stderr);
}
