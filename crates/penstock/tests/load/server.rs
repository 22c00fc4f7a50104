//! Against Penstock: generator and server must report the same.

use std::fs;

use boring::sha::sha256;
use serde_json::Value;

use crate::command::{count, load, report};
use penstock_testkit::{Server, Setup, until};

/// Waits until the server has counted this many handshakes.
fn handshakes(server: &Server, labels: &[&str], expected: u64) {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let expected = expected as f64;
    until(&format!("{expected} handshakes with {labels:?}"), || {
        let found = server.metrics().sum("penstock_handshakes_total", labels);
        ((found - expected).abs() < 0.5).then_some(())
    });
}

/// A URL by address, and the options that make it trusted.
fn https(server: &Server, path: &str) -> (String, [String; 2]) {
    let authority = server.certificates().authority().display().to_string();
    (server.url(path), ["--ca".to_owned(), authority])
}

/// Runs a mode against a path with these options, the certificate verified.
fn run(server: &Server, mode: &str, path: &str, options: &[&str]) -> Value {
    let (url, [ca, authority]) = https(server, path);
    let report = report(&[&[mode, &ca, &authority, &url], options].concat());
    assert_eq!(count(&report, "errors_total"), 0, "{report:#}");
    report
}

#[test]
fn full_handshakes_are_counted_alike_on_both_sides() {
    let server = Setup::new().start();
    let file = server.file("1k.bin", 1024);
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let options = ["--requests", "20", "--connections", "4", "--threads", "2", "--tls", version];
        let report = run(&server, "handshakes", "/1k.bin", &options);
        assert_eq!(count(&report, "handshakes"), 20);
        assert_eq!(count(&report, "connections_opened"), 20);
        assert_eq!(count(&report, "requests"), 20);
        assert_eq!(count(&report, "bytes"), 20 * file.len);
        assert_eq!(count(&report, "resumed"), 0);
        for phase in ["tcp", "tls", "first_byte", "total"] {
            assert_eq!(count(&report, &format!("latency_ms.{phase}.count")), 20);
        }
        assert!(report["handshakes_per_second"].as_f64().unwrap() > 0.0);
        handshakes(&server, &[&format!("version=\"{name}\""), "resumed=\"false\"", "outcome=\"ok\""], 20);
    }
}

#[test]
fn tickets_are_resumed_in_both_versions_but_for_the_first_handshake() {
    let server = Setup::new().start();
    server.file("1k.bin", 1024);
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let options = ["--requests", "10", "--tls", version, "--resume", "ticket"];
        let report = run(&server, "handshakes", "/1k.bin", &options);
        assert_eq!((count(&report, "handshakes"), count(&report, "resumed")), (10, 9), "{report:#}");
        assert_eq!(count(&report, "sessions_offered"), 9);
        handshakes(&server, &[&format!("version=\"{name}\""), "resumed=\"true\""], 9);
    }
}

#[test]
fn a_handshake_without_a_request_takes_its_ticket_all_the_same() {
    let server = Setup::new().start();
    let options = ["--requests", "10", "--tls", "1.3", "--resume", "ticket", "--no-request"];
    let report = run(&server, "handshakes", "/", &options);
    assert_eq!((count(&report, "resumed"), count(&report, "requests")), (9, 0), "{report:#}");
}

#[test]
fn sessions_outlive_a_run_in_a_file_that_only_its_owner_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let server = Setup::new().start();
    server.file("1k.bin", 1024);
    let file = server.directory().join("sessions");
    let kept = file.to_str().unwrap();
    let options = ["--requests", "1", "--resume", "ticket", "--sessions", kept];
    let first = run(&server, "handshakes", "/1k.bin", &options);
    assert_eq!(count(&first, "resumed"), 0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let second = run(&server, "handshakes", "/1k.bin", &options);
    assert_eq!(count(&second, "resumed"), 1, "{second:#}");
    // Sessions belong to a server name.
    let other = [&options[..], &["--sni", "video.example"]].concat();
    assert_eq!(count(&run(&server, "handshakes", "/1k.bin", &other), "sessions_offered"), 0);
}

#[test]
fn the_parameters_that_are_offered_are_negotiated() {
    let server = Setup::new().start();
    server.file("1k.bin", 1024);
    for (options, agreed) in [
        (
            &["--tls", "1.3", "--cipher", "TLS_AES_256_GCM_SHA384", "--group", "P-256"][..],
            "TLSv1.3 TLS_AES_256_GCM_SHA384 P-256 http/1.1",
        ),
        (
            &["--tls", "1.2", "--cipher", "ECDHE-RSA-AES128-GCM-SHA256", "--group", "X25519", "--alpn", ""],
            "TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 X25519",
        ),
        (
            &["--tls", "1.2", "--signature-algorithm", "RSA-PSS+SHA256", "--group", "X25519"],
            "TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 X25519 http/1.1",
        ),
    ] {
        let report = run(&server, "handshakes", "/1k.bin", &[options, &["--requests", "2"]].concat());
        assert_eq!(report["agreed"][agreed], 2, "{:#}", report["agreed"]);
    }
}

