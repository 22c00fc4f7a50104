//! How the network carried responses, and how long origins took.

use std::io::Write;
use std::net::TcpStream;

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Server, Setup, Tool, until};

use super::section;

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
    let ask = |version: &str, path: &str| {
        Tool::curl(&server).args([version, "-o", "/dev/null"]).arg(server.url(path)).run().ok();
    };
    for (version, label) in [("--http1.1", "version=\"h1\""), ("--http2", "version=\"h2\"")] {
        let labels = ["site=\"localhost\"", label];
        let names = ["penstock_site_delivery_rate_bytes_per_second", "penstock_site_retransmitted_ratio"];
        ask(version, "/small.mp4");
        let mut large = 0.0;
        // The whole of a response may still be under way when it is measured, which gives no rate.
        until("a rate and a share of each version", || {
            large += 1.0;
            ask(version, "/large.mp4");
            server.counted("penstock_site_round_trip_seconds_count", &labels, large);
            names.iter().all(|name| seen(&server, name, &labels) > 0.0).then_some(())
        });
        assert!(names.iter().all(|name| seen(&server, name, &labels) <= large), "{label}");
        let rates = server.metrics().sum("penstock_site_delivery_rate_bytes_per_second_sum", &labels);
        assert!(rates >= seen(&server, names[0], &labels), "{label}: {rates}");
    }
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
    assert_eq!(seen(&server, "penstock_site_delivery_rate_bytes_per_second", &labels), 1.0);
    assert!(server.logged("/large.mp4")["rtt_ms"].is_number());
}

#[test]
fn responses_that_clients_receive_more_slowly_than_a_rendition_needs_are_counted_by_its_rate() {
    // Few responses are received as fast as the second one, which loopback may reach.
    let setup = Setup::new().sites("- {hosts: [localhost], origin: {directory: root}}");
    let server = setup.section("metrics: {rates: [1, 12500000000]}").start();
    server.file("large.mp4", 3_000_000);
    let mut client = Client::plain(&server);
    let name = "penstock_site_slow_responses_total";
    let slow = || server.metrics().sum(name, &["site=\"localhost\"", "rate=\"12500000000\""]);
    let mut responses = 0.0;
    until("three slow responses", || {
        responses += 1.0;
        client.get("/large.mp4");
        server.counted("penstock_site_round_trip_seconds_count", &[], responses);
        (slow() >= 3.0).then_some(())
    });
    assert!(slow() <= seen(&server, "penstock_site_delivery_rate_bytes_per_second", &[]));
    server.counted(name, &["rate=\"1\""], 0.0);
    // All of them came from one address.
    server.counted("penstock_site_slow_viewers", &["site=\"localhost\"", "rate=\"12500000000\""], 1.0);
    server.counted("penstock_site_slow_viewers", &["rate=\"1\""], 0.0);
    server.counted("penstock_site_measured_viewers", &["site=\"localhost\""], 1.0);
    let site = section(&server, "localhost");
    let slow = &site["slow"][1];
    assert_eq!(
        (&slow["bytes_per_second"], &slow["viewers"]),
        (&12_500_000_000_u64.into(), &1.into()),
        "{site}"
    );
    assert_eq!(site["measured_viewers"], 1);
}

#[test]
fn clients_of_different_addresses_are_different_viewers() {
    let setup = Setup::new().listeners(&["proxy_protocol: true"]);
    let setup = setup.sites("- {hosts: [localhost], origin: {directory: root}}");
    let server = setup.section("metrics: {rates: [12500000000]}").start();
    server.file("large.mp4", 3_000_000);
    let ask = |address: &str| {
        let mut socket = TcpStream::connect(server.http()).unwrap();
        socket.write_all(format!("PROXY TCP4 {address} 127.0.0.1 4000 443\r\n").as_bytes()).unwrap();
        assert_eq!(Client::over(socket).get("/large.mp4").status, 200);
    };
    // Four addresses, of which two may be in one register, and in the rarest case more.
    until("at least two viewers", || {
        (1..=4).for_each(|number| ask(&format!("192.0.2.{number}")));
        let viewers = server.metrics().sum("penstock_site_slow_viewers", &["site=\"localhost\""]);
        assert!(viewers <= 4.0, "{viewers}");
        (viewers >= 2.0).then_some(())
    });
}

#[test]
fn requests_to_each_server_of_an_origin_are_timed_and_counted_by_site_and_outcome() {
    let origin = Origin::start(|head, _, stream| match head {
        head if head.contains("/busy") => answer(stream, "503 Service Unavailable", "", b""),
        head if head.contains("/broken") => false,
        head if head.contains("/short") => {
            let cut = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 100000\r\n\r\nvideo";
            stream.write_all(cut.as_bytes()).is_err()
        }
        _ => answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", b"video"),
    });
    let relay = Origin::answering("200 OK", "", "relayed");
    let (url, second) = (origin.url(), relay.url());
    // The first and the last site have equal origins.
    let sites = format!(
        "- {{hosts: [video.test], origin: {{http: [\"{url}\"], retries: 0}}}}\n\
         - {{hosts: [relay.test], origin: {{http: [\"{second}\"], cache: off}}}}\n\
         - {{hosts: [short.test], origin: {{http: [\"{url}\"], cache: off, retries: 0}}}}\n\
         - {{hosts: [same.test], origin: {{http: [\"{url}\"], retries: 0}}}}"
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
        ("same.test", "/c", 200),
        ("same.test", "/busy", 503),
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
    server.counted(name, &["site=\"same.test\"", &target, "outcome=\"answered\""], 1.0);
    server.counted(name, &["site=\"same.test\"", &target, "outcome=\"refused\""], 1.0);
    server.counted(name, &["site=\"same.test\""], 2.0);
    for (site, heads) in
        [("site=\"video.test\"", 2.0), ("site=\"relay.test\"", 1.0), ("site=\"same.test\"", 2.0)]
    {
        assert_eq!(seen(&server, "penstock_origin_target_first_byte_seconds", &[site]), heads, "{site}");
        server.counted("penstock_origin_target_response_seconds_count", &[site], heads);
    }
    let connected =
        |site: &str| seen(&server, "penstock_origin_target_connect_seconds", &[&format!("site=\"{site}\"")]);
    assert!(connected("video.test") >= 1.0 && connected("relay.test") >= 1.0);
    let status = super::status(&server);
    let servers = status["origins"]["servers"].as_array().unwrap();
    let shared = servers.iter().find(|server| server["url"] == url).unwrap();
    assert_eq!(shared["answered"], 2, "of both sites, once: {status}");
    // A body that ends too soon, on its way into the cache and relayed.
    let incomplete = "penstock_origin_target_incomplete_total";
    server.counted(incomplete, &[], 0.0);
    for host in ["short.test", "same.test"] {
        client = Client::plain(&server);
        client.send(format!("GET /short HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        drop(client.rest_until_cut());
        let site = format!("site=\"{host}\"");
        until("the cut body", || {
            let cut = server.metrics().sum(incomplete, &[&site, &target, "reason=\"cut_short\""]);
            (cut >= 1.0).then_some(())
        });
    }
    assert_eq!(server.metrics().sum(incomplete, &["site=\"video.test\""]), 0.0);
}
