//! How the network carried responses, and how long origins took.

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Server, Setup, Tool};

use crate::http3::{content, has_client};

/// Observations of a histogram.
fn seen(server: &Server, name: &str, labels: &[&str]) -> f64 {
    server.metrics().sum(&format!("{name}_count"), labels)
}

#[test]
fn large_responses_are_measured_over_each_version_of_http_and_small_ones_are_not() {
    let server = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}").start();
    server.file("large.mp4", 3_000_000);
    server.file("small.mp4", 10_000);
    for (version, label) in [("--http1.1", "version=\"h1\""), ("--http2", "version=\"h2\"")] {
        for path in ["/small.mp4", "/large.mp4", "/large.mp4"] {
            Tool::curl(&server).args([version, "-o", "/dev/null"]).arg(server.url(path)).run().ok();
        }
        let labels = ["site=\"localhost\"", label];
        server.counted("penstock_site_round_trip_seconds_count", &labels, 2.0);
        // The whole response may still be under way when it is measured.
        assert!(seen(&server, "penstock_site_delivery_rate_bytes_per_second", &labels) <= 2.0);
        assert!(seen(&server, "penstock_site_retransmitted_ratio", &labels) <= 2.0);
    }
    let rate = server.metrics().sum("penstock_site_delivery_rate_bytes_per_second_sum", &[]);
    let measured = seen(&server, "penstock_site_delivery_rate_bytes_per_second", &[]);
    assert!(rate > 0.0 || measured == 0.0, "{measured} rates with the sum {rate}");
}

#[test]
fn over_http_3_quic_is_asked_how_a_response_was_carried() {
    if !has_client() {
        return;
    }
    let setup = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}");
    let server = setup.listeners(&["tls: true, protocols: [h1, h2, h3]", ""]).start();
    server.file("large.mp4", 500_000);
    assert_eq!(content(&server, "/large.mp4").len(), 500_000);
    let labels = ["site=\"localhost\"", "version=\"h3\""];
    server.counted("penstock_site_round_trip_seconds_count", &labels, 1.0);
    assert_eq!(seen(&server, "penstock_site_retransmitted_ratio", &labels), 1.0);
    assert!(server.logged("/large.mp4")["rtt_ms"].is_number());
}

#[test]
fn responses_that_clients_receive_more_slowly_than_a_rendition_needs_are_counted_by_its_rate() {
    // No client receives as fast as the second one.
    let setup = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}");
    let server = setup.section("metrics: {rates: [1, 12500000000]}").start();
    server.file("large.mp4", 3_000_000);
    let mut client = Client::plain(&server);
    let measured = "penstock_site_delivery_rate_bytes_per_second";
    for _ in 0..3 {
        client.get("/large.mp4");
    }
    server.counted("penstock_site_round_trip_seconds_count", &[], 3.0);
    let name = "penstock_site_slow_responses_total";
    server.counted(name, &["site=\"localhost\"", "rate=\"12500000000\""], seen(&server, measured, &[]));
    server.counted(name, &["rate=\"1\""], 0.0);
}

#[test]
fn requests_to_each_server_of_an_origin_are_timed_and_counted_by_site_and_outcome() {
    let origin = Origin::start(|head, _, stream| match head {
        head if head.contains("/busy") => answer(stream, "503 Service Unavailable", "", b""),
        head if head.contains("/broken") => false,
        _ => answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", b"video"),
    });
    let relay = Origin::answering("200 OK", "", "relayed");
    let (url, second) = (origin.url(), relay.url());
    let sites = format!(
        "- {{hosts: [video.test], origin: {{http: [\"{url}\"], retries: 0}}}}\n\
         - {{hosts: [relay.test], origin: {{http: [\"{second}\"], cache: off}}}}"
    );
    let memory = penstock_testkit::memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&sites).section(&cache).start();
    server.tolerate_warning("is out: ");
    let mut client = Client::plain(&server);
    for (host, path, status) in [
        ("video.test", "/a", 200),
        ("video.test", "/a", 200),
        ("video.test", "/busy", 503),
        ("video.test", "/broken", 502),
        ("relay.test", "/b", 200),
    ] {
        let response = client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, status, "{host}{path}");
    }
    let name = "penstock_origin_target_requests_total";
    let target = format!("target=\"{url}\"");
    for (outcome, count) in [("answered", 1.0), ("refused", 1.0), ("cut_short", 1.0)] {
        server.counted(name, &["site=\"video.test\"", &target, &format!("outcome=\"{outcome}\"")], count);
    }
    server.counted(name, &["site=\"relay.test\"", "outcome=\"answered\""], 1.0);
    for site in ["site=\"video.test\"", "site=\"relay.test\""] {
        let heads = if site.contains("video") { 2.0 } else { 1.0 };
        assert_eq!(seen(&server, "penstock_origin_target_first_byte_seconds", &[site]), heads, "{site}");
        server.counted("penstock_origin_target_response_seconds_count", &[site], heads);
        assert!(seen(&server, "penstock_origin_target_connect_seconds", &[site]) >= 1.0, "{site}");
    }
}
