//! Counts by site.

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Server, Setup, Tool, until};
use serde_json::Value;

use super::section;

fn asked(client: &mut Client<impl std::io::Read + std::io::Write>, host: &str, path: &str) -> u16 {
    client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).status
}

fn requests(server: &Server, site: &str, class: &str) -> f64 {
    let labels = [format!("site=\"{site}\""), format!("status=\"{class}\"")];
    server.metrics().sum("penstock_site_requests_total", &[&labels[0], &labels[1]])
}

#[test]
fn requests_are_counted_by_site_over_each_version_of_http() {
    let sites = "- {hosts: [localhost], origin: {directory: root}}\n\
                 - {hosts: [\"*.example\"], origin: {directory: root}}\n\
                 - {hosts: [idle.test], origin: {directory: root}}";
    let server = Setup::new().listeners(&["tls: true, protocols: [h1, h2, h3]", ""]).sites(sites).start();
    server.file("clip.mp4", 100_000);
    let mut client = Client::plain(&server);
    assert_eq!(asked(&mut client, "localhost", "/clip.mp4"), 200);
    assert_eq!(asked(&mut client, "localhost", "/none.mp4"), 404);
    assert_eq!(asked(&mut client, "a.example", "/none.mp4"), 404);
    assert_eq!(asked(&mut client, "elsewhere.test", "/clip.mp4"), 421, "no site");
    let curl = Tool::curl(&server).args(["--http2", "-o", "/dev/null", "-w", "%{http_version}"]);
    assert_eq!(curl.arg(server.url("/clip.mp4")).run().ok().text(), "2");
    // The client has a response before the server has counted it.
    until("the counts", || (requests(&server, "localhost", "2xx") == 2.0).then_some(()));
    until("the counts", || (requests(&server, "*.example", "4xx") == 1.0).then_some(()));
    assert_eq!(requests(&server, "localhost", "4xx"), 1.0);
    let metrics = server.metrics();
    let whole = metrics.sum("penstock_site_body_bytes_total", &["site=\"localhost\""]);
    assert!((200_000.0..210_000.0).contains(&whole), "two files and a page: {whole}");
    let first = metrics.sum("penstock_site_time_to_first_byte_seconds_count", &["site=\"localhost\""]);
    assert_eq!(first, 3.0);
    assert_eq!(metrics.sum("penstock_site_requests_total", &["idle.test"]), 0.0);
    let site = section(&server, "localhost");
    assert_eq!(
        (&site["requests"], &site["by_class"]["4xx"], &site["cache_requests"]),
        (&3.into(), &1.into(), &0.into())
    );
    assert_eq!(section(&server, "idle.test"), Value::Null);
}

#[test]
fn the_hit_ratio_of_a_site_follows_by_requests_and_by_bytes() {
    let origin = Origin::start(|head, _, stream| {
        let body = vec![b'v'; if head.contains("/large") { 9_000 } else { 1_000 }];
        answer(stream, "200 OK", "Cache-Control: max-age=600\r\n", &body)
    });
    let sites = format!("- {{hosts: [video.test], origin: {{http: [\"{}\"]}}}}", origin.url());
    let memory = penstock_testkit::memory_directory();
    let cache = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
    let server = Setup::new().sites(&sites).section(&cache).start();
    let mut client = Client::plain(&server);
    for path in ["/large", "/small", "/small", "/small"] {
        assert_eq!(asked(&mut client, "video.test", path), 200);
    }
    let site = until("four requests", || {
        let site = section(&server, "video.test");
        (site["cache_requests"] == 4).then_some(site)
    });
    assert_eq!(
        (&site["hit_requests"], &site["hit_bytes"], &site["cache_bytes"]),
        (&2.into(), &2_000.into(), &12_000.into())
    );
    let metrics = server.metrics();
    for (outcome, requests, bytes) in [("hit", 2.0, 2_000.0), ("miss", 2.0, 10_000.0), ("stale", 0.0, 0.0)] {
        let labels = ["site=\"video.test\"".to_owned(), format!("outcome=\"{outcome}\"")];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        assert_eq!(metrics.sum("penstock_site_cache_requests_total", &labels), requests, "{outcome}");
        assert_eq!(metrics.sum("penstock_site_cache_body_bytes_total", &labels), bytes, "{outcome}");
    }
}

#[test]
fn a_download_that_its_client_breaks_off_is_counted_for_its_site_by_cause() {
    let server = Setup::new().sites("- {hosts: [video.test], origin: {directory: root}}").start();
    server.file("large.mp4", 64 << 20);
    let mut client = Client::plain(&server);
    client.send("GET /large.mp4 HTTP/1.1\r\nHost: video.test\r\n\r\n");
    client.take(1).unwrap();
    drop(client);
    server.counted(
        "penstock_site_short_responses_total",
        &["site=\"video.test\"", "reason=\"client_closed\""],
        1.0,
    );
    assert_eq!(section(&server, "video.test")["short"]["client_closed"], 1);
}

#[test]
fn the_counts_of_a_site_go_on_over_a_reload_that_moves_it() {
    let setup = Setup::new().sites(
        "- {hosts: [a.test], origin: {directory: root}}\n- {hosts: [b.test], origin: {directory: root}}",
    );
    let server = setup.start();
    server.file("clip.mp4", 1_000);
    let mut client = Client::plain(&server);
    assert_eq!(asked(&mut client, "b.test", "/clip.mp4"), 200);
    server.reload(&setup.sites("- {hosts: [new.test], origin: {directory: root}}\n- {hosts: [b.test], origin: {directory: root}}\n- {hosts: [a.test], origin: {directory: root}}"));
    for host in ["b.test", "a.test", "a.test", "new.test", "new.test", "new.test"] {
        assert_eq!(asked(&mut client, host, "/clip.mp4"), 200);
    }
    for (site, expected) in [("a.test", 2.0), ("b.test", 2.0), ("new.test", 3.0)] {
        let label = format!("site=\"{site}\"");
        server.counted("penstock_site_requests_total", &[&label], expected);
    }
}