#[test]
fn requests_keep_their_connection_or_open_one_each() {
    let server = Setup::new().start();
    let files: Vec<_> = (0..3).map(|number| server.file(&format!("{number}.bin"), 1000 + number)).collect();
    let all = ["--requests", "30", "--objects", "3", "--checksum"];
    let kept = run(&server, "requests", "/{}.bin", &all);
    assert_eq!((count(&kept, "requests"), count(&kept, "connections_opened")), (30, 1));
    assert_eq!(count(&kept, "bytes"), 10 * files.iter().map(|file| file.len).sum::<u64>());
    let each = run(&server, "requests", "/{}.bin", &[&all[..], &["--no-keepalive"]].concat());
    assert_eq!((count(&each, "requests"), count(&each, "handshakes")), (30, 30));
    let plain = report(&["requests", "--requests", "10", &server.plain_url("/0.bin")]);
    assert_eq!((count(&plain, "requests"), count(&plain, "handshakes")), (10, 0));
}

#[test]
fn heads_and_ranges_bring_as_many_bytes_as_they_should() {
    let server = Setup::new().start();
    server.file("film.bin", 100_000);
    let heads = run(&server, "requests", "/film.bin", &["--requests", "5", "--method", "HEAD"]);
    assert_eq!((count(&heads, "requests"), count(&heads, "bytes")), (5, 0));
    let ranges = run(&server, "requests", "/film.bin", &["--requests", "5", "--range", "10-19"]);
    assert_eq!((count(&ranges, "statuses.206"), count(&ranges, "bytes")), (5, 50));
    let random = ["--requests", "20", "--random-range", "1KB:100KB"];
    assert_eq!(count(&run(&server, "requests", "/film.bin", &random), "bytes"), 20_000);
}

#[test]
fn a_download_is_checked_to_its_last_byte() {
    let server = Setup::new().start();
    let film = server.file("film.bin", 5_000_000);
    let digits: String = sha256(&film.all()).iter().map(|byte| format!("{byte:02x}")).collect();
    let options = ["--requests", "4", "--connections", "2", "--sha256", &digits];
    let whole = run(&server, "download", "/film.bin", &options);
    assert_eq!(count(&whole, "bytes"), 4 * film.len);
    let paced = ["--requests", "1", "--bitrate", "100Mbit"];
    assert_eq!(count(&run(&server, "download", "/film.bin", &paced), "bytes"), film.len);
    let (url, [ca, authority]) = https(&server, "/film.bin");
    let wrong = "0".repeat(64);
    let report = report(&["download", &ca, &authority, &url, "--requests", "2", "--sha256", &wrong]);
    assert_eq!(count(&report, "errors.body_wrong"), 2, "{report:#}");
}

#[test]
fn addresses_share_the_load_and_are_reported_with_their_resumptions() {
    let server = Setup::new().listeners(&["tls: true", "tls: true"]).start();
    server.file("1k.bin", 1024);
    let addresses = [0, 1].map(|place| server.listener(place).to_string());
    let mut options = vec!["--requests", "10", "--resume", "ticket"];
    for address in &addresses {
        options.extend(["--address", address]);
    }
    let report = run(&server, "handshakes", "/1k.bin", &options);
    for address in &addresses {
        assert_eq!(report["addresses"][address]["handshakes"], 5, "{report:#}");
    }
    assert_eq!(count(&report, "resumed"), 9);
}

#[test]
fn logs_and_plots_are_written_and_the_table_is_for_people() {
    let server = Setup::new().start();
    server.file("1k.bin", 1024);
    let (url, [ca, authority]) = https(&server, "/1k.bin");
    let [hdr, plot] = ["run.hlog", "run.svg"].map(|name| server.directory().join(name));
    let (hdr_name, plot_name) = (hdr.to_str().unwrap(), plot.to_str().unwrap());
    let options =
        ["requests", &ca, &authority, &url, "--duration", "1500ms", "--hdr", hdr_name, "--plot", plot_name];
    let table = load(&options).ok().text();
    for word in ["requests", "errors", "first byte", "p99.9", "agreed on", "TLSv1.3"] {
        assert!(table.contains(word), "{word} is missing in:\n{table}");
    }
    let log = fs::read_to_string(hdr).unwrap();
    assert!(log.lines().any(|line| line.starts_with("Tag=total,")), "{log}");
    let svg = fs::read_to_string(plot).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(">Latency by percentile"),
        "{svg}"
    );
}
